/* The reader of cluster files: what comes out of the topologies in tests/topologies, and for each kind of mistake its place and sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/cluster.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct job_diagnostics diagnostics;

static struct cluster_spec *load(const char *name)
{
    char path[128];
    struct cluster_spec *spec = NULL;
    (void)snprintf(path, sizeof path, "tests/topologies/%s.yaml", name);
    if (cluster_spec_load(path, &spec, &diagnostics) < 0)
        fail_msg("%s", diagnostics.text[0]);
    return spec;
}

static struct cluster_spec *parse(const char *text)
{
    struct cluster_spec *spec = NULL;
    if (cluster_spec_parse(text, strlen(text), "c.yaml", &spec, &diagnostics) < 0)
        fail_msg("%s\n%s", diagnostics.text[0], text);
    return spec;
}

/* ---- the topologies ---- */

struct counts {
    size_t pods, racks, domains, nodes;
    int64_t slots;
};

/* Counts the parts by where they change in topology order. */
static struct counts count(const struct cluster_spec *spec)
{
    struct counts c = {0};
    for (size_t i = 0; i < spec->n_nodes; i++) {
        const struct cluster_node *a = i ? &spec->nodes[i - 1] : NULL, *b = &spec->nodes[i];
        bool pod = !a || strcmp(a->pod, b->pod) != 0, rack = pod || strcmp(a->rack, b->rack) != 0;
        c.pods += pod;
        c.racks += rack;
        c.domains += b->nvlink[0] && (rack || strcmp(a->nvlink, b->nvlink) != 0);
        c.nodes++;
        c.slots += b->slots;
        assert_true(!a || cluster_topology_compare(a, b) < 0);
        assert_ptr_equal(cluster_find(spec, b->name), b);
    }
    return c;
}

static void topologies_have_their_parts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct counts counts;
    } rows[] = {
        {"laptop", {1, 1, 0, 1, 2}},     {"two-racks", {1, 2, 0, 16, 128}},
        {"nvl72", {1, 1, 1, 18, 72}},    {"llama3", {8, 1536, 0, 3072, 24576}},
        {"ragged", {3, 10, 3, 31, 256}}, {"half-drained", {2, 32, 0, 64, 512}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct cluster_spec *spec = load(rows[i].name);
        struct counts c = count(spec);
        assert_string_equal(spec->name, rows[i].name);
        assert_int_equal(c.pods, rows[i].counts.pods);
        assert_int_equal(c.racks, rows[i].counts.racks);
        assert_int_equal(c.domains, rows[i].counts.domains);
        assert_int_equal(c.nodes, rows[i].counts.nodes);
        assert_int_equal(c.slots, rows[i].counts.slots);
        assert_null(cluster_find(spec, "nobody"));
        cluster_spec_free(spec);
    }
}

static void is_at(const struct cluster_spec *spec, const char *name, const char *pod, const char *rack,
                  const char *nvlink)
{
    const struct cluster_node *node = cluster_find(spec, name);
    assert_non_null(node);
    assert_string_equal(node->pod, pod);
    assert_string_equal(node->rack, rack);
    assert_string_equal(node->nvlink, nvlink);
}

static void nodes_are_dealt_in_order(void **state)
{
    (void)state;
    struct cluster_spec *spec = load("llama3");
    is_at(spec, "gpu0001", "pod1", "rack1", "");
    is_at(spec, "gpu0002", "pod1", "rack1", "");
    is_at(spec, "gpu0003", "pod1", "rack2", "");
    is_at(spec, "gpu0384", "pod1", "rack192", "");
    is_at(spec, "gpu0385", "pod2", "rack1", "");
    is_at(spec, "gpu3072", "pod8", "rack192", "");
    assert_string_equal(spec->nodes[0].name, "gpu0001");
    assert_string_equal(spec->nodes[3071].name, "gpu3072");
    cluster_spec_free(spec);
}

