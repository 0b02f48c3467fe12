/* nodes_named: see nodes_named.h. All words are read before anything is done. Goes on after a failure, unless nobody answers; the first one
 * decides the exit code. */
#include "launcher/nodes_named.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/client.h"
#include "schema/hostlist.h"

/* Adds the names of a word; one without brackets and commas stands for itself, whatever it is. */
static int add_word(struct hostlist *all, const char *word)
{
    struct hostlist more = {0};
    struct err err;
    if (!strpbrk(word, "[],")) {
        more.names = mem_zero(1, sizeof *more.names);
        more.names[more.n++] = str_dup(word);
    } else if (hostlist_expand(word, NODES_NAMED_MAX - all->n, &more, &err) != 0) {
        return cli_fail(CLI_USAGE, "%s", err.text);
    }
    all->names = mem_grow(all->names, all->n + more.n, sizeof *all->names);
    memcpy(all->names + all->n, more.names, more.n * sizeof *all->names);
    all->n += more.n;
    free(more.names);
    return CLI_DONE;
}

static int each(const struct hostlist *all, int (*fn)(void *ctx, const char *name, const char *escaped),
                void *ctx)
{
    int rc = CLI_DONE, one = CLI_DONE;
    for (size_t i = 0; i < all->n && one != CLI_UNREACHABLE; i++) {
        char *escaped = client_escape(all->names[i]);
        one = fn(ctx, all->names[i], escaped);
        rc = rc ? rc : one;
        free(escaped);
    }
    return rc;
}

int nodes_named_each(const struct args *args, int (*fn)(void *ctx, const char *name, const char *escaped),
                     void *ctx)
{
    struct hostlist all = {0};
    int rc = CLI_DONE;
    for (size_t i = 0; i < args->n_words && rc == CLI_DONE; i++)
        rc = add_word(&all, args->words[i]);
    if (rc == CLI_DONE)
        rc = each(&all, fn, ctx);
    hostlist_clear(&all);
    return rc;
}
