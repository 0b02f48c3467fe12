/* placement: first fit in topology order, whole mesh or nothing.
 *
 * The unit that is placed is one TP group (consecutive ranks, since TP is the fastest dimension), which never leaves a node
 * unless the job's border says so. Nodes are walked once, each filled as far as it goes, so the ranks of a node follow each other.
 * A job never mixes nodes with and without GPUs: with `device: auto` GPU nodes are tried first. */
#include "daemon/core/placement.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/cluster.h"

/* How much of a node may be counted on: what is free now, what usable nodes have in all, or what the whole cluster has. */
enum view { VIEW_FREE, VIEW_USABLE, VIEW_ALL };

struct placement_view {
    struct placement_node *nodes; /* in topology order, each with free slots of its own */
    size_t n_nodes;
    struct cluster_link links[DOMAIN_COUNT];
};

struct search {
    const struct job_spec *spec;
    const struct placement_node *nodes; /* in topology order */
    size_t n_nodes;
    bool gpu, any_device;
    int64_t unit; /* ranks that must share a node */
};

int placement_name_compare(const char *a, const char *b)
{
    return cluster_name_compare(a, b);
}

static int compare_nodes(const struct placement_node *a, const struct placement_node *b)
{
    int c = placement_name_compare(a->pod, b->pod);
    if (c == 0)
        c = placement_name_compare(a->rack, b->rack);
    return c != 0 ? c : placement_name_compare(a->name, b->name);
}

static int compare_view_nodes(const void *a, const void *b)
{
    return compare_nodes(a, b);
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
        ranks += room(s, &s->nodes[i], view);
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
        const struct placement_node *node = &s->nodes[i];
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
        if ((s->any_device || s->nodes[i].gpu == s->gpu) && (!usable_only || s->nodes[i].usable))
            slots += s->nodes[i].slots;
    return slots;
}