static void parts_have_their_own_devices(void **state)
{
    (void)state;
    struct cluster_spec *spec = load("ragged");
    is_at(spec, "node9", "pod2", "rack10", "rack10-nvl2");
    is_at(spec, "node6", "pod2", "rack10", "rack10-nvl1");
    is_at(spec, "node20", "pod10", "rack1", "rack1");
    const struct cluster_node *cpu = cluster_find(spec, "node101"), *gpu = cluster_find(spec, "node21");
    assert_false(cpu->gpu);
    assert_string_equal(cpu->device, "cpu");
    assert_int_equal(cpu->cores, 64);
    assert_int_equal(cpu->slots, 16);
    assert_true(gpu->gpu);
    assert_string_equal(gpu->device, "a100");
    assert_int_equal(gpu->memory, INT64_C(64) << 30);
    assert_string_equal(cluster_find(spec, "node3")->device,
                        "h100");                     /* what a rack leaves out is the pod's */
    assert_string_equal(spec->nodes[0].pod, "pod1"); /* numbers compare as numbers */
    assert_string_equal(spec->nodes[spec->n_nodes - 1].pod, "pod10");
    cluster_spec_free(spec);
}

static void what_ifs_are_read(void **state)
{
    (void)state;
    struct cluster_spec *spec = load("half-drained");
    int64_t taken = 0, drained = 0;
    for (size_t i = 0; i < spec->n_nodes; i++) {
        taken += spec->nodes[i].taken;
        drained += spec->nodes[i].drained;
    }
    assert_int_equal(taken, 3 * 5 + 8 * 8 + 1);
    assert_int_equal(drained, 8 + 2);
    assert_true(cluster_find(spec, "gpu045")->drained);
    assert_int_equal(cluster_find(spec, "gpu007")->taken, 5);
    cluster_spec_free(spec);
}

/* ---- links ---- */

#define PODS "pods: [{name: p, racks: r, nodes: n, devices: {type: GPU, per_node: 1}}]\n"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static void links_have_defaults(void **state)
{
    (void)state;
    struct cluster_spec *spec = parse(PODS);
    struct cluster_link links[DOMAIN_COUNT];
    cluster_links_default(links);
    assert_memory_equal(spec->links, links, sizeof links);
    assert_true(near(links[DOMAIN_NODE].bytes_per_s, 450e9) && near(links[DOMAIN_NODE].latency_s, 5e-6));
    assert_true(near(links[DOMAIN_CLUSTER].bytes_per_s, 50e9));
    assert_true(near(spec->pcie.bytes_per_s, 64e9) && near(spec->device_memory.bytes_per_s, 3e12));
    assert_string_equal(spec->name, "cluster");
    assert_string_equal(spec->nodes[0].device, ""); /* GPU: of no known type */
    assert_true(spec->nodes[0].gpu);
    cluster_spec_free(spec);
}

static void links_are_read(void **state)
{
    (void)state;
    struct cluster_spec *spec = parse("links:\n"
                                      "  memory: {bandwidth: 8TB/s}\n"
                                      "  node: {bandwidth: 900 GB/s, latency: 2.5us}\n"
                                      "  rack: {bandwidth: 400Gb/s}\n"
                                      "  pod: {latency: 1ms}\n"
                                      "  cluster: {bandwidth: 7.143GB/s, latency: 0.01ms}\n" PODS);
    assert_true(near(spec->device_memory.bytes_per_s, 8e12));
    assert_true(near(spec->links[DOMAIN_NODE].bytes_per_s, 900e9));
    assert_true(near(spec->links[DOMAIN_NODE].latency_s, 2.5e-6));
    assert_true(near(spec->links[DOMAIN_RACK].bytes_per_s, 50e9));
    assert_true(near(spec->links[DOMAIN_RACK].latency_s, 2e-6));
    assert_true(near(spec->links[DOMAIN_POD].latency_s, 1e-3));
    assert_true(near(spec->links[DOMAIN_CLUSTER].bytes_per_s, 7.143e9));
    assert_true(near(spec->links[DOMAIN_CLUSTER].latency_s, 1e-5));
    cluster_spec_free(spec);
}

static void wider_defaults_give_way(void **state)
{
    (void)state;
    struct cluster_spec *spec = parse("links: {node: {bandwidth: 10GB/s}}\n" PODS);
    for (size_t level = 0; level < DOMAIN_COUNT; level++)
        assert_true(near(spec->links[level].bytes_per_s, 10e9));
    cluster_spec_free(spec);
}

/* ---- mistakes ---- */

#define TOP "devices: {type: h100, per_node: 8}\n"

