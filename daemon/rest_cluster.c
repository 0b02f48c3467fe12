/* rest_cluster: the cluster as a whole, and its event log. */
#include <string.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "daemon/core/layout.h"
#include "daemon/exchange.h"
#include "daemon/view.h"

#define EVENTS_DEFAULT 200
#define EVENTS_MAX     10000

/* ---- GET /v1/cluster ---- */

static bool count_job(void *ctx, const struct job_record *job)
{
    ((int64_t *)ctx)[job->state]++;
    return true;
}

static bool count_node(void *ctx, const struct node_record *node)
{
    ((int64_t *)ctx)[node->state]++;
    return true;
}

static json_t *job_counts(const struct core *core)
{
    int64_t count[JOB_STATE_COUNT] = {0};
    json_t *obj = json_object();
    core_each_job(core, count_job, count);
    for (int s = 0; s < JOB_STATE_COUNT; s++)
        jsonx_set(obj, job_state_name((enum job_state)s), json_integer(count[s]));
    return obj;
}

static json_t *node_counts(const struct core *core)
{
    int64_t count[NODE_STATE_COUNT] = {0};
    json_t *obj = json_object();
    core_each_node(core, count_node, count);
    for (int s = 0; s < NODE_STATE_COUNT; s++)
        jsonx_set(obj, node_state_name((enum node_state)s), json_integer(count[s]));
    return obj;
}

static enum exchange_next render_cluster(struct exchange *x)
{
    x->reply = json_object();
    jsonx_set_str(x->reply, "version", BELAY_VERSION);
    jsonx_set(x->reply, "pid", json_integer(getpid()));
    jsonx_set(x->reply, "started", view_time(x->started_ms));
    jsonx_set(x->reply, "jobs", job_counts(turn_core(x->turn)));
    jsonx_set(x->reply, "nodes", node_counts(turn_core(x->turn)));
    jsonx_set_str(x->reply, "dir", x->dir);
    jsonx_set(x->reply, "topology", view_topology(layout_cluster(turn_core(x->turn))));
    return EXCHANGE_ANSWER;
}

/* ---- GET /v1/events ---- */

static void list_event(void *ctx, const struct event_record *event)
{
    json_array_append_new(ctx, view_event(event));
}

static enum exchange_next render_events(struct exchange *x)
{
    struct store_events_query q = {.after = exchange_query_int(x, "after", 0, INT64_MAX, -1),
                                   .job = exchange_query_int(x, "job", 1, INT64_MAX, 0),
                                   .node = exchange_query(x, "node"),
                                   .limit = exchange_query_int(x, "limit", 1, EVENTS_MAX, EVENTS_DEFAULT)};
    int64_t wait = exchange_query_int(x, "wait", 0, INT64_MAX, 0);
    struct err err = {0};
    if (x->status)
        return EXCHANGE_ANSWER;
    x->id = q.job; /* for events_wake */
    json_t *list = json_array();
    if (store_events(turn_store(x->turn), &q, list_event, list, &err) != 0) {
        json_decref(list);
        exchange_refuse(x, 503, "%s", err.text);
        return EXCHANGE_ANSWER;
    }
    if (json_array_size(list) == 0 && q.after >= 0 && wait > 0 && !x->waited_enough) {
        json_decref(list);
        return EXCHANGE_WAIT;
    }
    x->reply = list;
    return EXCHANGE_ANSWER;
}

static bool events_wake(const struct exchange *x, const struct core_changes *changes)
{
    const char *node = exchange_query(x, "node");
    for (size_t i = 0; i < changes->n_events; i++) {
        const struct event_record *e = &changes->events[i];
        if ((!x->id || e->job == x->id) && (!node || strcmp(e->node, node) == 0))
            return true;
    }
    return false;
}

const struct route rest_cluster_routes[] = {
    {EVHTTP_REQ_GET, "/v1/cluster", NULL, render_cluster, NULL},
    {EVHTTP_REQ_GET, "/v1/events", NULL, render_events, events_wake},
    {EVHTTP_REQ_GET, NULL, NULL, NULL, NULL},
};
