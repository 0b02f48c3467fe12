/* Placement: golden placements of small clusters and the sentences for what does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/core/placement.h"

static const int64_t slots[] = {0, 1, 2, 3, 4, 5, 6, 7};
#define GIB ((int64_t)1 << 30)

struct row {
    const char *name;
    const char *
        nodes; /* "name rack pod slots free flags[uga]" separated by ";": u usable, g gpu, taken slots come first */
    int64_t ranks, tp, pp, cp, dp, memory;
    enum job_device device;
    const char *wanted; /* "rank:node.slot …", or the sentence */
};

static size_t parse_nodes(const char *text, struct placement_node *nodes, char names[][3][16])
{
    size_t n = 0;
    for (const char *p = text; *p; p = *p == ';' ? p + 1 : p) {
        long total, avail;
        char flags[8];
        int used = 0;
        if (sscanf(p, " %15s %15s %15s %ld %ld %7[a-z-]%n", names[n][0], names[n][1], names[n][2], &total,
                   &avail, flags, &used) != 6)
            fail_msg("bad row %s", p);
        nodes[n] = (struct placement_node){.name = names[n][0], .rack = names[n][1], .pod = names[n][2]};
        nodes[n].gpu = strchr(flags, 'g') != NULL;
        nodes[n].usable = strchr(flags, 'u') != NULL;
        nodes[n].slots = total;
        nodes[n].n_free = (size_t)avail;
        nodes[n].free_slots = slots + (total - avail);
        nodes[n].memory = nodes[n].free_memory = 8 * GIB;
        n++;
        p += used;
    }
    return n;
}

static const struct row rows[] = {
    {"fills nodes in order", "node0 r0 p0 2 2 u;node1 r0 p0 2 2 u;node2 r1 p0 2 2 u", 4, 1, 1, 1, 4, 0,
     DEVICE_AUTO, "0:node0.0 1:node0.1 2:node1.0 3:node1.1"},
    {"node2 before node10, whatever the order of joining",
     "node10 r0 p0 1 1 u;node2 r0 p0 1 1 u;node1 r0 p0 1 1 u", 3, 1, 1, 1, 3, 0, DEVICE_AUTO,
     "0:node1.0 1:node2.0 2:node10.0"},
    {"racks and pods before names", "a r10 p0 1 1 u;b r2 p0 1 1 u;c r1 p1 1 1 u", 3, 1, 1, 1, 3, 0,
     DEVICE_AUTO, "0:b.0 1:a.0 2:c.0"},
    {"a TP group never leaves its node", "node0 r0 p0 3 3 u;node1 r0 p0 3 3 u", 4, 2, 1, 1, 2, 0, DEVICE_AUTO,
     "0:node0.0 1:node0.1 2:node1.0 3:node1.1"},
    {"taken slots are left alone", "node0 r0 p0 4 1 u;node1 r0 p0 4 2 u", 2, 2, 1, 1, 1, 0, DEVICE_AUTO,
     "0:node1.2 1:node1.3"},
    {"unusable nodes are left alone", "node0 r0 p0 2 2 -;node1 r0 p0 2 2 u", 2, 1, 1, 1, 2, 0, DEVICE_AUTO,
     "0:node1.0 1:node1.1"},
    {"memory limits a node", "node0 r0 p0 4 4 u;node1 r0 p0 4 4 u", 4, 1, 1, 1, 4, 3 * GIB, DEVICE_AUTO,
     "0:node0.0 1:node0.1 2:node1.0 3:node1.1"},
    {"GPUs first, never mixed", "node0 r0 p0 2 2 u;node1 r0 p0 2 2 ug;node2 r0 p0 2 2 ug", 3, 1, 1, 1, 3, 0,
     DEVICE_AUTO, "0:node1.0 1:node1.1 2:node2.0"},
    {"CPU nodes when GPUs do not suffice", "node0 r0 p0 2 2 u;node1 r0 p0 1 1 ug", 2, 1, 1, 1, 2, 0,
     DEVICE_AUTO, "0:node0.0 1:node0.1"},
    {"device gpu", "node0 r0 p0 2 2 u;node1 r0 p0 2 2 ug", 2, 1, 1, 1, 2, 0, DEVICE_GPU,
     "0:node1.0 1:node1.1"},
    {"no nodes", "", 1, 1, 1, 1, 1, 0, DEVICE_AUTO, "waits for nodes: none has joined the cluster yet"},
    {"too large", "node0 r0 p0 4 4 u;node1 r0 p0 4 4 u", 16, 1, 1, 1, 16, 0, DEVICE_AUTO,
     "never fits: needs 16 slots, the cluster has 8"},
    {"TP group too large", "node0 r0 p0 2 2 u;node1 r0 p0 2 2 u", 4, 4, 1, 1, 1, 0, DEVICE_AUTO,
     "never fits: a TP group needs 4 slots on one node, the largest node has 2"},
    {"too much memory", "node0 r0 p0 2 2 u", 2, 1, 1, 1, 2, 5 * GIB, DEVICE_AUTO,
     "never fits: 2 ranks in groups of 1 with 5120 MiB of memory each are more than the nodes hold"},
    {"no GPU at all", "node0 r0 p0 2 2 u", 1, 1, 1, 1, 1, 0, DEVICE_GPU,
     "never fits: needs 1 GPU slots, the cluster has 0"},
    {"taken", "node0 r0 p0 2 1 u;node1 r0 p0 2 0 u", 2, 1, 1, 1, 2, 0, DEVICE_AUTO,
     "waits for 2 free slots: other jobs hold them"},
    {"unusable", "node0 r0 p0 2 2 u;node1 r0 p0 2 2 -", 4, 1, 1, 1, 4, 0, DEVICE_AUTO,
     "waits for 4 slots: the nodes that are up and not draining have 2"},
};

