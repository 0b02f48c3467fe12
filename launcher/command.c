#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/command.h"
#include "launcher/text.h"

int cli_fail(int code, const char *fmt, ...)
{
    va_list ap;
    char *raw = NULL;
    va_start(ap, fmt);
    if (vasprintf(&raw, fmt, ap) < 0)
        abort();
    va_end(ap);
    char *clean = text_clean(raw); /* parts of it may come from outside */
    fflush(stdout);                /* so that both appear in order */
    fprintf(stderr, "belay: %s\n", clean);
    free(clean);
    free(raw);
    return code;
}
