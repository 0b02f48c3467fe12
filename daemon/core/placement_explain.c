/* placement_explain: see placement_explain.h.
 *
 * The loosest levels that the required borders allow say whether a job fits at all: blocks of level k are what a required border
 * keeps within one domain of level k. The first level with too few blocks is the limit that the sentence names: looked at in the whole
 * cluster (never fits), in its usable nodes, and in what is free (waits). No sentence counts what is free: it is stored with each
 * waiting job and must not change with every slot. */
#include "daemon/core/placement_explain.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/placement_search.h"

#define LL(x)  ((long long)(x))
#define MIB(x) LL((x) >> 20)

struct question {
    const struct placement_view *view;
    const struct job_spec *spec;
    const struct mesh *mesh;
    int limit[MESH_DIMS];
    enum view_kind kind;
};

/* What a look at some extent found. */
struct finding {
    int64_t slots; /* memory left aside */
    int level;     /* the narrowest with too few blocks; -1 = it fits */
    int64_t block,
        most; /* ranks in a block of that level; ranks that the roomiest domain has, in blocks below */
    int64_t ranks, fits; /* that fit by nodes alone, and by all required borders */
};

static int64_t most_in_one(const struct question *q, const struct search_blocks *b, int k,
                           const int64_t *caps)
{
    int64_t most = 0;
    const struct view_level *l = &q->view->level[k];
    for (size_t d = 0; d < l->count; d++) {
        int64_t ranks = k == 0 ? caps[d] : 0;
        for (uint32_t c = l->first_child[d]; k > 0 && c < l->first_child[d + 1]; c++)
            ranks += b->count[k - 1][c] * b->size[k - 1];
        most = ranks > most ? ranks : most;
    }
    return most;
}

/* The widest level that a required border names; 0 = none. */
static int widest_border(const struct question *q)
{
    int widest = 0;
    for (int d = 0; d < q->mesh->n; d++)
        if (q->limit[d] < q->view->n_levels - 1 && q->limit[d] > widest)
            widest = q->limit[d];
    return widest;
}

static bool is_bound(const struct question *q, enum axis axis, int k)
{
    const struct job_border *border = mesh_border(q->spec, axis);
    return border->required && border->within < DOMAIN_CLUSTER && q->mesh->traffic->axis[axis].size > 1 &&
           q->view->level_of[border->within] <= k;
}