static const struct {
    const char *text, *why; /* the first sentence */
} mistakes[] = {
    {"", "c.yaml:1:1: the file is empty; a cluster file begins with  name: my-cluster"},
    {"x", "c.yaml:1:1: a cluster file must be a mapping of fields (key: value), not a single word"},
    {"name: &a b\n",
     "c.yaml:1:7: anchors (&name) are not allowed in a cluster file; write the value out where "
     "it is used"},
    {"name: x\n", "c.yaml:1:1: pods is missing: the pods, in any order"},
    {"nam: x\n" PODS, "c.yaml:1:1: unknown field \"nam\"; did you mean \"name\"?"},
    {"name: x\nname: y\n" PODS, "c.yaml:2:1: \"name\" is given twice; it is already in line 1, column 1"},
    {"name: a b\n" PODS,
     "c.yaml:1:7: name: must be 1 to 63 letters, digits, \".\", \"_\" and \"-\", the first "
     "a letter or digit, not \"a b\""},
    {"xyzzy: 1\n" PODS,
     "c.yaml:1:1: unknown field \"xyzzy\"; allowed here: name, devices, links, pods, taken, "
     "drained"},
    {"links: {rack: {bandwith: 1GB/s}}\n" PODS,
     "c.yaml:1:16: unknown field \"bandwith\" in links.rack; did you mean \"bandwidth\"?"},
    {"links: {rack: {bandwidth: 50}}\n" PODS,
     "c.yaml:1:27: links.rack.bandwidth: must be a rate such as 450GB/s or 400Gb/s (bits), not \"50\""},
    {"links: {rack: {bandwidth: 0GB/s}}\n" PODS,
     "c.yaml:1:27: links.rack.bandwidth: must be a rate such as 450GB/s or 400Gb/s (bits), not \"0GB/s\""},
    {"links: {rack: {latency: 5}}\n" PODS,
     "c.yaml:1:25: links.rack.latency: must be a latency such as 100ns, 2.5us or 1ms, not \"5\""},
    {"links: {pod: {bandwidth: 100GB/s}}\n" PODS,
     "c.yaml:1:26: links.pod.bandwidth: 100GB/s is more than the 50GB/s of links.rack; a wider part of the "
     "cluster cannot be faster"},
    {"links: 5\n" PODS, "c.yaml:1:8: links: must be a mapping of fields (key: value), not a single word"},
    {"pods: []\n", "c.yaml:1:7: pods: must be a list of at least one pod, not an empty list"},
    {"pods: {name: p}\n", "c.yaml:1:7: pods: must be a list of at least one pod, not a mapping"},
    {"pods: [p]\n", "c.yaml:1:8: pods: must be a mapping of fields (key: value), not a single word"},
    {TOP "pods: [{racks: r, nodes: n}]\n", "c.yaml:2:8: pods.name is missing: one pod, or several alike"},
    {TOP "pods: [{name: p, racks: r}]\n",
     "c.yaml:2:8: pods.nodes is missing: which nodes are in these racks?"},
    {TOP "pods: [{name: p, racks: r, nodes: [n1, n2]}]\n",
     "c.yaml:2:35: pods.nodes: must be a single value, not a list"},
    {TOP "pods: [{name: p, racks: , nodes: n}]\n",
     "c.yaml:2:25: pods.racks: must be a single value, not empty"},
    {TOP "pods: [{name: p, racks: r, nodes: \"n[3-1]\"}]\n",
     "c.yaml:2:35: pods.nodes: \"n[3-1]\" has a range that runs backwards; write [1-3]"},
    {TOP "pods: [{name: p, racks: r, nodes: \"n[1-70000]\"}]\n",
     "c.yaml:2:35: pods.nodes: \"n[1-70000]\" makes it more than 65536 names, which is the most allowed "
     "here"},
    {TOP "pods: [{name: p, racks: r, nodes: \"n[1-65536]\"}, {name: q, racks: r, nodes: m}]\n",
     "c.yaml:2:77: pods.nodes: more than 65536 nodes in all, which is the most that a cluster may have"},
    {TOP "pods: [{name: \"p[1-2]\", racks: \"r[1-7]\", nodes: \"n[1-100]\"}]\n",
     "c.yaml:2:49: pods.nodes: 100 nodes cannot be dealt evenly over 14 racks (pods: 2, racks in each: 7); "
     "make "
     "them a multiple of 14, or give the racks one by one"},
    {TOP "pods: [{name: p, racks: \"r[1-7]\", nodes: n}]\n",
     "c.yaml:2:42: pods.nodes: 1 node cannot be dealt evenly over 7 racks (pods: 1, racks in each: 7); make "
     "them a multiple of 7, or give the racks one by one"},
    {TOP "pods: [{name: p, racks: r, nodes: \"n[1-18]\", nvlink: 4}]\n",
     "c.yaml:2:54: pods.nvlink: racks of 18 nodes cannot be cut into NVLink domains of 4 nodes"},
    {TOP "pods: [{name: p, racks: r, nodes: n, nvlink: pod}]\n",
     "c.yaml:2:46: pods.nvlink: must be none, rack or a number of nodes from 2 to 65536, not \"pod\""},
    {"pods: [{name: p, racks: r, nodes: n}]\n", "c.yaml:1:8: pods: its nodes have no type of devices; give "
                                                "devices.type here or at the top, such as h100, "
                                                "gpu or cpu"},
    {"pods: [{name: p, racks: r, nodes: n, devices: {type: h100}}]\n",
     "c.yaml:1:8: pods: its nodes have no number of devices; give devices.per_node here or at the top"},
    {"devices: {type: h100, per_node: 2000}\npods: [{name: p, racks: r, nodes: n}]\n",
     "c.yaml:1:33: devices.per_node: must be a whole number from 1 to 1024, not \"2000\""},
    {"devices: {type: h100, per_node: 8, memory: much}\npods: [{name: p, racks: r, nodes: n}]\n",
     "c.yaml:1:44: devices.memory: must be a size such as 512MiB, 1GiB or 2GB, not \"much\""},
    {TOP "pods: [{name: p, racks: r, nodes: n1}, {name: p, racks: s, nodes: n2}]\n",
     "c.yaml:2:47: pod p is given twice; it is already in line 2, column 15"},
    {TOP "pods: [{name: p, racks: r, nodes: n1}, {name: q, racks: r, nodes: n1}]\n",
     "c.yaml:2:67: node n1 is given twice; it is already in line 2, column 35"},
    {TOP "pods: [{name: p, racks: [{name: r, nodes: n1}, {name: r, nodes: n2}]}]\n",
     "c.yaml:2:55: rack r of pod p is given twice; it is already in line 2, column 33"},
    {TOP "pods: [{name: p, nodes: x, racks: [{name: r, nodes: n1}]}]\n",
     "c.yaml:2:25: pods.nodes: each of the racks names its own nodes; move these into pods.racks"},
    {TOP "pods: [{name: p, racks: []}]\n", "c.yaml:2:25: pods.racks: must have at least one rack"},
    {TOP "pods: [{name: p, racks: [{name: r, node: n1}]}]\n",
     "c.yaml:2:26: pods.racks.nodes is missing: dealt evenly over these racks"},
    {TOP "pods: [{name: \"p[1-2]\", racks: [{name: r, nodes: n1}]}]\n",
     "c.yaml:2:50: pods.racks.nodes: 1 node cannot be dealt evenly over 2 racks (pods: 2, racks in each: "
     "1); "
     "make them a multiple of 2, or give the racks one by one"},
    {PODS "taken: {m: 1}\n", "c.yaml:2:9: taken: no pod of this file has a node m"},
    {PODS "taken: {n: 2}\n", "c.yaml:2:9: taken: node n has 1 slot, so 2 cannot be in use"},
    {PODS "drained: [n[1-2]]\n",
     "c.yaml:2:12: brackets within {…} or […] begin a list; put the name in quotes: "
     "\"n[1-2]\" (not YAML: did not find expected ',' or ']')"},
    {PODS "taken: {é: 1, n[1-2,4]x[1,2]: x}\n",
     "c.yaml:2:16: brackets within {…} or […] begin a list; put the name in quotes: \"n[1-2,4]x[1,2]\" (not "
     "YAML: did not find expected ',' or '}')"},
    {PODS "taken: {n: 1 2: 3}\n",
     "c.yaml:2:15: not YAML: did not find expected ',' or '}', while parsing a flow "
     "mapping that begins in line 2"},
    {PODS "taken: {n: x}\n", "c.yaml:2:12: taken: must be a whole number from 0 to 1024, not \"x\""},
    {PODS "taken: [n]\n", "c.yaml:2:8: taken: must be a mapping such as {\"gpu[1-4]\": 8}, not a list"},
    {PODS "drained: \"m[1-2]\"\n", "c.yaml:2:10: drained: no pod of this file has a node m1"},
    {PODS "drained: [n, [m]]\n", "c.yaml:2:14: drained: must be a single value, not a list"},
};