static int64_t largest_node(const struct search *s)
{
    int64_t most = 0;
    for (size_t i = 0; i < s->n_nodes; i++)
        if ((s->any_device || s->nodes[i].gpu == s->gpu) && s->nodes[i].slots > most)
            most = s->nodes[i].slots;
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

struct placement_view *placement_view_new(const struct placement_node *nodes, size_t n_nodes,
                                          const struct cluster_link links[DOMAIN_COUNT])
{
    struct placement_view *v = mem_zero(1, sizeof(*v));
    v->nodes = mem_zero(n_nodes + 1, sizeof(*v->nodes));
    v->n_nodes = n_nodes;
    memcpy(v->links, links, sizeof(v->links));
    if (n_nodes > 0)
        memcpy(v->nodes, nodes, n_nodes * sizeof(*nodes));
    for (size_t i = 0; i < n_nodes; i++) {
        int64_t *slots = mem_zero((size_t)nodes[i].slots + 1, sizeof(int64_t));
        if (nodes[i].n_free > 0)
            memcpy(slots, nodes[i].free_slots, nodes[i].n_free * sizeof(int64_t));
        v->nodes[i].free_slots = slots;
    }
    qsort(v->nodes, n_nodes, sizeof(*v->nodes), compare_view_nodes);
    return v;
}

void placement_view_free(struct placement_view *view)
{
    if (!view)
        return;
    for (size_t i = 0; i < view->n_nodes; i++)
        free((void *)view->nodes[i].free_slots);
    free(view->nodes);
    free(view);
}

static struct placement_node *view_node(struct placement_view *view, const char *name)
{
    for (size_t i = 0; i < view->n_nodes; i++)
        if (strcmp(view->nodes[i].name, name) == 0)
            return &view->nodes[i];
    return NULL;
}

void placement_view_take(struct placement_view *view, const struct placed_rank *ranks, size_t n,
                         int64_t memory)
{
    for (size_t i = 0; i < n; i++) {
        struct placement_node *node = view_node(view, ranks[i].node);
        int64_t *slots = node ? (int64_t *)node->free_slots : NULL;
        for (size_t k = 0; node && k < node->n_free; k++)
            if (slots[k] == ranks[i].slot) {
                memmove(&slots[k], &slots[k + 1], (node->n_free - k - 1) * sizeof(int64_t));
                node->n_free--;
                node->free_memory -= memory;
                break;
            }
    }
}

void placement_view_give(struct placement_view *view, const struct placed_rank *ranks, size_t n,
                         int64_t memory)
{
    for (size_t i = 0; i < n; i++) {
        struct placement_node *node = view_node(view, ranks[i].node);
        if (!node || (int64_t)node->n_free >= node->slots)
            continue;
        int64_t *slots = (int64_t *)node->free_slots;
        size_t k = node->n_free++;
        for (; k > 0 && slots[k - 1] > ranks[i].slot; k--)
            slots[k] = slots[k - 1];
        slots[k] = ranks[i].slot;
        node->free_memory += memory;
    }
}

void placement_view_usable(struct placement_view *view, const char *node, bool usable)
{
    struct placement_node *n = view_node(view, node);
    if (n)
        n->usable = usable;
}

void placement_cost(const struct placement_view *view, const struct job_spec *spec,
                    const struct placed_rank *ranks, struct placement_cost *out)
{
    (void)view;
    (void)spec;
    (void)ranks;
    *out = (struct placement_cost){0};
}

enum placement_result placement_find(const struct placement_view *view, const struct job_spec *spec,
                                     struct placed_rank *ranks, struct err *why)
{
    if (view->n_nodes == 0) {
        err_set(why, "waits for nodes: none has joined the cluster yet");
        return PLACEMENT_CAPACITY;
    }
    struct search s = {.spec = spec, .nodes = view->nodes, .n_nodes = view->n_nodes, .unit = unit_of(spec)};
    if (try_devices(&s, ranks))
        return PLACEMENT_OK;
    bool waits = could_ever_fit(&s);
    if (waits)
        explain_wait(&s, why);
    else
        explain_never(&s, why);
    return waits ? PLACEMENT_CAPACITY : PLACEMENT_NEVER;
}

static int by_node_name(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

size_t placement_nodes(const struct placed_rank *ranks, size_t n)
{
    size_t nodes = 0;
    const char **names = mem_zero(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = ranks[i].node;
    qsort(names, n, sizeof(*names), by_node_name);
    for (size_t i = 0; i < n; i++)
        nodes += i == 0 || strcmp(names[i - 1], names[i]) != 0;
    free(names);
    return nodes;
}

struct placed_rank *placement_spares(const struct placement_view *view, const struct job_spec *spec,
                                     const struct placed_rank *ranks, int64_t wanted, size_t *n)
{
    (void)view;
    (void)spec;
    (void)ranks;
    (void)wanted;
    *n = 0;
    return NULL;
}

static bool slot_free(const struct placement_node *node, int64_t slot)
{
    for (size_t i = 0; i < node->n_free; i++)
        if (node->free_slots[i] == slot)
            return true;
    return false;
}

static bool stays(const struct placement_view *view, const struct placed_rank *r)
{
    for (size_t i = 0; i < view->n_nodes; i++)
        if (strcmp(view->nodes[i].name, r->node) == 0)
            return view->nodes[i].usable && slot_free(&view->nodes[i], r->slot);
    return false;
}

enum placement_result placement_repair(const struct placement_view *view, const struct job_spec *spec,
                                       const struct placed_rank *old, const struct placed_rank *spares,
                                       size_t n_spares, struct placed_rank *ranks, struct err *why)
{
    (void)spares;
    (void)n_spares;
    for (int64_t r = 0; r < spec->ranks; r++)
        if (!stays(view, &old[r])) {
            err_set(why, "rank %lld lost its node", (long long)r);
            return PLACEMENT_CAPACITY;
        }
    memcpy(ranks, old, (size_t)spec->ranks * sizeof(*ranks));
    return PLACEMENT_OK;
}

void placement_room(const struct placement_view *view, const struct job_spec *spec,
                    enum placement_extent extent, struct placement_room *out)
{
    struct search s = {.spec = spec, .nodes = view->nodes, .n_nodes = view->n_nodes, .unit = unit_of(spec)};
    s.any_device = spec->device != DEVICE_GPU;
    s.gpu = spec->device == DEVICE_GPU;
    *out = (struct placement_room){0};
    for (size_t i = 0; i < s.n_nodes; i++)
        out->ranks += room(&s, &s.nodes[i], (enum view)extent);
    out->slots = out->ranks;
    out->ranks = out->ranks < spec->ranks ? out->ranks : spec->ranks;
    out->fits = out->ranks;
}

int64_t placement_spares_auto(int64_t nodes, double failures_per_node_day, double repair_days)
{
    (void)failures_per_node_day;
    (void)repair_days;
    return nodes > 0 ? 1 : 0;
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
