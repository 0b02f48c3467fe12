/* What decides between placements of equal or nearly equal seconds, by hand: preferred borders, bytes over the top, few pods.
 *
 * Nodes are written "POD RACK SLOTS FREE", all with a name by their number. Links: 100 GB/s within a node, the others as the row says. */
#include "tests/unit/core/placement_lab.h"

enum { RANKS = 32 };

struct row {
    const char *name, *nodes;
    double rack, pod, cluster; /* GB/s */
    int64_t tp, pp, dp;
    double tp_gb, pp_gb, dp_gb;
    struct job_border border; /* of PP */
    const char *levels;       /* of TP, PP, DP: first letters of the kinds of domain, "-" for groups of one */
    const char *taken;        /* ranks by node; NULL = any */
};

#define NONE                                                                                                 \
    {                                                                                                        \
        DOMAIN_CLUSTER, false                                                                                \
    }
#define TWO_PODS_OF_FOUR "1 1 1 1;1 1 1 1;1 2 1 1;1 2 1 1;2 1 1 1;2 1 1 1;2 2 1 1;2 2 1 1"

static const struct row rows[] = {
    {"the heavier axis gets the nearer level", TWO_PODS_OF_FOUR, 10, 1, 0.1, 1, 2, 4, 0, 5, 2, NONE, "-rc",
     NULL},
    {"the other way about", TWO_PODS_OF_FOUR, 10, 1, 0.1, 1, 2, 4, 0, 2, 5, NONE, "-cp", NULL},
    {"of equal seconds fewer bytes at the top", TWO_PODS_OF_FOUR, 1, 1, 1, 1, 4, 2, 0, 5, 2, NONE, "-pc",
     NULL},
    {"the other way about", TWO_PODS_OF_FOUR, 1, 1, 1, 1, 2, 4, 0, 2, 5, NONE, "-cp", NULL},
    {"unless a preferred border is met",
     TWO_PODS_OF_FOUR,
     1,
     1,
     1,
     1,
     2,
     4,
     0,
     2,
     5,
     {DOMAIN_POD, false},
     "-rc",
     NULL},
    {"for up to 1 % of the seconds",
     TWO_PODS_OF_FOUR,
     1,
     1,
     0.478,
     1,
     2,
     4,
     0,
     2,
     50,
     {DOMAIN_POD, false},
     "-rc",
     NULL},
    {"and not for more", TWO_PODS_OF_FOUR, 1, 1, 0.45, 1, 2, 4, 0, 2, 50, {DOMAIN_POD, false}, "-cp", NULL},
    {"a border that cannot be met is missed by little",
     TWO_PODS_OF_FOUR,
     1,
     1,
     1,
     1,
     4,
     2,
     0,
     2,
     5,
     {DOMAIN_NODE, false},
     "-pc",
     NULL},
    {"few pods", "1 1 4 2;2 1 4 2;3 1 4 2;4 1 4 4", 1, 1, 1, 1, 1, 6, 0, 0, 1, NONE, "--c", "0 0 2 4"},
    {"whole pipelines in a pod as far as there is room", "1 1 5 5;2 1 6 6;3 1 5 5;4 1 5 5", 1, 1, 1, 1, 2, 10,
     0, 9, 1, NONE, "-cc", "4 6 5 5"},
};

static size_t parse(struct lab *l, const char *text)
{
    size_t n = 0;
    for (const char *p = text; *p; n++) {
        int used = 0;
        long slots, avail;
        char(*names)[16] = l->names[n];
        if (sscanf(p, "%15s %15s %ld %ld%n", names[1], names[2], &slots, &avail, &used) != 4)
            fail_msg("bad nodes %s", p);
        (void)snprintf(names[0], 16, "%zu", n);
        l->nodes[n] =
            (struct placement_node){.name = names[0], .pod = names[1], .rack = names[2], .usable = true};
        l->nodes[n].slots = slots;
        l->nodes[n].free_slots = l->slots[n];
        for (long s = slots - avail; s < slots; s++)
            l->slots[n][l->nodes[n].n_free++] = s;
        p += used + (p[used] == ';');
    }
    return n;
}

static void setup(struct lab *l, const struct row *r)
{
    l->n_nodes = parse(l, r->nodes);
    double gb[DOMAIN_COUNT] = {100, 100, r->rack, r->pod, r->cluster};
    for (int d = 0; d < DOMAIN_COUNT; d++)
        l->links[d] = (struct cluster_link){gb[d] * 1e9, 0};
    l->spec = (struct job_spec){.tp = r->tp, .pp = r->pp, .cp = 1, .dp = r->dp, .ep = 1, .virtual_stages = 1};
    l->spec.ranks = r->tp * r->pp * r->dp;
    l->spec.device = DEVICE_CPU;
    struct job_border none = NONE;
    l->spec.placement.tp = l->spec.placement.cp = l->spec.placement.ep = l->spec.placement.dp = none;
    l->spec.placement.pp = r->border;
    traffic_of(&l->spec, &l->traffic);
    l->traffic.axis[AXIS_TP].bytes = r->tp_gb * 1e9;
    l->traffic.axis[AXIS_PP].bytes = r->pp_gb * 1e9;
    l->traffic.axis[AXIS_DP].bytes = r->dp_gb * 1e9;
}

static void check_taken(const struct row *r, const struct lab *l, const struct placed_rank *ranks)
{
    char got[128] = "";
    size_t len = 0;
    for (size_t i = 0; i < l->n_nodes; i++) {
        int n = 0;
        for (int64_t k = 0; k < l->spec.ranks; k++)
            n += strcmp(ranks[k].node, l->nodes[i].name) == 0;
        len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%d", i ? " " : "", n);
    }
    if (r->taken && strcmp(got, r->taken) != 0)
        fail_msg("%s: %s ranks on the nodes instead of %s", r->name, got, r->taken);
}

static void check(const struct row *r)
{
    struct lab l = {.random = 1};
    struct placed_rank ranks[RANKS];
    struct err why;
    struct placement_cost cost;
    int32_t node_of[RANKS];
    setup(&l, r);
    struct placement_view *view = placement_view_new(l.nodes, l.n_nodes, l.links);
    if (placement_find_with(view, &l.spec, &l.traffic, ranks, &why) != PLACEMENT_OK)
        fail_msg("%s: %s", r->name, why.text);
    view_find_all(view, ranks, l.spec.ranks, node_of);
    cost_of(view, &l.spec, &l.traffic, node_of, &cost);
    static const enum axis axes[] = {AXIS_TP, AXIS_PP, AXIS_DP};
    for (size_t i = 0; i < 3; i++) {
        char got = l.traffic.axis[axes[i]].size > 1 ? job_domain_name(cost.level[axes[i]])[0] : '-';
        if (got != r->levels[i])
            fail_msg("%s: %s is within %c instead of %c", r->name, axis_name(axes[i]), got, r->levels[i]);
    }
    check_taken(r, &l, ranks);
    placement_view_free(view);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests_name("core placement levels", tests, NULL, NULL);
}