static void mistakes_have_a_place_and_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(mistakes); i++) {
        struct cluster_spec *spec = NULL;
        const char *text = mistakes[i].text;
        if (cluster_spec_parse(text, strlen(text), "c.yaml", &spec, &diagnostics) == 0)
            fail_msg("accepted:\n%s", text);
        if (strcmp(diagnostics.text[0], mistakes[i].why) != 0)
            fail_msg("expected %s\ngot %s", mistakes[i].why, diagnostics.text[0]);
        assert_null(spec);
    }
}

static void names_in_all_are_limited(void **state)
{
    (void)state;
    struct cluster_spec *spec = NULL;
    char *text = str_dup("devices: {type: cpu, per_node: 1}\n"
                         "pods: [{name: p, racks: r, nodes: \"n[1-65536]\"}]\ndrained: [\"n[1-65536]\"");
    for (int i = 0; i < 10; i++) {
        char *longer = str_printf("%s, \"n[1-65536]\"", text);
        free(text);
        text = longer;
    }
    char *whole = str_printf("%s]\n", text);
    assert_int_equal(cluster_spec_parse(whole, strlen(whole), "c.yaml", &spec, &diagnostics), -1);
    assert_int_equal(diagnostics.count, 1);
    assert_string_equal(diagnostics.text[0],
                        "c.yaml:3:95: drained: up to here the lists of this file stand for more than 524288 "
                        "names, and a cluster has at most 65536 nodes; name each node, rack and pod once");
    free(whole);
    free(text);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    struct cluster_spec *spec = NULL;
    assert_int_equal(cluster_spec_load("nowhere.yaml", &spec, &diagnostics), -1);
    assert_string_equal(diagnostics.text[0],
                        "nowhere.yaml:1:1: cannot open nowhere.yaml: No such file or directory");
}

