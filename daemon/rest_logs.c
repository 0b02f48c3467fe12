/* rest_logs: pieces of a rank's log, read by the node's agent and relayed.
 *
 * A job that never started answers with an empty piece (attempt 0), so that following it needs no special case. What a job printed may
 * hold secrets, so it is for those who may act on the job; its progress and events are for everybody. */
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "daemon/exchange.h"

#define LIMIT_DEFAULT (64 << 10)
#define LIMIT_MAX     (1 << 20)

static void set_piece(struct exchange *x, const struct agent_log *log)
{
    x->reply = json_object();
    jsonx_set(x->reply, "offset", json_integer(log->offset));
    jsonx_set(x->reply, "next", json_integer(log->next));
    jsonx_set(x->reply, "size", json_integer(log->size));
    jsonx_set_str(x->reply, "data", log->data);
    jsonx_set(x->reply, "live", json_boolean(x->live));
    jsonx_set(x->reply, "attempt", json_integer(x->attempt));
}

static void on_piece(void *ctx, const struct agent_log *log, const char *error)
{
    struct exchange *x = ctx;
    if (error)
        exchange_refuse(x, 409, "the log cannot be read now: %s", error);
    else
        set_piece(x, log);
    exchange_answer(x);
}

/* Is the rank able to write more? Unknown counts as yes. */
static bool rank_lives(const struct attempt_record *attempt, const char *node, int64_t rank)
{
    if (attempt->state == ATTEMPT_ENDED)
        return false;
    for (size_t i = 0; i < attempt->n_nodes; i++) {
        const struct attempt_node *n = &attempt->nodes[i];
        if (strcmp(n->node, node) != 0)
            continue;
        for (size_t r = 0; r < n->report.n_ranks; r++) {
            if (n->report.ranks[r].rank == rank)
                return n->report.ranks[r].state != RANK_EXITED;
        }
    }
    return true;
}

static const struct placed_rank *find_rank(const struct attempt_record *attempt, int64_t rank)
{
    for (size_t i = 0; i < attempt->world; i++) {
        if (attempt->placement[i].rank == rank)
            return &attempt->placement[i];
    }
    return NULL;
}

static enum exchange_next ask(struct exchange *x, const struct attempt_record *attempt,
                              const struct placed_rank *placed)
{
    struct agent_log_request request = {
        .node = placed->node, .job = attempt->job, .attempt = attempt->number, .rank = placed->rank};
    struct err err = {0};
    request.offset = exchange_query_int(x, "offset", -1, INT64_MAX, -1);
    request.limit = exchange_query_int(x, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT);
    if (x->status)
        return EXCHANGE_ANSWER;
    x->attempt = attempt->number;
    x->live = rank_lives(attempt, placed->node, placed->rank);
    if (agent_link_read_log(x->link, &request, on_piece, x, &err) == 0)
        return EXCHANGE_LATER;
    exchange_refuse(x, 409, "%s", err.text);
    return EXCHANGE_ANSWER;
}

static enum exchange_next answer_attempt(struct exchange *x, const struct attempt_record *attempt,
                                         int64_t rank)
{
    const struct placed_rank *placed = find_rank(attempt, rank);
    if (placed)
        return ask(x, attempt, placed);
    exchange_refuse(x, 404, "attempt %lld of job %lld has ranks 0 to %zu, not %lld",
                    (long long)attempt->number, (long long)attempt->job, attempt->world - 1, (long long)rank);
    return EXCHANGE_ANSWER;
}

/* Nothing has been written yet (or ever will be). */
static enum exchange_next answer_nothing(struct exchange *x, const struct job_record *job, int64_t number)
{
    const struct agent_log nothing = {.data = ""};
    if (number > 0) {
        exchange_refuse(x, 404, "job %lld has no attempt %lld; it has had %lld", (long long)job->id,
                        (long long)number, (long long)job->attempt);
        return EXCHANGE_ANSWER;
    }
    x->live = !job_state_final(job->state);
    set_piece(x, &nothing);
    return EXCHANGE_ANSWER;
}

static enum exchange_next render_logs(struct exchange *x)
{
    const struct job_record *job = core_job(turn_core(x->turn), x->id);
    int64_t number = exchange_query_int(x, "attempt", 0, INT64_MAX, 0);
    int64_t rank = exchange_query_int(x, "rank", 0, JOB_RANKS_MAX, 0);
    if (!job) {
        exchange_refuse(x, 404, "there is no job %lld; belay status lists them", (long long)x->id);
        return EXCHANGE_ANSWER;
    }
    if (x->status || !exchange_owner_only(x, job, "read what it printed"))
        return EXCHANGE_ANSWER;
    const struct attempt_record *attempt =
        job->attempt ? core_attempt(turn_core(x->turn), job->id, number) : NULL;
    return attempt ? answer_attempt(x, attempt, rank) : answer_nothing(x, job, number);
}

const struct route rest_log_routes[] = {
    {EVHTTP_REQ_GET, "/v1/jobs/#/logs", NULL, render_logs, NULL},
    {EVHTTP_REQ_GET, NULL, NULL, NULL, NULL},
};
