/* The cost of given placements, worked out by hand: two pods of two racks of two nodes with four slots each; axis sends 1 GB in
 * 10 messages; links of 1,000, 100, 10 and 1 GB/s and 1, 2, 3 and 4 ms within a node, a rack, a pod and between pods. */
#include <math.h>

#include "tests/unit/core/placement_lab.h"

enum { NODES = 8, RANKS = 16 };

static const struct cluster_link links[DOMAIN_COUNT] = {
    [DOMAIN_NODE] = {1e12, 1e-3},
    [DOMAIN_NVLINK] = {1, 1}, /* there is none: never looked at */
    [DOMAIN_RACK] = {1e11, 2e-3},
    [DOMAIN_POD] = {1e10, 3e-3},
    [DOMAIN_CLUSTER] = {1e9, 4e-3}};
/* 1 GB / bandwidth + 10 x latency */
static const double seconds[DOMAIN_COUNT] = {[DOMAIN_NODE] = 0.001 + 0.010,
                                             [DOMAIN_RACK] = 0.01 + 0.020,
                                             [DOMAIN_POD] = 0.1 + 0.030,
                                             [DOMAIN_CLUSTER] = 1 + 0.040};

struct row {
    const char *name;
    int64_t tp, cp, pp, dp, ep, virtual_stages;
    const char *nodes; /* of each rank, a digit; nodes 0-1 are a rack, 0-3 a pod */
    enum job_domain level[AXIS_COUNT];
    double gigabytes; /* between pods */
    double less;      /* seconds, because members of a ring share a way out: worked out by hand */
};

#define LEVELS(t, c, e, p, d)                                                                                \
    {                                                                                                        \
        [AXIS_TP] = DOMAIN_##t, [AXIS_CP] = DOMAIN_##c, [AXIS_EP] = DOMAIN_##e, [AXIS_PP] = DOMAIN_##p,      \
        [AXIS_DP] = DOMAIN_##d                                                                               \
    }

static const struct row rows[] = {
    {"all on one node", 4, 1, 1, 1, 1, 1, "0000", LEVELS(NODE, NODE, NODE, NODE, NODE), 0, 0},
    {"TP over a rack", 4, 1, 1, 1, 1, 1, "0101", LEVELS(RACK, NODE, NODE, NODE, NODE), 0, 0},
    {"TP over a pod", 4, 1, 1, 1, 1, 1, "0012", LEVELS(POD, NODE, NODE, NODE, NODE), 0, 0},
    {"a ring of two over pods: both send", 2, 1, 1, 1, 1, 1, "04", LEVELS(CLUSTER, NODE, NODE, NODE, NODE), 2,
     0},
    {"a ring of four, there and back", 4, 1, 1, 1, 1, 1, "0044", LEVELS(CLUSTER, NODE, NODE, NODE, NODE), 2,
     0},
    {"a ring of four in a bad order", 4, 1, 1, 1, 1, 1, "0404", LEVELS(CLUSTER, NODE, NODE, NODE, NODE), 4,
     0},
    {"a pipeline does not go back", 1, 1, 4, 1, 1, 1, "0044", LEVELS(NODE, NODE, NODE, CLUSTER, NODE), 1, 0},
    {"an interleaved one does", 1, 1, 4, 1, 1, 2, "0044", LEVELS(NODE, NODE, NODE, CLUSTER, NODE), 2, 0},
    {"PP in the rack, DP between pods", 2, 1, 2, 2, 1, 1, "00114455", LEVELS(NODE, NODE, NODE, RACK, CLUSTER),
     8, 0},
    {"one group of many is enough", 2, 1, 1, 4, 1, 1, "00112235", LEVELS(CLUSTER, NODE, NODE, NODE, CLUSTER),
     2 + 2, 0.5}, /* two of the four DP ranks would be on a node: twice the way out */
    {"DP goes over CP, too", 1, 2, 1, 2, 1, 1, "0044", LEVELS(NODE, NODE, NODE, NODE, CLUSTER), 2, 0},
    {"CP over pods, DP as well", 1, 2, 1, 2, 1, 1, "0404", LEVELS(NODE, CLUSTER, NODE, NODE, CLUSTER), 4 + 4,
     0},
    /* each of four experts' ranks sends a third of its bytes to each other one: 8 of 12 pairs cross */
    {"experts send to all", 1, 1, 1, 4, 4, 1, "0404", LEVELS(NODE, NODE, CLUSTER, NODE, CLUSTER), 8.0 / 3 + 4,
     0},
    {"two groups of experts, each in a pod", 1, 1, 1, 4, 2, 1, "0044",
     LEVELS(NODE, NODE, NODE, NODE, CLUSTER), 2, 0},
};

static struct placement_view *view_of_two_pods(struct lab *l)
{
    for (int i = 0; i < NODES; i++) {
        char(*names)[16] = l->names[i];
        (void)snprintf(names[0], 16, "%d", i);
        (void)snprintf(names[1], 16, "rack%d", i / 2);
        (void)snprintf(names[2], 16, "pod%d", i / 4);
        l->nodes[i] =
            (struct placement_node){.name = names[0], .rack = names[1], .pod = names[2], .usable = true};
        l->nodes[i].slots = 4;
    }
    return placement_view_new(l->nodes, NODES, links);
}

static void check(const struct row *r)
{
    struct lab l = {.random = 1};
    struct placement_view *view = view_of_two_pods(&l);
    struct placement_cost cost;
    int32_t node_of[RANKS];
    double sum = -r->less;
    l.spec = (struct job_spec){.tp = r->tp, .cp = r->cp, .pp = r->pp, .dp = r->dp, .ep = r->ep};
    l.spec.ranks = r->tp * r->cp * r->pp * r->dp;
    l.spec.virtual_stages = r->virtual_stages;
    traffic_of(&l.spec, &l.traffic);
    for (int64_t i = 0; i < l.spec.ranks; i++)
        node_of[i] = r->nodes[i] - '0';
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        if (l.traffic.axis[a].size > 1) {
            l.traffic.axis[a].bytes = 1e9;
            l.traffic.axis[a].messages = 10;
            sum += seconds[r->level[a]];
        }
    cost_of(view, &l.spec, &l.traffic, node_of, &cost);
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        if (cost.level[a] != r->level[a])
            fail_msg("%s: %s is within a %s", r->name, axis_name(a), job_domain_name(cost.level[a]));
    if (fabs(cost.seconds - sum) > 1e-9 || fabs(cost.top_bytes - r->gigabytes * 1e9) > 1)
        fail_msg("%s: %g s instead of %g, %g bytes instead of %g", r->name, cost.seconds, sum, cost.top_bytes,
                 r->gigabytes * 1e9);
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
    return cmocka_run_group_tests_name("core placement cost", tests, NULL, NULL);
}
