/* rest_nodes: listing nodes, draining and undraining them (root and whoever runs belayd). */
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "daemon/exchange.h"
#include "daemon/view.h"

#define REASON_MAX     400
#define DEADLINE_MAX_S (366 * 86400)

static const struct node_record *find_node(struct exchange *x)
{
    const struct node_record *node = core_node(turn_core(x->turn), x->name);
    if (!node)
        exchange_refuse(x, 404, "there is no node \"%.64s\"; belay nodes lists them", x->name);
    return node;
}

struct listing {
    struct exchange *x;
    struct view_residents *residents;
    int64_t now_ms;
};

static bool list_node(void *ctx, const struct node_record *node)
{
    struct listing *l = ctx;
    json_array_append_new(l->x->reply, view_node(turn_core(l->x->turn), node, l->residents, l->now_ms));
    return true;
}

static enum exchange_next render_nodes(struct exchange *x)
{
    struct listing l = {
        .x = x, .residents = view_residents_collect(turn_core(x->turn)), .now_ms = turn_time().now_ms};
    x->reply = json_array();
    core_each_node(turn_core(x->turn), list_node, &l);
    view_residents_free(l.residents);
    return EXCHANGE_ANSWER;
}

static enum exchange_next render_node(struct exchange *x)
{
    const struct node_record *node = find_node(x);
    if (node) {
        struct view_residents *residents = view_residents_collect(turn_core(x->turn));
        x->reply = view_node(turn_core(x->turn), node, residents, turn_time().now_ms);
        view_residents_free(residents);
    }
    return EXCHANGE_ANSWER;
}

/* The node exists and this client may act on it. */
static bool may_act(struct exchange *x)
{
    if (!find_node(x))
        return false;
    if (!exchange_may_act(x, 0))
        exchange_refuse(x, 403, "only root or the user that runs belayd may drain and undrain nodes");
    return !x->status;
}

/* Fills *deadline_ms (UTC, 0 = none). */
static int read_deadline(const json_t *body, int64_t *deadline_ms, struct err *err)
{
    const json_t *value = json_object_get(body, "deadline_s");
    *deadline_ms = 0;
    if (!value || json_is_null(value))
        return 0;
    double seconds = json_number_value(value);
    if (!json_is_number(value) || !(seconds > 0) || seconds > DEADLINE_MAX_S)
        return err_set(err, "\"deadline_s\" must be a number of seconds above 0, at most %d", DEADLINE_MAX_S);
    *deadline_ms = turn_time().now_ms + (int64_t)(seconds * 1000);
    return 0;
}

static int read_drain(const json_t *body, const char **reason, int64_t *deadline_ms, struct err *err)
{
    if (jsonx_str(body, "reason", reason, err) != 0)
        return err_prefix(err, "say why the node is drained");
    if (!(*reason)[0] || strlen(*reason) > REASON_MAX)
        return err_set(err, "\"reason\" must say in 1 to %d bytes why the node is drained", REASON_MAX);
    return read_deadline(body, deadline_ms, err);
}

static void drain(struct exchange *x)
{
    enum core_refusal why = CORE_OK;
    const char *reason = NULL;
    int64_t deadline_ms = 0;
    struct err err = {0};
    if (!may_act(x))
        return;
    bool now = jsonx_bool_or(x->body, "now", false);
    if (read_drain(x->body, &reason, &deadline_ms, &err) != 0)
        exchange_refuse(x, 400, "%s", err.text);
    else if (core_drain(turn_core(x->turn), turn_time(), x->name, reason, deadline_ms, now, &why, &err) != 0)
        exchange_refuse_core(x, why, &err);
}

static void undrain(struct exchange *x)
{
    enum core_refusal why = CORE_OK;
    struct err err = {0};
    if (may_act(x) && core_undrain(turn_core(x->turn), turn_time(), x->name, &why, &err) != 0)
        exchange_refuse_core(x, why, &err);
}

const struct route rest_node_routes[] = {
    {EVHTTP_REQ_GET, "/v1/nodes", NULL, render_nodes, NULL},
    {EVHTTP_REQ_GET, "/v1/nodes/*", NULL, render_node, NULL},
    {EVHTTP_REQ_POST, "/v1/nodes/*/drain", drain, render_node, NULL},
    {EVHTTP_REQ_POST, "/v1/nodes/*/undrain", undrain, render_node, NULL},
    {EVHTTP_REQ_GET, NULL, NULL, NULL, NULL},
};
