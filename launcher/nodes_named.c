/* nodes_named: see nodes_named.h. Goes on after a failure, unless nobody answers; the first one decides the exit code. */
#include "launcher/nodes_named.h"

#include <stdlib.h>

#include "launcher/client.h"

int nodes_named_each(const struct args *args, int (*fn)(void *ctx, const char *name, const char *escaped),
                     void *ctx)
{
    int rc = CLI_DONE, one = CLI_DONE;
    for (size_t i = 0; i < args->n_words && one != CLI_UNREACHABLE; i++) {
        char *escaped = client_escape(args->words[i]);
        one = fn(ctx, args->words[i], escaped);
        rc = rc ? rc : one;
        free(escaped);
    }
    return rc;
}
