/* layout: where a node belongs by the cluster file, what is said of differences, and that it is said once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core.h"
#include "daemon/core/layout.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define GIB      (INT64_C(1) << 30)

static const char text[] =
    "name: lab\n"
    "devices: {type: h100, per_node: 8, cores: 96, memory: 1000GiB}\n"
    "pods:\n"
    "  - {name: pod1, racks: \"rack[1-2]\", nodes: \"gpu[1-4]\", nvlink: rack}\n"
    "  - {name: pod2, racks: rack1, nodes: \"b[1-2]\", devices: {type: b200}}\n"
    "  - {name: pod3, racks: rack1, nodes: any, devices: {type: gpu}}\n"
    "  - {name: pod4, racks: rack1, nodes: host, devices: {type: cpu, cores: 0, memory: 0}}\n";

static struct cluster_spec *lab(void)
{
    static struct job_diagnostics d;
    struct cluster_spec *spec = NULL;
    if (cluster_spec_parse(text, strlen(text), "lab", &spec, &d) < 0)
        fail_msg("%s", d.text[0]);
    return spec;
}

/* What a node of the file would report, with another name of its GPUs. */
static struct link_inventory inventory(struct link_gpu *gpu, const char *gpu_name)
{
    struct link_inventory i = {.slots = 8, .cores = 96, .memory = 1000 * GIB, .gpu = gpu_name != NULL};
    if (gpu_name) {
        (void)snprintf(gpu->name, sizeof gpu->name, "%s", gpu_name);
        i.gpus = gpu;
        i.n_gpus = 1;
    }
    return i;
}

static void types_of_gpu_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *node, *gpu;
        bool differs;
    } rows[] = {
        {"gpu1", "NVIDIA H100 80GB HBM3", false},
        {"gpu1", "H100", false},
        {"gpu1", "NVIDIA A100-SXM4-80GB", true},
        {"gpu1", "NVIDIA H200", true},
        {"gpu1", "Tesla V100-SXM2-32GB", true},
        {"gpu1", "NVIDIA A10G", true},
        {"gpu1", "Some Accelerator 80GB", false},
        {"gpu1", "", false},
        {"gpu1", "NVIDIA GH100", false},
        {"b1", "NVIDIA GB200", false},
        {"b1", "NVIDIA B200", false},
        {"b1", "NVIDIA H100 80GB HBM3", true},
        {"any", "NVIDIA A100-SXM4-80GB", false},
    };
    struct cluster_spec *spec = lab();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct link_gpu gpu = {0};
        struct link_inventory have = inventory(&gpu, rows[i].gpu);
        struct layout_finding found;
        layout_apply(spec, false, rows[i].node, &have, &found);
        if ((found.kind != NULL) != rows[i].differs)
            fail_msg("%s on %s: %s", rows[i].gpu, rows[i].node, found.text.text);
    }
    cluster_spec_free(spec);
}

static void each_difference_is_named(void **state)
{
    (void)state;
    static const struct {
        struct link_inventory have;
        const char *gpu, *says; /* says "" = nothing to tell */
    } rows[] = {
        {{.slots = 8, .cores = 96, .memory = 1000 * GIB}, "H100", ""},
        {{.slots = 8, .cores = 128, .memory = 2000 * GIB}, "H100", ""}, /* more does no harm */
        {{.slots = 8, .cores = 96, .memory = 960 * GIB}, "H100", ""},   /* what the kernel keeps */
        {{.slots = 7, .cores = 96, .memory = 1000 * GIB},
         "H100",
         "differs from the cluster file: 7 slots instead of 8"},
        {{.slots = 1, .cores = 1, .memory = 940 * GIB},
         "A100",
         "differs from the cluster file: 1 slot instead of 8, A100 instead of h100, 1 core instead of 96, "
         "940.0 GiB of memory instead of 1000.0"},
        {{.slots = 8, .cores = 96, .memory = 1000 * GIB},
         NULL,
         "differs from the cluster file: CPUs instead of GPUs"},
        {{.slots = 8, .cores = 96, .memory = 1000 * GIB, .rack = "rack7", .pod = "pod1", .nvlink = "x"},
         "H100",
         "differs from the cluster file: rack rack7 instead of rack1, NVLink domain x instead of rack1"},
        {{.slots = 8, .cores = 96, .memory = 1000 * GIB, .pod = "pod9"},
         "H100",
         "differs from the cluster file: pod pod9 instead of pod1"},
    };
    struct cluster_spec *spec = lab();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct link_gpu gpu = {0};
        struct link_inventory have = rows[i].have, with = inventory(&gpu, rows[i].gpu);
        struct layout_finding found;
        have.gpu = with.gpu;
        have.gpus = with.gpus;
        have.n_gpus = with.n_gpus;
        layout_apply(spec, false, "gpu1", &have, &found);
        assert_string_equal(found.text.text, rows[i].says);
        assert_true(rows[i].says[0] ? strcmp(found.kind, "node_mismatch") == 0 : found.kind == NULL);
        assert_string_equal(have.pod, "pod1");
        assert_string_equal(have.rack, "rack1");
        assert_string_equal(have.nvlink, "rack1");
    }
    cluster_spec_free(spec);
}