static void print_placement(const struct placed_rank *ranks, int64_t n, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < n; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%lld:%s.%lld", i ? " " : "",
                                (long long)ranks[i].rank, ranks[i].node, (long long)ranks[i].slot);
}

static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];
        struct placement_node nodes[8];
        char names[8][3][16], text[1024];
        struct placed_rank ranks[16] = {{0}};
        struct err why = {""};
        struct job_spec spec = {
            .ranks = r->ranks, .tp = r->tp, .pp = r->pp, .cp = r->cp, .dp = r->dp, .ep = 1};
        spec.placement.tp.required = true; /* within a node */
        spec.memory = r->memory;
        spec.device = r->device;
        struct cluster_link links[DOMAIN_COUNT];
        cluster_links_default(links);
        struct placement_view *view = placement_view_new(nodes, parse_nodes(r->nodes, nodes, names), links);
        enum placement_result got = placement_find(view, &spec, ranks, &why);
        placement_view_free(view);
        print_placement(ranks, r->ranks, text, sizeof(text));
        const char *said = got == PLACEMENT_OK ? text : why.text;
        if (strcmp(said, r->wanted) != 0)
            fail_msg("%s: \"%s\" instead of \"%s\"", r->name, said, r->wanted);
        assert_int_equal(got == PLACEMENT_NEVER, strncmp(r->wanted, "never", 5) == 0);
    }
}

struct spare_row {
    const char *name, *nodes;
    int64_t ranks, tp, spares;
    const char *wanted; /* "NODE.SLOT …" of the ranks, then of the spares */
};

static const struct spare_row spare_rows[] = {
    {"a pod with room for the spare",
     "a1 r1 p1 2 2 u;a2 r1 p1 2 2 u;b1 r1 p2 2 2 u;b2 r1 p2 2 2 u;b3 r1 p2 2 2 u", 4, 2, 1,
     "b1.0 b1.1 b2.0 b2.1 / b3.0 b3.1"},
    {"without a spare where none can be had", "a1 r1 p1 2 2 u;a2 r1 p1 2 2 u", 4, 2, 1,
     "a1.0 a1.1 a2.0 a2.1 /"},
    {"never in another pod", "a1 r1 p1 4 4 u;b1 r1 p2 2 2 u", 4, 4, 1, "a1.0 a1.1 a1.2 a1.3 /"},
    {"as large as the fullest node", "a1 r1 p1 4 4 u;a2 r1 p1 3 3 u;a3 r1 p1 4 4 u", 4, 4, 1,
     "a1.0 a1.1 a1.2 a1.3 / a3.0 a3.1 a3.2 a3.3"},
    {"the job's rack first, each on a node of its own",
     "a1 r1 p1 2 2 u;a2 r2 p1 2 2 u;a3 r3 p1 2 2 u;a4 r3 p1 8 6 u;a5 r3 p1 8 8 u", 2, 2, 2,
     "a4.2 a4.3 / a3.0 a3.1 a5.0 a5.1"},
};

static void print_seats(const struct placed_rank *ranks, size_t n, char *out, size_t size)
{
    size_t len = strlen(out);
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s.%lld", len ? " " : "", ranks[i].node,
                                (long long)ranks[i].slot);
}

static void test_spares(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(spare_rows) / sizeof(spare_rows[0]); i++) {
        const struct spare_row *r = &spare_rows[i];
        struct placement_node nodes[8];
        char names[8][3][16], text[1024] = "";
        struct placed_rank ranks[16] = {{0}};
        struct err why = {""};
        struct job_spec spec = {
            .ranks = r->ranks, .tp = r->tp, .pp = 1, .cp = 1, .dp = r->ranks / r->tp, .ep = 1};
        spec.placement.tp.required = true; /* within a node */
        spec.placement.spares = r->spares;
        struct cluster_link links[DOMAIN_COUNT];
        cluster_links_default(links);
        struct placement_view *view = placement_view_new(nodes, parse_nodes(r->nodes, nodes, names), links);
        assert_int_equal(placement_find(view, &spec, ranks, &why), PLACEMENT_OK);
        placement_view_take(view, ranks, (size_t)r->ranks, 0);
        size_t n;
        struct placed_rank *spares = placement_spares(view, &spec, ranks, r->spares, &n);
        print_seats(ranks, (size_t)r->ranks, text, sizeof(text));
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, " /");
        print_seats(spares, n, text, sizeof(text));
        if (strcmp(text, r->wanted) != 0)
            fail_msg("%s: \"%s\" instead of \"%s\"", r->name, text, r->wanted);
        free(spares);
        placement_view_free(view);
    }
}

static void test_coordinates(void **state)
{
    (void)state;
    struct job_spec spec = {.ranks = 24, .tp = 2, .cp = 2, .pp = 3, .dp = 2};
    for (int64_t dp = 0, rank = 0; dp < 2; dp++)
        for (int64_t pp = 0; pp < 3; pp++)
            for (int64_t cp = 0; cp < 2; cp++)
                for (int64_t tp = 0; tp < 2; tp++, rank++) {
                    struct placed_rank r;
                    placement_coordinates(&spec, rank, &r);
                    assert_int_equal(r.rank, rank);
                    assert_int_equal(r.dp, dp);
                    assert_int_equal(r.pp, pp);
                    assert_int_equal(r.cp, cp);
                    assert_int_equal(r.tp, tp);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_spares),
        cmocka_unit_test(test_coordinates),
    };
    return cmocka_run_group_tests_name("core placement", tests, NULL, NULL);
}
