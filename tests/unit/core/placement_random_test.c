/* What always holds of placements, spares and repairs, on random clusters, jobs and losses. */
#include "tests/unit/core/placement_lab.h"

enum { CASES = 3000, RANKS = 64, SPARES = 3 };

struct trial {
    struct lab lab;
    struct placement_view *view;
    struct placed_rank ranks[RANKS], moved[RANKS];
    struct placed_rank *spares;
    size_t n_spares;
};

/* Devices, memory and nodes out of service, beyond what lab_cluster draws. */
static void vary(struct lab *l)
{
    for (size_t i = 0; i < l->n_nodes; i++) {
        struct placement_node *n = &l->nodes[i];
        n->gpu = lab_chance(l, 50);
        n->usable = lab_chance(l, 90);
        n->memory = lab_chance(l, 50) ? LAB_GIB * lab_upto(l, 16) : 0;
        n->free_memory = lab_chance(l, 50) ? n->memory : n->memory / 2;
    }
    l->spec.device = (enum job_device)(lab_upto(l, 3) - 1);
    l->spec.memory = lab_chance(l, 50) ? LAB_GIB * lab_upto(l, 3) : 0;
}

static void begin(struct trial *t, uint64_t seed)
{
    memset(t, 0, sizeof(*t));
    t->lab.random = seed * 0x9e3779b97f4a7c15ULL + 1;
    lab_cluster(&t->lab, LAB_NODES);
    lab_mesh(&t->lab, lab_chance(&t->lab, 60) ? 12 : RANKS);
    lab_borders(&t->lab, 30, 30);
    vary(&t->lab);
    t->view = placement_view_new(t->lab.nodes, t->lab.n_nodes, t->lab.links);
}

static void end(struct trial *t)
{
    free(t->spares);
    placement_view_free(t->view);
}

static const struct placement_node *node_named(const struct lab *l, const char *name)
{
    for (size_t i = 0; i < l->n_nodes; i++)
        if (strcmp(l->nodes[i].name, name) == 0)
            return &l->nodes[i];
    fail_msg("no node is called %s", name);
    return NULL;
}

static bool was_free(const struct placement_node *n, int64_t slot)
{
    for (size_t i = 0; i < n->n_free; i++)
        if (n->free_slots[i] == slot)
            return true;
    return false;
}

/* Slots are free ones of usable nodes, none twice; devices are not mixed; memory suffices. */
static void check_slots(const struct lab *l, const struct placed_rank *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct placement_node *node = node_named(l, ranks[i].node);
        int64_t here = 0;
        assert_true(node->usable && was_free(node, ranks[i].slot));
        for (size_t k = 0; k < n; k++) {
            bool same = strcmp(ranks[i].node, ranks[k].node) == 0;
            here += same;
            assert_true(i == k || !same || ranks[i].slot != ranks[k].slot);
            if (l->spec.device == DEVICE_AUTO)
                assert_int_equal(node->gpu, node_named(l, ranks[k].node)->gpu);
        }
        assert_true(l->spec.device != DEVICE_GPU || node->gpu);
        assert_true(node->memory == 0 || here * l->spec.memory <= node->free_memory);
    }
}

static void check_coordinates(const struct lab *l, const struct placed_rank *ranks)
{
    for (int64_t r = 0; r < l->spec.ranks; r++) {
        struct placed_rank want;
        placement_coordinates(&l->spec, r, &want);
        assert_int_equal(ranks[r].rank, r);
        assert_true(ranks[r].tp == want.tp && ranks[r].pp == want.pp && ranks[r].cp == want.cp &&
                    ranks[r].dp == want.dp);
    }
}

static void check_borders(const struct trial *t, const struct placed_rank *ranks)
{
    struct placement_cost cost;
    placement_cost(t->view, &t->lab.spec, ranks, &cost);
    for (enum axis a = 0; a < AXIS_COUNT; a++) {
        const struct job_border *border = mesh_border(&t->lab.spec, a);
        assert_true(!border->required || t->lab.traffic.axis[a].size <= 1 || cost.level[a] <= border->within);
    }
}

static void shuffle(struct lab *l)
{
    for (size_t i = 1; i < l->n_nodes; i++) {
        size_t k = (size_t)(lab_upto(l, (int64_t)i + 1) - 1);
        struct placement_node other = l->nodes[k];
        l->nodes[k] = l->nodes[i];
        l->nodes[i] = other;
    }
}

/* The same ranks at the same places when the nodes come in another order, and after taking and giving back. */
static void check_repeats(struct trial *t)
{
    struct err why;
    size_t bytes = (size_t)t->lab.spec.ranks * sizeof(t->ranks[0]);
    placement_view_take(t->view, t->ranks, (size_t)t->lab.spec.ranks, t->lab.spec.memory);
    placement_view_give(t->view, t->ranks, (size_t)t->lab.spec.ranks, t->lab.spec.memory);
    assert_int_equal(placement_find(t->view, &t->lab.spec, t->moved, &why), PLACEMENT_OK);
    assert_memory_equal(t->moved, t->ranks, bytes);
    placement_view_free(t->view);
    shuffle(&t->lab);
    t->view = placement_view_new(t->lab.nodes, t->lab.n_nodes, t->lab.links);
    assert_int_equal(placement_find(t->view, &t->lab.spec, t->moved, &why), PLACEMENT_OK);
    assert_memory_equal(t->moved, t->ranks, bytes);
}