static void a_node_with_cpus_may_be_just_that(void **state)
{
    (void)state;
    struct cluster_spec *spec = lab();
    struct link_inventory have = {.slots = 8, .cores = 1};
    struct layout_finding found;
    layout_apply(spec, false, "host", &have, &found);
    assert_string_equal(found.text.text, "");
    assert_string_equal(have.pod, "pod4");
    cluster_spec_free(spec);
}

static void an_unlisted_node_keeps_its_place(void **state)
{
    (void)state;
    struct cluster_spec *spec = lab();
    struct link_inventory have = {.slots = 8, .rack = "r", .pod = "p", .nvlink = "n"};
    struct layout_finding found;
    layout_apply(spec, false, "stranger", &have, &found);
    assert_string_equal(found.kind, "node_unlisted");
    assert_string_equal(have.rack, "r");
    assert_string_equal(have.pod, "p");
    assert_string_equal(have.nvlink, "n");
    cluster_spec_free(spec);
}

/* ---- within the core ---- */

static int64_t now = 1000;

static void hello(struct core *core, const char *name, int64_t slots)
{
    struct link_inventory have = {.slots = slots, .cores = 96, .memory = 1000 * GIB};
    (void)snprintf(have.address, sizeof have.address, "127.0.0.1");
    struct core_hello h = {.node = name, .boot = "boot", .inventory = &have};
    core_node_hello(core, (struct core_time){now, now}, &h);
    now += 100;
}

/* How many events of that kind were noted since the last call; the sentence of the newest is kept in last_text. */
static char last_text[512];

static size_t told(struct core *core, const char *kind)
{
    const struct core_changes *c = core_changes(core);
    size_t n = 0;
    for (size_t i = 0; i < c->n_events; i++)
        if (strcmp(c->events[i].kind, kind) == 0) {
            (void)snprintf(last_text, sizeof last_text, "%s", c->events[i].text);
            n++;
        }
    core_changes_clear(core);
    return n;
}

static void a_stand_in_has_other_devices(void **state)
{
    (void)state;
    static const struct {
        int64_t slots;
        bool played;
        const char *says;
    } rows[] = {{8, false,
                 "differs from the cluster file: CPUs instead of GPUs, 2 cores instead of 64, 1.0 GiB of "
                 "memory instead "
                 "of 512.0"},
                {8, true, ""},
                {4, true, "differs from the cluster file: 4 slots instead of 8"}};
    struct cluster_spec *spec = cluster_spec_new("c");
    spec->nodes = mem_zero(1, sizeof *spec->nodes);
    spec->nodes[spec->n_nodes++] = (struct cluster_node){.name = "n",
                                                         .pod = "p",
                                                         .rack = "r",
                                                         .device = "h100",
                                                         .gpu = true,
                                                         .slots = 8,
                                                         .cores = 64,
                                                         .memory = INT64_C(1) << 39};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct link_inventory have = {.slots = rows[i].slots, .cores = 2, .memory = INT64_C(1) << 30};
        struct layout_finding found;
        layout_apply(spec, rows[i].played, "n", &have, &found);
        assert_string_equal(found.text.text, rows[i].says);
    }
    cluster_spec_free(spec);
}

static struct core *core_with(const struct cluster_spec *spec)
{
    struct core_config config;
    core_config_defaults(&config);
    config.cluster = spec;
    return core_new(&config, (struct core_time){now, now});
}

