/* placement: first fit in topology order, whole mesh or nothing.
 *
 * The unit that is placed is one TP group (consecutive ranks, since TP is the fastest dimension), which never leaves a node
 * unless the job's border says so. Nodes are walked once, each filled as far as it goes, so the ranks of a node follow each other.
 * A job never mixes nodes with and without GPUs: with `device: auto` GPU nodes are tried first. */
#include "daemon/core/placement.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* How much of a node may be counted on: what is free now, what usable nodes have in all, or what the whole cluster has. */
enum view { VIEW_FREE, VIEW_USABLE, VIEW_ALL };

struct search {
    const struct job_spec *spec;
    const struct placement_node **nodes; /* in topology order */
    size_t n_nodes;
    bool gpu, any_device;
    int64_t unit; /* ranks that must share a node */
};

static size_t digits(const char *s)
{
    size_t n = 0;
    while (isdigit((unsigned char)s[n]))
        n++;
    return n;
}

/* Compares the numbers at the front of a and b: shorter without leading zeros is less. */
static int compare_numbers(const char **a, const char **b)
{
    while (**a == '0' && isdigit((unsigned char)(*a)[1]))
        (*a)++;
    while (**b == '0' && isdigit((unsigned char)(*b)[1]))
        (*b)++;
    size_t na = digits(*a), nb = digits(*b);
    int c = na != nb ? (na < nb ? -1 : 1) : strncmp(*a, *b, na);
    *a += na;
    *b += nb;
    return c;
}

int placement_name_compare(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x && *y) {
        if (isdigit((unsigned char)*x) && isdigit((unsigned char)*y)) {
            int c = compare_numbers(&x, &y);
            if (c != 0)
                return c;
        } else if (*x != *y) {
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++;
            y++;
        }
    }
    if (*x || *y)
        return *x ? 1 : -1;
    return strcmp(a, b); /* node01 and node1 are two names */
}

static int compare_nodes(const struct placement_node *a, const struct placement_node *b)
{
    int c = placement_name_compare(a->pod, b->pod);
    if (c == 0)
        c = placement_name_compare(a->rack, b->rack);
    return c != 0 ? c : placement_name_compare(a->name, b->name);
}

static int compare_pointers(const void *a, const void *b)
{
    return compare_nodes(*(const struct placement_node *const *)a, *(const struct placement_node *const *)b);
}

/* Callers mostly keep their nodes sorted: then looking is all. */
static const struct placement_node **in_topology_order(const struct placement_node *nodes, size_t n)
{
    const struct placement_node **sorted = mem_zero(n + 1, sizeof(void *));
    bool in_order = true;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &nodes[i];
        in_order = in_order && (i == 0 || compare_nodes(&nodes[i - 1], &nodes[i]) <= 0);
    }
    if (!in_order)
        qsort(sorted, n, sizeof(void *), compare_pointers);
    return sorted;
}

/* Ranks that fit on the node, in whole units. A node that did not say how much memory it has is not limited by it. */
static int64_t room(const struct search *s, const struct placement_node *node, enum view view)
{
    if ((!s->any_device && node->gpu != s->gpu) || (view != VIEW_ALL && !node->usable))
        return 0;
    int64_t ranks = view == VIEW_FREE ? (int64_t)node->n_free : node->slots;
    int64_t memory = view == VIEW_FREE ? node->free_memory : node->memory;
    if (node->memory > 0 && s->spec->memory > 0 && memory / s->spec->memory < ranks)
        ranks = memory > 0 ? memory / s->spec->memory : 0;
    return ranks / s->unit * s->unit;
}

static bool fits(const struct search *s, enum view view)
{
    int64_t ranks = 0;
    for (size_t i = 0; i < s->n_nodes && ranks < s->spec->ranks; i++)
        ranks += room(s, s->nodes[i], view);
    return ranks >= s->spec->ranks;
}