/* The result agrees with the counts of placement_room, and each has its sentence. */
static void check_refusal(const struct trial *t, enum placement_result result, const char *why)
{
    struct placement_room now, all;
    const struct job_spec *spec = &t->lab.spec;
    placement_room(t->view, spec, EXTENT_FREE, &now);
    placement_room(t->view, spec, EXTENT_ALL, &all);
    assert_true(now.fits <= now.ranks && now.ranks <= spec->ranks && now.fits <= all.fits);
    if (spec->device != DEVICE_AUTO)
        assert_int_equal(result == PLACEMENT_OK, now.fits == spec->ranks);
    if (result == PLACEMENT_OK)
        return;
    assert_int_equal(result == PLACEMENT_NEVER, all.fits < spec->ranks);
    if (result == PLACEMENT_FRAGMENTED)
        assert_true(all.fits == spec->ranks && now.slots >= spec->ranks);
    if (result == PLACEMENT_CAPACITY)
        assert_true(now.ranks < spec->ranks);
    const char *begins = result == PLACEMENT_NEVER ? "never fits: " : "waits for ";
    assert_memory_equal(why, begins, strlen(begins));
    if (result == PLACEMENT_FRAGMENTED)
        assert_true(strstr(why, "not together") || strstr(why, "are too few"));
}

static void test_placements(void **state)
{
    (void)state;
    int placed = 0, refused[4] = {0};
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct trial t;
        struct err why = {""};
        begin(&t, seed);
        enum placement_result result = placement_find(t.view, &t.lab.spec, t.ranks, &why);
        check_refusal(&t, result, why.text);
        refused[result]++;
        if (result == PLACEMENT_OK) {
            placed++;
            check_slots(&t.lab, t.ranks, (size_t)t.lab.spec.ranks);
            check_coordinates(&t.lab, t.ranks);
            check_borders(&t, t.ranks);
            check_repeats(&t);
        }
        end(&t);
    }
    print_message("%d placed, never %d, capacity %d, fragmented %d\n", placed, refused[PLACEMENT_NEVER],
                  refused[PLACEMENT_CAPACITY], refused[PLACEMENT_FRAGMENTED]);
    assert_true(placed > CASES / 3 && refused[PLACEMENT_FRAGMENTED] > 20 &&
                refused[PLACEMENT_CAPACITY] > 100);
}

/* ---- spares and repairs ---- */

static int64_t fullest(const struct trial *t)
{
    int64_t most = 0;
    for (int64_t i = 0; i < t->lab.spec.ranks; i++) {
        int64_t n = 0;
        for (int64_t k = 0; k < t->lab.spec.ranks; k++)
            n += strcmp(t->ranks[i].node, t->ranks[k].node) == 0;
        most = n > most ? n : most;
    }
    return most;
}

static bool in_pod_of_job(const struct trial *t, const char *pod)
{
    for (int64_t i = 0; i < t->lab.spec.ranks; i++)
        if (strcmp(node_named(&t->lab, t->ranks[i].node)->pod, pod) == 0)
            return true;
    return false;
}

/* Each seat on one node of its own, in a pod of the job, with as many slots as the job's fullest node. */
static void check_spares(struct trial *t)
{
    int64_t seat = fullest(t);
    size_t n_seats = t->n_spares / (size_t)seat;
    assert_true(t->n_spares % (size_t)seat == 0 && n_seats <= SPARES);
    for (size_t i = 0; i < t->n_spares; i++) {
        const struct placed_rank *s = &t->spares[i], *first = &t->spares[i / (size_t)seat * (size_t)seat];
        assert_int_equal(s->rank, -1);
        assert_string_equal(s->node, first->node);
        assert_true(in_pod_of_job(t, node_named(&t->lab, s->node)->pod));
        for (size_t k = 0; k < n_seats; k++)
            assert_true(k == i / (size_t)seat || strcmp(t->spares[k * (size_t)seat].node, s->node) != 0);
    }
    struct placed_rank all[RANKS + SPARES * LAB_SLOTS];
    memcpy(all, t->ranks, (size_t)t->lab.spec.ranks * sizeof(all[0]));
    if (t->n_spares > 0)
        memcpy(all + t->lab.spec.ranks, t->spares, t->n_spares * sizeof(all[0]));
    check_slots(&t->lab, all, (size_t)t->lab.spec.ranks + t->n_spares);
}

static bool on_spare(const struct trial *t, const struct placed_rank *r)
{
    for (size_t i = 0; i < t->n_spares; i++)
        if (strcmp(t->spares[i].node, r->node) == 0 && t->spares[i].slot == r->slot)
            return true;
    return false;
}