static void a_difference_is_told_once_and_kept_as_the_reason(void **state)
{
    (void)state;
    struct cluster_spec *spec = lab();
    struct core *core = core_with(spec);
    hello(core, "host", 8);
    assert_int_equal(told(core, "node_mismatch"), 0);
    assert_string_equal(core_node(core, "host")->reason, "");
    hello(core, "host", 4);
    assert_int_equal(told(core, "node_mismatch"), 1);
    assert_string_equal(last_text, "host differs from the cluster file: 4 slots instead of 8");
    assert_string_equal(core_node(core, "host")->reason,
                        "differs from the cluster file: 4 slots instead of 8");
    assert_int_equal(core_node(core, "host")->state, NODE_UP);
    hello(core, "host", 4); /* the agent came back */
    core_node_heartbeat(core, (struct core_time){now, now}, "host");
    assert_int_equal(told(core, "node_mismatch"), 0);
    assert_string_equal(core_node(core, "host")->reason,
                        "differs from the cluster file: 4 slots instead of 8");
    hello(core, "host", 3);
    assert_int_equal(told(core, "node_mismatch"), 1);
    hello(core, "host", 8);
    assert_int_equal(told(core, "node_mismatch"), 1);
    assert_string_equal(last_text, "host is now what the cluster file says");
    assert_string_equal(core_node(core, "host")->reason, "");
    core_free(core);
    cluster_spec_free(spec);
}

static void the_reason_survives_silence_and_a_drain(void **state)
{
    (void)state;
    struct cluster_spec *spec = lab();
    struct core *core = core_with(spec);
    enum core_refusal why;
    struct err err;
    hello(core, "host", 4);
    core_node_link_lost(core, (struct core_time){now, now}, "host");
    assert_string_equal(core_node(core, "host")->reason, "its link closed");
    hello(core, "host", 4);
    assert_string_equal(core_node(core, "host")->reason,
                        "differs from the cluster file: 4 slots instead of 8");
    assert_int_equal(
        core_drain(core, (struct core_time){now, now}, "host", "fan is loud", 0, false, &why, &err), 0);
    core_turn(core, (struct core_time){now, now});
    assert_string_equal(core_node(core, "host")->reason,
                        "fan is loud -- differs from the cluster file: 4 slots instead of 8");
    core_free(core);
    cluster_spec_free(spec);
}

static void a_new_controller_does_not_tell_again(void **state)
{
    (void)state;
    struct cluster_spec *spec = lab();
    struct core *core = core_with(spec);
    struct node_record record = {.name = "host", .state = NODE_UP};
    record.reason = str_dup("differs from the cluster file: 4 slots instead of 8");
    core_load_node(core, &record);
    hello(core, "host", 4);
    assert_int_equal(told(core, "node_mismatch"), 0);
    assert_string_equal(core_node(core, "host")->reason,
                        "differs from the cluster file: 4 slots instead of 8");
    core_free(core);
    cluster_spec_free(spec);
}

static void an_unlisted_node_joins_and_that_is_told(void **state)
{
    (void)state;
    struct cluster_spec *spec = lab();
    struct core *core = core_with(spec);
    hello(core, "stranger", 4);
    assert_int_equal(told(core, "node_unlisted"), 1);
    assert_string_equal(last_text,
                        "stranger is not in the cluster file: its pod and rack are what its agent says");
    assert_int_equal(core_node(core, "stranger")->state, NODE_UP);
    core_free(core);
    core = core_with(NULL);
    hello(core, "stranger", 4);
    assert_int_equal(told(core, "node_unlisted"), 0);
    assert_string_equal(core_node(core, "stranger")->reason, "");
    core_free(core);
    cluster_spec_free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_of_gpu_are_recognised),
        cmocka_unit_test(each_difference_is_named),
        cmocka_unit_test(a_node_with_cpus_may_be_just_that),
        cmocka_unit_test(an_unlisted_node_keeps_its_place),
        cmocka_unit_test(a_stand_in_has_other_devices),
        cmocka_unit_test(a_difference_is_told_once_and_kept_as_the_reason),
        cmocka_unit_test(the_reason_survives_silence_and_a_drain),
        cmocka_unit_test(a_new_controller_does_not_tell_again),
        cmocka_unit_test(an_unlisted_node_joins_and_that_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