/* ---- made otherwise ---- */

static void a_spec_of_ones_own_can_be_searched(void **state)
{
    (void)state;
    struct cluster_spec *spec = cluster_spec_new("mine");
    spec->nodes = calloc(2, sizeof *spec->nodes);
    spec->n_nodes = 2;
    (void)snprintf(spec->nodes[0].name, sizeof spec->nodes[0].name, "n10");
    (void)snprintf(spec->nodes[1].name, sizeof spec->nodes[1].name, "n9");
    assert_ptr_equal(cluster_find(spec, "n9"), &spec->nodes[1]); /* without an index */
    cluster_spec_finish(spec);
    assert_ptr_equal(cluster_find(spec, "n9"), &spec->nodes[0]);
    assert_null(cluster_find(spec, "n1"));
    cluster_spec_free(spec);
    cluster_spec_free(NULL);
}

static void names_compare_by_their_numbers(void **state)
{
    (void)state;
    static const char *const sorted[] = {"",        "a",     "node01", "node1",  "node2", "node10",
                                         "node10b", "nodeb", "rack1",  "rack1a", "rack10"};
    for (size_t i = 0; i < COUNT(sorted); i++)
        for (size_t k = 0; k < COUNT(sorted); k++) {
            int c = cluster_name_compare(sorted[i], sorted[k]);
            assert_int_equal((c > 0) - (c < 0), (i > k) - (i < k));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topologies_have_their_parts),
        cmocka_unit_test(nodes_are_dealt_in_order),
        cmocka_unit_test(parts_have_their_own_devices),
        cmocka_unit_test(what_ifs_are_read),
        cmocka_unit_test(links_have_defaults),
        cmocka_unit_test(links_are_read),
        cmocka_unit_test(wider_defaults_give_way),
        cmocka_unit_test(mistakes_have_a_place_and_a_sentence),
        cmocka_unit_test(names_in_all_are_limited),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(a_spec_of_ones_own_can_be_searched),
        cmocka_unit_test(names_compare_by_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
