/* bench_turn: what a turn of the core costs at the sizes it is made for: 3,072 nodes x 8 GPUs, 10,000 waiting jobs.
 *
 * Wall-clock milliseconds of one core_turn each; the first figure of a row is the smallest of several. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "daemon/core/core.h"

enum { NODES = 3072, SLOTS = 8, JOBS = 10000, REPEATS = 5 };
#define UTC 1800000000000

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void node_name(char out[32], int i)
{
    (void)snprintf(out, 32, "gpu%04d", i);
}

static void join(struct core *core, struct core_time t)
{
    for (int i = 0; i < NODES; i++) {
        char name[32];
        struct link_inventory inv = {.slots = SLOTS, .cores = 64, .memory = (int64_t)1 << 40, .gpu = true};
        node_name(name, i);
        (void)snprintf(inv.pod, sizeof(inv.pod), "pod%d", i / 384);
        (void)snprintf(inv.rack, sizeof(inv.rack), "rack%d", i / 2 % 192);
        (void)snprintf(inv.address, sizeof(inv.address), "10.0.0.1");
        struct core_hello hello = {name, "boot", &inv, NULL, 0};
        core_node_hello(core, t, &hello);
    }
    core_turn(core, t);
    core_changes_clear(core);
}

static int64_t submit(struct core *core, struct core_time t, const char *more)
{
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    char *yaml = str_printf("name: p\nrun: {command: [x]}\n%s", more);
    if (job_spec_parse(yaml, strlen(yaml), "p.yaml", NULL, 0, &spec, &d) != 0) {
        fprintf(stderr, "%s\n", d.text[0]);
        exit(1);
    }
    free(yaml);
    struct core_submit s = {NULL, "ann", "/home/ann", 1000, 1000, spec};
    int64_t id = 0;
    enum core_refusal why;
    struct err err = {""};
    if (core_submit(core, t, &s, &id, &why, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return id;
}

static double turn(struct core *core, struct core_time t)
{
    double begin = now_ms();
    core_turn(core, t);
    double took = now_ms() - begin;
    core_changes_clear(core);
    return took;
}

static void report_all(struct core *core, struct core_time t, int64_t id, enum report_phase phase,
                       int64_t rev)
{
    const struct attempt_record *a = core_attempt(core, id, 0);
    for (size_t i = 0; i < a->n_nodes; i++) {
        struct link_report r = {id, a->number, rev, phase, "", 4000, 4001, NULL, 0};
        core_node_report(core, t, a->nodes[i].node, &r);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void row(const char *what, double *ms, size_t n)
{
    qsort(ms, n, sizeof(*ms), compare);
    printf("%-66s %9.3f ms  (median %.3f, worst %.3f of %zu)\n", what, ms[0], ms[n / 2], ms[n - 1], n);
}

/* 10,000 jobs of a few dozen shapes, none of which fits beside the large one. */
static void submit_many(struct core *core, struct core_time t)
{
    for (int i = 0; i < JOBS; i++) {
        char more[160];
        (void)snprintf(more, sizeof(more), "parallel: {tp: 8, pp: %d, dp: %d}\npriority: %d\n", 1 << (i % 5),
                       1100 + i % 40, i % 7);
        submit(core, t, more);
    }
}

/* Half the cluster is taken for an hour, the head wants all of it, and each small job would delay it. */
static void bench_backfill(const struct core_config *config)
{
    struct core_time t = {UTC, 1000};
    double ms[REPEATS];
    struct core *core = core_new(config, t);
    join(core, t);
    int64_t half = submit(core, t, "parallel: {tp: 8, dp: 1536}\nlimits: {time: 1h}\n");
    turn(core, t);
    report_all(core, t, half, REPORT_READY, 1);
    report_all(core, t, half, REPORT_RUNNING, 2);
    submit(core, t, "parallel: {tp: 8, dp: 3072}\n");
    turn(core, t);
    for (int i = 0; i < JOBS; i++)
        submit(core, t, i % 2 ? "parallel: {dp: 1}\n" : "parallel: {tp: 2, dp: 3}\n");
    for (int i = 0; i < REPEATS; i++) {
        ms[i] = turn(core, t);
        submit(core, t, "parallel: {dp: 1}\nlimits: {time: 10m}\n");
    }
    row("a turn over 10,000 jobs that must not delay a larger one", ms, REPEATS);
    core_free(core);
}

int main(void)
{
    struct core_config config;
    double ms[REPEATS];
    struct core_time t = {UTC, 1000};
    core_config_defaults(&config);
    config.suspect_after_ms = INT64_C(1) << 40; /* nobody sends heartbeats here */
    struct core *core = core_new(&config, t);
    join(core, t);
    int64_t large = submit(core, t, "parallel: {tp: 8, pp: 16, dp: 128}\nplacement: {spares: 8}\n");
    ms[0] = turn(core, t);
    row("a turn that places 16,384 ranks (attempt, orders, events)", ms, 1);
    report_all(core, t, large, REPORT_READY, 1);
    turn(core, t);
    report_all(core, t, large, REPORT_RUNNING, 2);
    turn(core, t);
    submit_many(core, t);
    ms[0] = turn(core, t);
    row("the first turn over 10,000 waiting jobs (each gets its reason)", ms, 1);
    for (int i = 0; i < REPEATS; i++) {
        char name[32];
        node_name(name, NODES - 1 - i);
        t.now_ms += 1000;
        t.mono_ms += 1000;
        core_node_link_lost(core, t, name);
        struct link_inventory inv = {.slots = SLOTS, .cores = 64, .memory = (int64_t)1 << 40, .gpu = true};
        (void)snprintf(inv.pod, sizeof(inv.pod), "pod%d", (NODES - 1 - i) / 384);
        (void)snprintf(inv.rack, sizeof(inv.rack), "rack%d", (NODES - 1 - i) / 2 % 192);
        struct core_hello hello = {name, "boot", &inv, NULL, 0};
        core_node_hello(core, t, &hello);
        ms[i] = turn(core, t);
    }
    row("a turn that tries all 10,000 again (a node came back)", ms, REPEATS);
    for (int i = 0; i < REPEATS; i++) {
        core_node_heartbeat(core, t, "gpu0000");
        ms[i] = turn(core, t);
    }
    row("a turn in which nothing happened but a heartbeat", ms, REPEATS);
    core_free(core);
    bench_backfill(&config);
    return 0;
}
