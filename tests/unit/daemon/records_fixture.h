/* records_fixture: one record of each kind with every field set to something that is not its default. */
#ifndef BELAY_TESTS_RECORDS_FIXTURE_H
#define BELAY_TESTS_RECORDS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/records.h"

#define SET_TEXT(field, text) snprintf(field, sizeof(field), "%s", text)

static inline struct job_spec *fixture_spec(void)
{
    static const char yaml[] =
        "name: shakespeare\nqueue: night\npriority: 7\nrun:\n  command: [sleep, '5']\n  ranks: 2\n"
        "restart: {max: 9}\n";
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    d.count = 0;
    if (job_spec_parse(yaml, strlen(yaml), "fixture", NULL, 0, &spec, &d) != 0) {
        fprintf(stderr, "%s\n", d.text[0]);
        abort();
    }
    return spec;
}

static inline struct lost_time fixture_lost(int64_t n)
{
    return (struct lost_time){n + 1, n + 2, n + 3, n + 4, n + 5};
}

static inline struct job_record fixture_job(int64_t id)
{
    struct job_record j = {.id = id,
                           .rev = 41,
                           .key = str_printf("key-%lld", (long long)id),
                           .user = str_dup("ann"),
                           .cwd = str_dup("/home/ann"),
                           .uid = 1000,
                           .gid = 1001,
                           .spec = fixture_spec(),
                           .state = JOB_RESTARTING,
                           .reason = str_dup("rank 1 was killed by signal 9"),
                           .attempt = 2,
                           .restarts = 1,
                           .cancel_requested = true,
                           .hold_requested = true,
                           .not_before_ms = 1700000000001,
                           .submitted_ms = 1700000000002,
                           .started_ms = 1700000000003,
                           .ended_ms = 1700000000004,
                           .productive_ms = 5005,
                           .lost = fixture_lost(100),
                           .progress = {.step = 120,
                                        .steps = 200,
                                        .loss = 2.3125,
                                        .tokens_per_second = 1234.5,
                                        .mfu = 0.41,
                                        .checkpoint_step = 100,
                                        .checkpoint_ms = 1700000000005,
                                        .checkpoint_bytes = 1 << 20,
                                        .updated_ms = 1700000000006,
                                        .upload_step = 90,
                                        .upload_ms = 1700000000007},
                           .first_failure_rank = 1,
                           .exit_code = 137};
    j.yaml = job_spec_to_yaml(j.spec);
    SET_TEXT(j.progress.phase, "training");
    SET_TEXT(j.progress.status, "all well");
    SET_TEXT(j.progress.interval, "every 40 steps");
    return j;
}

static inline struct link_report fixture_report(int64_t job, int64_t attempt, int64_t rank)
{
    struct link_report r = {.job = job,
                            .attempt = attempt,
                            .rev = 5,
                            .phase = REPORT_GONE,
                            .port = 4001,
                            .master_port = 4002,
                            .n_ranks = 1};
    SET_TEXT(r.reason, "all ranks ended");
    r.ranks = mem_zero(1, sizeof(*r.ranks));
    r.ranks[0] = (struct link_rank){.rank = rank,
                                    .slot = 1,
                                    .pid = 4242,
                                    .start = 987654321,
                                    .state = RANK_EXITED,
                                    .code = 0,
                                    .signal = 9,
                                    .connected = true,
                                    .finalized = true,
                                    .started_ms = 1700000000007,
                                    .ended_ms = 1700000000008};
    SET_TEXT(r.ranks[0].why, "killed by signal 9 (SIGKILL)");
    return r;
}

/* Two ranks, rank r on node<r>; the second node has not reported. */
static inline struct attempt_record fixture_attempt(int64_t job, int64_t number)
{
    struct attempt_record a = {.job = job,
                               .number = number,
                               .state = ATTEMPT_STOPPING,
                               .outcome = OUTCOME_FAILED,
                               .reason = str_dup("rank 1 failed"),
                               .world = 2,
                               .created_ms = 1700000000010,
                               .running_ms = 1700000000011,
                               .failed_ms = 1700000000012,
                               .ended_ms = 1700000000013,
                               .from_step = 50,
                               .to_step = 120,
                               .lost = fixture_lost(200),
                               .checkpoint_on = true,
                               .checkpoint_request = 3,
                               .save = {.asked_ms = 1700000000014,
                                        .from_step = 119,
                                        .waiting = true,
                                        .step = 118,
                                        .then = OUTCOME_PREEMPTED,
                                        .why = "requeued by ann",
                                        .answer = "none yet"},
                               .n_nodes = 2};
    SET_TEXT(a.token, "0123456789abcdef0123456789abcdef");
    a.placement = mem_zero(2, sizeof(*a.placement));
    a.nodes = mem_zero(2, sizeof(*a.nodes));
    for (int r = 0; r < 2; r++) {
        a.placement[r] =
            (struct placed_rank){.rank = r, .slot = 1 + r, .tp = 2 + r, .pp = 3 + r, .cp = 4 + r, .dp = r};
        snprintf(a.placement[r].node, sizeof(a.placement[r].node), "node%d", r);
        snprintf(a.nodes[r].node, sizeof(a.nodes[r].node), "node%d", r);
    }
    a.nodes[0].reported = true;
    a.nodes[0].report = fixture_report(job, number, 0);
    return a;
}

static inline struct node_record fixture_node(const char *name)
{
    struct node_record n = {
        .state = NODE_DRAINING,
        .reason = str_dup("fan is loud"),
        .since_ms = 1700000000020,
        .drain_requested = true,
        .drain_now = true,
        .drain_deadline_ms = 1700000000021,
        .inventory = {.slots = 8, .cores = 16, .memory = (int64_t)1 << 36, .gpu = true, .n_gpus = 1}};
    SET_TEXT(n.name, name);
    SET_TEXT(n.boot, "2f1c9f0e-0000-4000-8000-000000000001");
    SET_TEXT(n.inventory.hostname, "host7");
    SET_TEXT(n.inventory.address, "127.0.0.1");
    SET_TEXT(n.inventory.rack, "rack1");
    SET_TEXT(n.inventory.pod, "pod1");
    SET_TEXT(n.inventory.version, "0.1.0");
    n.inventory.gpus = mem_zero(1, sizeof(*n.inventory.gpus));
    n.inventory.gpus[0] = (struct link_gpu){.index = 3, .memory = (int64_t)1 << 37};
    SET_TEXT(n.inventory.gpus[0].name, "H200");
    SET_TEXT(n.inventory.gpus[0].uuid, "GPU-1234");
    return n;
}

static inline struct event_record fixture_event(int64_t id)
{
    struct event_record e = {.id = id, .time_ms = 1700000000030 + id, .job = 7, .attempt = 2, .rank = 1};
    e.text = str_printf("event %lld happened", (long long)id);
    SET_TEXT(e.kind, "rank_exited");
    SET_TEXT(e.node, id % 2 ? "node1" : "node0");
    return e;
}

static inline void fixture_free_job(struct job_record *j)
{
    free(j->key);
    free(j->user);
    free(j->cwd);
    free(j->yaml);
    free(j->reason);
    job_spec_free(j->spec);
}

static inline void fixture_free_attempt(struct attempt_record *a)
{
    for (size_t i = 0; i < a->n_nodes; i++)
        link_report_clear(&a->nodes[i].report);
    free(a->nodes);
    free(a->placement);
    free(a->spares);
    free(a->reason);
}

static inline void fixture_free_node(struct node_record *n)
{
    link_inventory_clear(&n->inventory);
    free(n->reason);
}

#endif