/* A spare that holds no rank of the job itself, with no border that it could be beyond. */
static bool spare_suffices(const struct trial *t, const char *lost)
{
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        if (mesh_border(&t->lab.spec, a)->required)
            return false;
    return t->n_spares > 0 && strcmp(t->spares[0].node, lost) != 0;
}

static void check_repair(const struct trial *t, const char *lost)
{
    for (int64_t r = 0; r < t->lab.spec.ranks; r++) {
        bool moves = strcmp(t->ranks[r].node, lost) == 0;
        bool same = memcmp(&t->moved[r], &t->ranks[r], sizeof(t->ranks[0])) == 0;
        assert_int_equal(same, !moves);
        if (moves && spare_suffices(t, lost))
            assert_true(on_spare(t, &t->moved[r]));
    }
    check_slots(&t->lab, t->moved, (size_t)t->lab.spec.ranks);
    check_coordinates(&t->lab, t->moved);
    check_borders(t, t->moved);
}

/* Places a job with spares and loses the node of one of its ranks. 1 = repaired, 0 = not. */
static int lose_one(struct trial *t)
{
    struct err why;
    char lost[64];
    (void)snprintf(lost, sizeof(lost), "%s", t->ranks[lab_upto(&t->lab, t->lab.spec.ranks) - 1].node);
    ((struct placement_node *)node_named(&t->lab, lost))->usable = false;
    placement_view_usable(t->view, lost, false);
    enum placement_result result =
        placement_repair(t->view, &t->lab.spec, t->ranks, t->spares, t->n_spares, t->moved, &why);
    if (result != PLACEMENT_OK) {
        assert_true(why.text[0] != '\0' && !spare_suffices(t, lost));
        return 0;
    }
    check_repair(t, lost);
    return 1;
}

static void test_repairs(void **state)
{
    (void)state;
    int tried = 0, repaired = 0, with_spares = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct trial t;
        struct err why;
        begin(&t, seed + 100000);
        if (placement_find(t.view, &t.lab.spec, t.ranks, &why) == PLACEMENT_OK) {
            size_t n = (size_t)t.lab.spec.ranks;
            placement_view_take(t.view, t.ranks, n, t.lab.spec.memory);
            t.spares =
                placement_spares(t.view, &t.lab.spec, t.ranks, lab_upto(&t.lab, SPARES + 1) - 1, &t.n_spares);
            check_spares(&t);
            placement_view_give(t.view, t.ranks, n, t.lab.spec.memory);
            tried++;
            with_spares += t.n_spares > 0;
            repaired += lose_one(&t);
        }
        end(&t);
    }
    print_message("%d of %d repaired, %d had spares\n", repaired, tried, with_spares);
    assert_true(repaired > tried / 4 && with_spares > tried / 10);
}

static void test_nothing_lost(void **state)
{
    (void)state;
    struct trial t;
    struct err why;
    for (uint64_t seed = 1; seed < 50; seed++) {
        begin(&t, seed);
        if (placement_find(t.view, &t.lab.spec, t.ranks, &why) == PLACEMENT_OK) {
            assert_int_equal(placement_repair(t.view, &t.lab.spec, t.ranks, NULL, 0, t.moved, &why),
                             PLACEMENT_OK);
            assert_memory_equal(t.moved, t.ranks, (size_t)t.lab.spec.ranks * sizeof(t.ranks[0]));
        }
        end(&t);
    }
}

/* By hand: 1 - 0.99 = 0.01. Two nodes at p = 0.1: P(0) = 0.81, P(<= 1) = 0.99. */
static void test_spares_auto(void **state)
{
    (void)state;
    static const struct {
        int64_t nodes;
        double failures, days;
        int64_t spares;
    } rows[] = {
        {0, 0.1, 1, 0},
        {100, 0, 1, 0},
        {100, 0.0001, 1, 0},        /* P(0) = exp(-0.01) = 0.9900498 */
        {100, 0.000101, 1, 1},      /* exp(-0.0101) = 0.98995 */
        {2, 0.1053605156578, 1, 1}, /* p = 0.1: P(<= 1) = 0.99 */
        {2, 0.11, 1, 2},
        {2048, 6.5e-3, 1.0 / 24, 3}, /* mean 0.5545: P(<= 2) = 0.9807, P(<= 3) = 0.9975 */
        {3072, 1, 10, 3072},         /* all are down */
        {65536, 6.5e-3, 1, 473},     /* mean 424.6, deviation 20.54: about 424.6 + 2.326 x 20.54 = 472.4 */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t got = placement_spares_auto(rows[i].nodes, rows[i].failures, rows[i].days);
        if (got != rows[i].spares)
            fail_msg("%lld nodes, %g failures a day, %g days: %lld spares instead of %lld",
                     (long long)rows[i].nodes, rows[i].failures, rows[i].days, (long long)got,
                     (long long)rows[i].spares);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placements),
        cmocka_unit_test(test_repairs),
        cmocka_unit_test(test_nothing_lost),
        cmocka_unit_test(test_spares_auto),
    };
    return cmocka_run_group_tests_name("core placement random", tests, NULL, NULL);
}
