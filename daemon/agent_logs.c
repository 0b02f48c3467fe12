/* agent_logs: a list of open questions. Always holds: each question's fn is called exactly once, and its timer dies with it. */
#include "daemon/agent_logs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "daemon/agent_peer.h"

#define ANSWER_TIMEOUT_S 5

struct question {
    LIST_ENTRY(question) link;
    int64_t id;
    struct agent_peer *peer;
    char node[LINK_NODE_NAME_MAX + 1];
    struct event *timer;
    void (*fn)(void *ctx, const struct agent_log *log, const char *error);
    void *ctx;
};

struct agent_logs {
    struct event_base *base;
    int64_t next_id;
    LIST_HEAD(questions, question) open;
};

struct agent_logs *agent_logs_new(struct event_base *base)
{
    struct agent_logs *logs = mem_zero(1, sizeof(*logs));
    logs->base = base;
    logs->next_id = 1;
    LIST_INIT(&logs->open);
    return logs;
}

static void finish(struct question *q, const struct agent_log *log, const char *error)
{
    LIST_REMOVE(q, link);
    q->fn(q->ctx, log, error);
    event_free(q->timer);
    free(q);
}

static void finish_all(struct agent_logs *logs, const struct agent_peer *peer_or_all, const char *why)
{
    for (struct question *q = LIST_FIRST(&logs->open), *next; q; q = next) {
        next = LIST_NEXT(q, link);
        if (peer_or_all && q->peer != peer_or_all)
            continue;
        char *sentence = str_printf("node %s %s", q->node, why);
        finish(q, NULL, sentence);
        free(sentence);
    }
}

void agent_logs_free(struct agent_logs *logs)
{
    if (!logs)
        return;
    finish_all(logs, NULL, "cannot be asked any more: belayd is shutting down");
    free(logs);
}

static void timed_out(evutil_socket_t fd, short what, void *ctx)
{
    struct question *q = ctx;
    (void)fd;
    (void)what;
    char *sentence = str_printf("node %s did not answer within %d s; try again", q->node, ANSWER_TIMEOUT_S);
    finish(q, NULL, sentence);
    free(sentence);
}

void agent_logs_ask(struct agent_logs *logs, struct agent_peer *peer, const struct agent_log_request *r,
                    void (*fn)(void *ctx, const struct agent_log *log, const char *error), void *ctx)
{
    struct question *q = mem_zero(1, sizeof(*q));
    const struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
    q->id = logs->next_id++;
    q->peer = peer;
    snprintf(q->node, sizeof(q->node), "%s", r->node);
    q->fn = fn;
    q->ctx = ctx;
    q->timer = evtimer_new(logs->base, timed_out, q);
    if (!q->timer || evtimer_add(q->timer, &timeout) != 0)
        abort(); /* out of memory */
    LIST_INSERT_HEAD(&logs->open, q, link);
    json_t *msg =
        json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "t", "read_log", "id", (json_int_t)q->id, "job",
                  (json_int_t)r->job, "attempt", (json_int_t)r->attempt, "rank", (json_int_t)r->rank,
                  "offset", (json_int_t)r->offset, "limit", (json_int_t)r->limit);
    agent_peer_send(peer, msg);
    json_decref(msg);
}

static struct question *find(struct agent_logs *logs, const struct agent_peer *peer, int64_t id)
{
    for (struct question *q = LIST_FIRST(&logs->open); q; q = LIST_NEXT(q, link)) {
        if (q->id == id && q->peer == peer)
            return q;
    }
    return NULL;
}

static int read_piece(const json_t *msg, struct agent_log *log, struct err *err)
{
    if (jsonx_int(msg, "offset", 0, INT64_MAX, &log->offset, err) != 0 ||
        jsonx_int(msg, "next", 0, INT64_MAX, &log->next, err) != 0 ||
        jsonx_int(msg, "size", 0, INT64_MAX, &log->size, err) != 0)
        return -1;
    return jsonx_str(msg, "data", &log->data, err);
}

int agent_logs_answer(struct agent_logs *logs, struct agent_peer *peer, const json_t *msg, struct err *err)
{
    struct agent_log log = {0};
    int64_t id;
    const char *error = jsonx_str_or(msg, "error", NULL);
    if (jsonx_int(msg, "id", 0, INT64_MAX, &id, err) != 0 || (!error && read_piece(msg, &log, err) != 0))
        return err_prefix(err, "log");
    struct question *q = find(logs, peer, id);
    if (q)
        finish(q, error ? NULL : &log, error);
    return 0;
}

void agent_logs_peer_gone(struct agent_logs *logs, struct agent_peer *peer)
{
    finish_all(logs, peer, "lost its link while it was asked; try again");
}