static void name_copy(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

static void fill(const struct search *s, struct placed_rank *ranks)
{
    int64_t rank = 0;
    for (size_t i = 0; i < s->n_nodes && rank < s->spec->ranks; i++) {
        const struct placement_node *node = s->nodes[i];
        int64_t n = room(s, node, VIEW_FREE);
        for (int64_t k = 0; k < n && rank < s->spec->ranks; k++, rank++) {
            placement_coordinates(s->spec, rank, &ranks[rank]);
            name_copy(ranks[rank].node, sizeof(ranks[rank].node), node->name);
            ranks[rank].slot = node->free_slots[k];
        }
    }
}

static int64_t total_slots(const struct search *s, bool usable_only)
{
    int64_t slots = 0;
    for (size_t i = 0; i < s->n_nodes; i++)
        if ((s->any_device || s->nodes[i]->gpu == s->gpu) && (!usable_only || s->nodes[i]->usable))
            slots += s->nodes[i]->slots;
    return slots;
}

static int64_t largest_node(const struct search *s)
{
    int64_t most = 0;
    for (size_t i = 0; i < s->n_nodes; i++)
        if ((s->any_device || s->nodes[i]->gpu == s->gpu) && s->nodes[i]->slots > most)
            most = s->nodes[i]->slots;
    return most;
}

static const char *kind_of_slots(const struct search *s)
{
    if (s->spec->device == DEVICE_AUTO)
        return "slots";
    return s->spec->device == DEVICE_GPU ? "GPU slots" : "CPU slots";
}

static void explain_never(const struct search *s, struct err *why)
{
    const struct job_spec *spec = s->spec;
    int64_t slots = total_slots(s, false);
    if (slots < spec->ranks)
        err_set(why, "never fits: needs %lld %s, the cluster has %lld", (long long)spec->ranks,
                kind_of_slots(s), (long long)slots);
    else if (largest_node(s) < s->unit)
        err_set(why, "never fits: a TP group needs %lld slots on one node, the largest node has %lld",
                (long long)s->unit, (long long)largest_node(s));
    else
        err_set(why,
                "never fits: %lld ranks in groups of %lld with %lld MiB of memory each are more than the "
                "nodes hold",
                (long long)spec->ranks, (long long)s->unit, (long long)(spec->memory >> 20));
}

/* No counts of what is free now: the sentence is stored with each waiting job and must not change with every slot. */
static void explain_wait(const struct search *s, struct err *why)
{
    long long ranks = (long long)s->spec->ranks;
    if (total_slots(s, true) < s->spec->ranks)
        err_set(why, "waits for %lld %s: the nodes that are up and not draining have %lld", ranks,
                kind_of_slots(s), (long long)total_slots(s, true));
    else if (!fits(s, VIEW_USABLE))
        err_set(why, "waits for nodes with room for %lld ranks in groups of %lld with %lld MiB each", ranks,
                (long long)s->unit, (long long)(s->spec->memory >> 20));
    else
        err_set(why, "waits for %lld free %s: other jobs hold them", ranks, kind_of_slots(s));
}

static bool try_place(struct search *s, bool gpu, bool any_device, struct placed_rank *ranks)
{
    s->gpu = gpu;
    s->any_device = any_device;
    if (!fits(s, VIEW_FREE))
        return false;
    fill(s, ranks);
    return true;
}

static bool try_devices(struct search *s, struct placed_rank *ranks)
{
    switch (s->spec->device) {
    case DEVICE_GPU:
        return try_place(s, true, false, ranks);
    case DEVICE_CPU: /* a GPU node has CPUs too */
        return try_place(s, false, true, ranks);
    case DEVICE_AUTO:
        break;
    }
    return try_place(s, true, false, ranks) || try_place(s, false, false, ranks);
}

/* Could it be placed in an empty cluster? Leaves the search at the kind of device to speak of. */
static bool could_ever_fit(struct search *s)
{
    if (s->spec->device != DEVICE_AUTO)
        return fits(s, VIEW_ALL);
    s->gpu = true;
    if (fits(s, VIEW_ALL))
        return true;
    s->gpu = false;
    if (fits(s, VIEW_ALL))
        return true;
    int64_t cpu_slots = total_slots(s, false);
    s->gpu = true;
    s->gpu = total_slots(s, false) > cpu_slots;
    return false;
}

static int64_t unit_of(const struct job_spec *spec)
{
    return spec->placement.tp.within == DOMAIN_NODE && spec->tp > 1 ? spec->tp : 1;
}

enum placement_result placement_find(const struct job_spec *spec, const struct placement_node *nodes,
                                     size_t n_nodes, struct placed_rank *ranks, struct err *why)
{
    if (n_nodes == 0) {
        err_set(why, "waits for nodes: none has joined the cluster yet");
        return PLACEMENT_WAITS;
    }
    struct search s = {.spec = spec, .n_nodes = n_nodes, .unit = unit_of(spec)};
    s.nodes = in_topology_order(nodes, n_nodes);
    enum placement_result result = PLACEMENT_OK;
    if (!try_devices(&s, ranks)) {
        result = could_ever_fit(&s) ? PLACEMENT_WAITS : PLACEMENT_NEVER;
        if (result == PLACEMENT_WAITS)
            explain_wait(&s, why);
        else
            explain_never(&s, why);
    }
    free(s.nodes);
    return result;
}

void placement_coordinates(const struct job_spec *spec, int64_t rank, struct placed_rank *out)
{
    out->rank = rank;
    out->tp = rank % spec->tp;
    rank /= spec->tp;
    out->cp = rank % spec->cp;
    rank /= spec->cp;
    out->pp = rank % spec->pp;
    out->dp = rank / spec->pp;
}
