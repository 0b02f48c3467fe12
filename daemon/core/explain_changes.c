/* explain_changes: nodes back in service, a wider border, a smaller mesh: each is put to the engine, and said when it helps. */
#include <stdlib.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "daemon/core/explain_private.h"

enum { NAMES_MAX = 5, TRIES_MAX = 64 };

void explain_add_change(struct verdict *v, char *text)
{
    v->changes = mem_grow(v->changes, v->n_changes + 1, sizeof(*v->changes));
    v->changes[v->n_changes++] = text;
}

const char *explain_domain(enum job_domain domain)
{
    static const char *const words[DOMAIN_COUNT] = {[DOMAIN_NODE] = "a node",
                                                    [DOMAIN_NVLINK] = "an NVLink domain",
                                                    [DOMAIN_RACK] = "a rack",
                                                    [DOMAIN_POD] = "a pod",
                                                    [DOMAIN_CLUSTER] = "the cluster"};
    return words[domain];
}

/* What it would do then, or NULL: a job that never fits is helped already when it could fit. */
static const char *effect(const struct inquiry *q, const struct job_spec *spec)
{
    enum placement_result result = inquiry_ask(q, spec, NULL);
    struct err why;
    if (result == PLACEMENT_OK && !inquiry_waits(q, spec, &why))
        return "start now";
    return q->out->kind == VERDICT_NEVER && result != PLACEMENT_NEVER ? "fit this cluster" : NULL;
}

/* ---- nodes ---- */

static char *list_names(const char *const *names, size_t n)
{
    char *text = str_dup("");
    for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
        char *longer = str_printf("%s%s%s", text, i ? ", " : "", names[i]);
        free(text);
        text = longer;
    }
    if (n <= NAMES_MAX)
        return text;
    char *longer = str_printf("%s and %zu more", text, n - NAMES_MAX);
    free(text);
    return longer;
}

static bool starts_with(const struct inquiry *q, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        placement_view_usable(q->view, q->idle[i], true);
    bool starts = inquiry_ask(q, q->spec, NULL) == PLACEMENT_OK;
    for (size_t i = from; i < to; i++)
        placement_view_usable(q->view, q->idle[i], false);
    return starts;
}

/* The shortest run of nodes out of service, in their order, that would do: first its end, then its beginning. Nothing is said where another
 * job would take them first. */
static void try_nodes(const struct inquiry *q)
{
    size_t low = 0, high = q->n_idle, last;
    if (q->head || q->n_idle == 0 || !starts_with(q, 0, q->n_idle))
        return;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (starts_with(q, 0, mid))
            high = mid;
        else
            low = mid;
    }
    last = high;
    for (low = 0; high - low > 1;) {
        size_t mid = low + (high - low) / 2;
        if (starts_with(q, mid, last))
            low = mid;
        else
            high = mid;
    }
    char *names = list_names(q->idle + low, last - low);
    explain_add_change(q->out, str_printf("with %s back in service it would start now", names));
    free(names);
}

/* ---- borders ---- */

static void say_border(const struct inquiry *q, const char *axis, enum job_domain within, const char *would)
{
    if (within == DOMAIN_CLUSTER)
        explain_add_change(q->out,
                           str_printf("with placement.%s {required: false} it would %s", axis, would));
    else
        explain_add_change(q->out, str_printf("with placement.%s {within: %s} it would %s", axis,
                                              job_domain_name(within), would));
}

/* The next wider border that helps. border is part of spec. */
static void try_border(const struct inquiry *q, const struct job_spec *spec, int64_t size,
                       struct job_border *border, const char *axis)
{
    const char *would = NULL;
    enum job_domain was = border->within;
    if (size <= 1 || !border->required)
        return;
    while (!would && border->within < DOMAIN_CLUSTER) {
        border->within++;
        would = effect(q, spec);
    }
    if (would)
        say_border(q, axis, border->within, would);
    border->within = was;
}

static void try_borders(const struct inquiry *q)
{
    struct job_spec loose = *q->spec;
    size_t before = q->out->n_changes;
    try_border(q, &loose, loose.dp, &loose.placement.dp, "dp");
    try_border(q, &loose, loose.pp, &loose.placement.pp, "pp");
    try_border(q, &loose, loose.cp, &loose.placement.cp, "cp");
    try_border(q, &loose, loose.ep, &loose.placement.ep, "ep");
    if (q->out->n_changes == before) /* the dearest one to loosen */
        try_border(q, &loose, loose.tp, &loose.placement.tp, "tp");
}

/* ---- size ---- */

static bool dp_divides(const struct job_spec *spec, int64_t dp)
{
    if ((dp * spec->cp) % spec->ep != 0)
        return false;
    return !spec->is_train || spec->train.batch_global % (spec->train.batch_micro * dp) == 0;
}

static void say_smaller(const struct inquiry *q, const struct job_spec *smaller, const char *would)
{
    if (q->spec->is_train)
        explain_add_change(q->out,
                           str_printf("with parallel.dp %lld instead of %lld it would %s, on %lld ranks",
                                      (long long)smaller->dp, (long long)q->spec->dp, would,
                                      (long long)smaller->ranks));
    else
        explain_add_change(q->out, str_printf("with %lld rank%s it would %s", (long long)smaller->ranks,
                                              smaller->ranks == 1 ? "" : "s", would));
}

/* The largest smaller data parallelism that helps. fits: ranks that fit, where it matters. */
static void try_smaller(const struct inquiry *q, int64_t fits)
{
    struct job_spec smaller = *q->spec;
    int64_t replica = q->spec->ranks / q->spec->dp, most = fits / replica;
    int64_t dp = most < q->spec->dp ? most : q->spec->dp - 1;
    for (int tries = 0; dp >= 1 && tries < TRIES_MAX; dp--) {
        if (!dp_divides(q->spec, dp))
            continue;
        tries++;
        smaller.dp = dp;
        smaller.ranks = replica * dp;
        const char *would = effect(q, &smaller);
        if (!would)
            continue;
        say_smaller(q, &smaller, would);
        return;
    }
}

void explain_changes(const struct inquiry *q, const struct placement_room *now,
                     const struct placement_room *all)
{
    try_nodes(q);
    try_borders(q);
    try_smaller(q, q->out->kind == VERDICT_NEVER ? all->fits : now->fits);
}
