/* The placement engine against an exhaustive search: small random clusters, jobs and weights.
 *
 * The search puts rank after rank onto every node that has room (of nodes alike and untouched by the job only the first) and turns back when
 * what the ranks so far cost is no less than the best that is known; it knows nothing of levels and blocks. At each full assignment
 * that it likes, cost_of has to agree with it. */
#include "tests/unit/core/placement_lab.h"

enum { CASES = 1000, RANKS = 12, STEPS = 3000000 };

struct brute {
    const struct lab *lab;
    const struct placement_view *view;
    int64_t room[LAB_NODES];
    int32_t node_of[RANKS];
    int64_t group[AXIS_COUNT][RANKS];
    double seconds[AXIS_COUNT][LEVELS_MAX];
    int common[LAB_NODES][LAB_NODES]; /* level */
    int limit[AXIS_COUNT];
    double best; /* cheaper ones are looked for */
    int64_t steps;
    bool found;
};

/* The level of each axis when rank goes to node; false when a required border forbids it. */
static bool levels_after(const struct brute *b, int64_t rank, size_t node, int level[AXIS_COUNT])
{
    for (enum axis a = 0; a < AXIS_COUNT; a++) {
        for (int64_t r = 0; r < rank && b->lab->traffic.axis[a].size > 1; r++)
            if (b->group[a][r] == b->group[a][rank]) {
                int with = b->common[b->node_of[r]][node];
                level[a] = with > level[a] ? with : level[a];
            }
        if (level[a] > b->limit[a])
            return false;
    }
    return true;
}

static double seconds_at(const struct brute *b, const int level[AXIS_COUNT])
{
    double sum = 0;
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        sum += b->seconds[a][level[a]];
    return sum;
}

/* A node before it in the same domain, with as much room and also untouched, stands for it. */
static bool has_twin(const struct brute *b, int64_t rank, size_t node)
{
    for (int64_t r = 0; r < rank; r++)
        if (b->node_of[r] == (int32_t)node)
            return false;
    for (size_t i = 0; i < node; i++) {
        bool used = false;
        for (int64_t r = 0; r < rank; r++)
            used = used || b->node_of[r] == (int32_t)i;
        if (!used && b->room[i] == b->room[node] && b->view->n_levels > 1 &&
            b->view->domain[i][1] == b->view->domain[node][1])
            return true;
    }
    return false;
}

static void full(struct brute *b, double seconds)
{
    struct placement_cost cost;
    cost_of(b->view, &b->lab->spec, &b->lab->traffic, b->node_of, &cost);
    if (cost.seconds > seconds * (1 + 1e-9) || cost.seconds < seconds * (1 - 1e-9))
        fail_msg("the cost is %g by all groups and %g step by step", cost.seconds, seconds);
    b->best = seconds;
    b->found = true;
}

static void put(struct brute *b, int64_t rank, const int *level, double seconds)
{
    if (rank == b->lab->spec.ranks) {
        full(b, seconds);
        return;
    }
    for (size_t i = 0; i < b->view->n_nodes && b->steps < STEPS; i++) {
        int after[AXIS_COUNT];
        memcpy(after, level, sizeof(after));
        if (b->room[i] == 0 || has_twin(b, rank, i) || !levels_after(b, rank, i, after))
            continue;
        double now = seconds_at(b, after);
        b->steps++;
        if (now >= b->best * (1 - 1e-9))
            continue;
        b->room[i]--;
        b->node_of[rank] = (int32_t)i;
        put(b, rank + 1, after, now);
        b->node_of[rank] = -1;
        b->room[i]++;
    }
}