/* Ranks that required borders keep together at level k. In a cluster of one level that is less than a block of it. */
static int64_t bound_ranks(const struct question *q, int k)
{
    int64_t ranks = 1;
    for (int d = 0; d < q->mesh->n; d++) {
        bool bound = false;
        for (enum axis a = 0; a < AXIS_COUNT; a++)
            bound = bound || (q->mesh->dim[d].axes & 1u << a && is_bound(q, a, k));
        ranks *= bound ? q->mesh->dim[d].size : 1;
    }
    return ranks;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct finding look(const struct question *q, enum placement_extent extent, int64_t memory)
{
    struct search_blocks b;
    struct finding f = {.slots = view_slots(q->view, q->kind, extent), .level = -1};
    int64_t *caps = mem_zero(q->view->n_nodes, sizeof(*caps));
    view_capacities(q->view, q->kind, memory, extent, caps);
    search_blocks_init(&b, q->view);
    search_count(q->view, q->mesh, q->limit, caps, &b);
    for (int k = 0; k < q->view->n_levels && f.level < 0; k++)
        if (b.total[k] < q->spec->ranks / b.size[k]) {
            f.level = k;
            f.block = bound_ranks(q, k);
            f.most = most_in_one(q, &b, k, caps);
        }
    int widest = widest_border(q);
    f.ranks = at_most(b.total[0] * b.size[0], q->spec->ranks);
    f.fits = at_most(b.total[widest] * b.size[widest], q->spec->ranks);
    search_blocks_free(&b);
    free(caps);
    return f;
}

/* ---- words ---- */

static const char *slots_word(const struct job_spec *spec)
{
    if (spec->device == DEVICE_AUTO)
        return "slots";
    return spec->device == DEVICE_GPU ? "GPU slots" : "CPU slots";
}

/* What must stay together at level k: the group of the widest axis that a required border keeps there. */
static const char *group_word(const struct question *q, int k, int64_t block)
{
    static const struct {
        enum axis axis;
        const char *word;
    } groups[] = {{AXIS_DP, "a DP group"},
                  {AXIS_EP, "an EP group"},
                  {AXIS_PP, "a whole pipeline"},
                  {AXIS_CP, "a CP group"},
                  {AXIS_TP, "a TP group"}};
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (is_bound(q, groups[i].axis, k))
            return groups[i].axis == AXIS_DP && block == q->spec->ranks ? "the whole job" : groups[i].word;
    return "a group";
}

static bool too_many_slots(const struct question *q, const struct finding *f)
{
    return f->slots < q->spec->ranks;
}

static void say_memory(const struct question *q, const struct finding *f, struct err *why)
{
    err_set(
        why,
        "never fits: %lld ranks in groups of %lld with %lld MiB of memory each are more than the nodes hold",
        LL(q->spec->ranks), LL(f->block), MIB(q->spec->memory));
}

static void say_never(const struct question *q, struct err *why)
{
    struct finding f = look(q, EXTENT_ALL, 0);
    const char *domain = f.level >= 0 ? job_domain_words(q->view->level[f.level].kind) : "";
    if (too_many_slots(q, &f)) {
        err_set(why, "never fits: needs %lld %s, the cluster has %lld", LL(q->spec->ranks),
                slots_word(q->spec), LL(f.slots));
    } else if (f.level < 0) {
        f = look(q, EXTENT_ALL, q->spec->memory);
        say_memory(q, &f, why);
    } else if (f.level == 0 && f.most < f.block) {
        err_set(why, "never fits: %s needs %lld slots on one node, the largest node has %lld",
                group_word(q, 0, f.block), LL(f.block), LL(f.most));
    } else if (f.most < f.block) {
        err_set(why, "never fits: %s of %lld ranks must share %s, the largest %s has room for %lld",
                group_word(q, f.level, f.block), LL(f.block), domain, strchr(domain, ' ') + 1, LL(f.most));
    } else {
        err_set(why,
                "never fits: of %lld groups of %lld ranks that must share %s, the cluster has room for fewer",
                LL(q->spec->ranks / f.block), LL(f.block), domain);
    }
}

/* Not even when all usable nodes are empty. */
static void say_nodes(const struct question *q, const struct finding *usable, struct err *why)
{
    if (too_many_slots(q, usable))
        err_set(why, "waits for %lld %s: the nodes that are up and not draining have %lld",
                LL(q->spec->ranks), slots_word(q->spec), LL(usable->slots));
    else if (usable->level == 0)
        err_set(why, "waits for nodes with room for %lld ranks in groups of %lld with %lld MiB each",
                LL(q->spec->ranks), LL(usable->block), MIB(q->spec->memory));
    else
        err_set(why,
                "waits for %s with room for %s of %lld ranks: the nodes that are up and not draining are "
                "too few",
                job_domain_words(q->view->level[usable->level].kind),
                group_word(q, usable->level, usable->block), LL(usable->block));
}

/* Other jobs hold what it lacks: slots, or memory on nodes that have slots. */
static void say_taken(const struct question *q, const struct finding *now, struct err *why)
{
    int64_t ranks = q->spec->ranks;
    const char *word = slots_word(q->spec);
    int letters = (int)strlen(word) - (ranks == 1);
    if (now->slots >= ranks)
        err_set(why, "waits for free memory, %lld MiB for each of %lld ranks on a node: other jobs hold it",
                MIB(q->spec->memory), LL(now->block));
    else if (now->block > 1)
        err_set(why, "waits for %lld free %s, %lld on one node for each group: other jobs hold them",
                LL(ranks), word, LL(now->block));
    else
        err_set(why, "waits for %lld free %.*s: other jobs hold %s", LL(ranks), letters, word,
                ranks == 1 ? "it" : "them");
}

static void say_apart(const struct question *q, const struct finding *now, struct err *why)
{
    if (now->level == 0)
        err_set(why,
                "waits for a node with %lld free %s for each group: enough slots are free, but not together",
                LL(now->block), slots_word(q->spec));
    else
        err_set(why, "waits for %s with room for %s of %lld ranks: enough slots are free, but not together",
                job_domain_words(q->view->level[now->level].kind), group_word(q, now->level, now->block),
                LL(now->block));
}

/* Enough is free, but not in the nodes or domains that required borders ask for. */
static bool is_apart(const struct question *q, const struct finding *now)
{
    if (now->slots < q->spec->ranks)
        return false;
    return now->level > 0 || look(q, EXTENT_FREE, 0).level >= 0; /* else it is memory */
}

static bool could_ever(struct question *q, enum view_kind kind)
{
    q->kind = kind;
    return look(q, EXTENT_ALL, q->spec->memory).level < 0;
}

/* The kind of node to speak of: one that could hold the job when empty, else the one with more slots. */
static bool choose_kind(struct question *q)
{
    enum view_kind kinds[2];
    int n = view_kinds(q->spec, kinds);
    for (int i = 0; i < n; i++)
        if (could_ever(q, kinds[i]))
            return true;
    bool second =
        n == 2 && view_slots(q->view, kinds[1], EXTENT_ALL) > view_slots(q->view, kinds[0], EXTENT_ALL);
    q->kind = kinds[second];
    return false;
}

static struct question ask(const struct placement_view *view, const struct job_spec *spec,
                           const struct mesh *mesh)
{
    struct question q = {.view = view, .spec = spec, .mesh = mesh};
    mesh_limits(mesh, spec, view, q.limit);
    return q;
}

enum placement_result explain_misfit(const struct placement_view *view, const struct job_spec *spec,
                                     const struct mesh *mesh, struct err *why)
{
    if (view->n_nodes == 0) {
        err_set(why, "waits for nodes: none has joined the cluster yet");
        return PLACEMENT_CAPACITY;
    }
    struct question q = ask(view, spec, mesh);
    if (!choose_kind(&q)) {
        say_never(&q, why);
        return PLACEMENT_NEVER;
    }
    struct finding usable = look(&q, EXTENT_USABLE, spec->memory), now = look(&q, EXTENT_FREE, spec->memory);
    if (usable.level >= 0) {
        say_nodes(&q, &usable, why);
        return now.level > 0 ? PLACEMENT_FRAGMENTED : PLACEMENT_CAPACITY;
    }
    bool apart = is_apart(&q, &now);
    (apart ? say_apart : say_taken)(&q, &now, why);
    return apart ? PLACEMENT_FRAGMENTED : PLACEMENT_CAPACITY;
}

void placement_room(const struct placement_view *view, const struct job_spec *spec,
                    enum placement_extent extent, struct placement_room *out)
{
    *out = (struct placement_room){0};
    if (view->n_nodes == 0)
        return;
    struct traffic traffic;
    struct mesh mesh;
    traffic_of(spec, &traffic);
    mesh_of(spec, &traffic, &mesh);
    struct question q = ask(view, spec, &mesh);
    (void)choose_kind(&q); /* when it never fits: how much of it does, on the larger kind */
    struct finding f = look(&q, extent, spec->memory);
    *out = (struct placement_room){f.slots, f.ranks, f.fits};
}
