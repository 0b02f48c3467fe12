/* nodes_named: see nodes_named.h. All words are read before anything is done. Goes on after a failure, unless nobody answers; the first one
 * decides the exit code. */
#include "launcher/nodes_named.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/client.h"
#include "schema/hostlist.h"

enum { UNKNOWN_NAMED = 5 }; /* of the nodes that are not there */

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

/* ---- are all of them there? ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the nodes of the cluster, sorted; fresh array, the names belong to nodes. */
static const char **sorted_names(const json_t *nodes, size_t *n)
{
    *n = json_array_size(nodes);
    const char **names = mem_zero(*n + 1, sizeof *names);
    for (size_t i = 0; i < *n; i++)
        names[i] = jsonx_str_or(json_array_get(nodes, i), "name", "");
    if (*n > 1)
        qsort(names, *n, sizeof *names, compare_names);
    return names;
}

static int refuse_unknown(const struct hostlist *unknown, const char *done)
{
    char *names = str_dup(unknown->names[0]), *rest = NULL;
    for (size_t i = 1; i < unknown->n && i < UNKNOWN_NAMED; i++) {
        char *longer = str_printf("%s, %s", names, unknown->names[i]);
        free(names);
        names = longer;
    }
    if (unknown->n > UNKNOWN_NAMED)
        rest = str_printf(" and %zu more", unknown->n - UNKNOWN_NAMED);
    int rc = cli_fail(CLI_NO_SUCH, "there is no node %s%s, so nothing was %s; `belay nodes` lists them",
                      names, rest ? rest : "", done);
    free(names);
    free(rest);
    return rc;
}

/* One unknown node among many is more likely a slip than a wish for the others. */
static int check_known(const struct hostlist *all, struct client *client, const char *done)
{
    json_t *nodes = NULL;
    size_t n;
    int rc = client_call(client, "GET", NULL, &nodes, "/v1/nodes");
    const char **known = sorted_names(nodes, &n);
    struct hostlist unknown = {.names = mem_zero(all->n, sizeof *unknown.names)};
    for (size_t i = 0; rc == CLI_DONE && i < all->n; i++)
        if (!bsearch(&all->names[i], known, n, sizeof *known, compare_names))
            unknown.names[unknown.n++] = all->names[i];
    if (unknown.n > 0)
        rc = refuse_unknown(&unknown, done);
    free(unknown.names);
    free(known);
    json_decref(nodes);
    return rc;
}

int nodes_named_each(const struct args *args, struct client *client, const char *done,
                     int (*fn)(void *ctx, const char *name, const char *escaped), void *ctx)
{
    struct hostlist all = {0};
    int rc = CLI_DONE;
    for (size_t i = 0; i < args->n_words && rc == CLI_DONE; i++)
        rc = add_word(&all, args->words[i]);
    if (rc == CLI_DONE && done && all.n > 1) /* of one alone, belayd says it */
        rc = check_known(&all, client, done);
    if (rc == CLI_DONE)
        rc = each(&all, fn, ctx);
    hostlist_clear(&all);
    return rc;
}