static void tables(struct brute *b)
{
    for (enum axis a = 0; a < AXIS_COUNT; a++) {
        const struct job_border *border = mesh_border(&b->lab->spec, a);
        b->limit[a] = border->required ? b->view->level_of[border->within] : b->view->n_levels;
        for (int64_t r = 0; r < b->lab->spec.ranks; r++)
            b->group[a][r] = axis_group(&b->lab->spec, a, r);
        for (int k = 0; k < b->view->n_levels; k++)
            b->seconds[a][k] = mesh_axis_seconds(b->view, &b->lab->spec, a, &b->lab->traffic.axis[a], k);
    }
    for (size_t i = 0; i < b->view->n_nodes; i++)
        for (size_t k = 0; k < b->view->n_nodes; k++)
            b->common[i][k] = view_common(b->view, i, k);
}

/* The least seconds below `bound` that there are, or `bound`; false when there was not time enough. */
static bool search(const struct lab *lab, const struct placement_view *view, double bound, struct brute *b)
{
    *b = (struct brute){.lab = lab, .view = view, .best = bound};
    int level[AXIS_COUNT] = {0};
    view_capacities(view, KIND_ANY, 0, EXTENT_FREE, b->room);
    tables(b);
    put(b, 0, level, 0);
    return b->steps < STEPS;
}

struct tally {
    int64_t placed, refused, undecided;
    double sum, worst;
};

static double cost_placed(const struct lab *lab, const struct placement_view *view,
                          const struct placed_rank *ranks)
{
    struct placement_cost cost;
    int32_t node_of[RANKS];
    view_find_all(view, ranks, lab->spec.ranks, node_of);
    cost_of(view, &lab->spec, &lab->traffic, node_of, &cost);
    for (enum axis a = 0; a < AXIS_COUNT; a++) {
        const struct job_border *border = mesh_border(&lab->spec, a);
        if (border->required && lab->traffic.axis[a].size > 1 && cost.level[a] > border->within)
            fail_msg("%s reaches over a required border", axis_name(a));
    }
    return cost.seconds;
}

static void compare(struct lab *lab, struct tally *t)
{
    struct placed_rank ranks[RANKS];
    struct err why;
    struct brute b;
    struct placement_view *view = placement_view_new(lab->nodes, lab->n_nodes, lab->links);
    bool placed = placement_find_with(view, &lab->spec, &lab->traffic, ranks, &why) == PLACEMENT_OK;
    double ours = placed ? cost_placed(lab, view, ranks) : 1e300;
    bool decided = search(lab, view, ours, &b);
    if (!placed && b.found)
        fail_msg("refused (%s), but there is a place for %g s", why.text, b.best);
    double ratio = placed && b.best > 0 ? ours / b.best : 1;
    t->placed += placed;
    t->refused += !placed;
    t->undecided += !decided;
    t->sum += placed ? ratio : 0;
    t->worst = ratio > t->worst ? ratio : t->worst;
    placement_view_free(view);
}

static void run(uint64_t seed, int percent_preferred, double mean, double worst)
{
    struct tally t = {.worst = 1};
    for (uint64_t i = 0; i < CASES; i++) {
        struct lab lab = {.random = (seed + i) * 0x9e3779b97f4a7c15ULL + 1};
        lab_cluster(&lab, LAB_NODES);
        lab_mesh(&lab, RANKS);
        lab_borders(&lab, 15, percent_preferred);
        compare(&lab, &t);
    }
    print_message(
        "%lld placed, %lld refused (both rightly), %lld not decided; mean %.6f, worst %.6f of the optimum\n",
        (long long)t.placed, (long long)t.refused, (long long)t.undecided, t.sum / (double)t.placed, t.worst);
    assert_true(t.placed > CASES / 2 && t.refused > CASES / 20);
    assert_true(t.undecided <= CASES / 50);
    assert_true(t.sum / (double)t.placed <= mean && t.worst <= worst);
}

static void test_exact(void **state)
{
    (void)state;
    run(1, 0, 1.0 + 1e-9, 1.0 + 1e-9);
}

/* A border that is only preferred may cost one percent. */
static void test_preferred_borders(void **state)
{
    (void)state;
    run(5000, 60, 1.001, 1.01 + 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_preferred_borders),
    };
    return cmocka_run_group_tests_name("core placement optimal", tests, NULL, NULL);
}
