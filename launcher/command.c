/* command: the sentences of the command line on stderr. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/command.h"
#include "launcher/text.h"

int cli_fail(int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_clean_vprintf(fmt, ap); /* parts of it may come from outside */
    va_end(ap);
    fflush(stdout); /* so that both appear in order */
    fprintf(stderr, "belay: %s\n", text);
    free(text);
    return code;
}
