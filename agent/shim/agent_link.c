/* agent_link: one listener, at most one connection. */
#include "agent/shim/agent_link.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonline.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/unixsock.h"

#define KEPT_MAX 256 /* checkpoint messages kept for an absent agent */
#define OUTPUT_MAX                                                                                           \
    (4u << 20) /* an agent that does not read gets no more progress, only reports and checkpoints */

struct agent_link {
    struct event_base *base;
    const struct agent_link_events *events;
    void *ctx;
    struct evconnlistener *listener;
    struct bufferevent *bev; /* the agent, or NULL */
    json_t *kept;            /* array of messages with CHECKPOINT_* */
    json_t *newest;          /* "rank" -> newest message */
    size_t dropped;
};

static void disconnect(struct agent_link *l, const char *why)
{
    log_info("the agent's connection ended: %s", why);
    bufferevent_free(l->bev);
    l->bev = NULL;
}

static int dispatch(void *ctx, const json_t *msg, struct err *err)
{
    struct agent_link *l = ctx;
    const char *type = jsonx_str_or(msg, "t", "");
    if (strcmp(type, "order") == 0)
        return l->events->order(l->ctx, msg, err);
    if (strcmp(type, "release") == 0)
        l->events->release(l->ctx);
    return 0; /* types of a newer agent are ignored */
}

static void readable(struct bufferevent *bev, void *arg)
{
    struct agent_link *l = arg;
    struct err err = {""};
    if (jsonline_receive(bev, dispatch, l, &err) != 0 && l->bev == bev) {
        log_error("the agent said something that cannot be followed: %s", err.text);
        disconnect(l, "closed by the shim");
    }
}

static void ended(struct bufferevent *bev, short what, void *arg)
{
    struct agent_link *l = arg;
    if (l->bev == bev && (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        disconnect(l, what & BEV_EVENT_EOF ? "closed by the agent" : "it broke");
}

static void send_kept(struct agent_link *l)
{
    size_t i;
    const char *rank;
    json_t *msg;
    json_array_foreach(l->kept, i, msg)
    {
        jsonline_send(l->bev, msg);
    }
    json_object_foreach(l->newest, rank, msg)
    {
        jsonline_send(l->bev, msg);
    }
    if (l->dropped)
        log_warn("%zu checkpoint messages were dropped while no agent was connected", l->dropped);
    json_array_clear(l->kept);
    json_object_clear(l->newest);
    l->dropped = 0;
}

static void accepted(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa, int len,
                     void *arg)
{
    (void)listener;
    (void)sa;
    (void)len;
    struct agent_link *l = arg;
    if (l->bev)
        disconnect(l, "a newer one replaces it");
    l->bev = bufferevent_socket_new(l->base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(l->bev, readable, NULL, ended, l);
    bufferevent_enable(l->bev, EV_READ | EV_WRITE);
    l->events->connected(l->ctx);
    send_kept(l);
}

struct agent_link *agent_link_listen(struct event_base *base, const char *path,
                                     const struct agent_link_events *events, void *ctx, struct err *err)
{
    int fd = unixsock_listen(path, 0600, err);
    if (fd < 0)
        return NULL;
    struct agent_link *l = mem_zero(1, sizeof *l);
    *l = (struct agent_link){
        .base = base, .events = events, .ctx = ctx, .kept = json_array(), .newest = json_object()};
    l->listener = evconnlistener_new(base, accepted, l, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    return l;
}

void agent_link_free(struct agent_link *l)
{
    if (!l)
        return;
    if (l->bev)
        bufferevent_free(l->bev);
    evconnlistener_free(l->listener);
    json_decref(l->kept);
    json_decref(l->newest);
    free(l);
}

void agent_link_send(struct agent_link *l, const json_t *msg)
{
    if (l->bev)
        jsonline_send(l->bev, msg);
}

static bool has_checkpoint(const json_t *msg)
{
    for (void *at = json_object_iter(json_object_get(msg, "values")); at;
         at = json_object_iter_next(json_object_get(msg, "values"), at))
        if (strncmp(json_object_iter_key(at), "CHECKPOINT_", 11) == 0)
            return true;
    return false;
}

static void keep_checkpoint(struct agent_link *l, const json_t *msg)
{
    if (json_array_size(l->kept) == KEPT_MAX) {
        (void)json_array_remove(l->kept, 0);
        l->dropped++;
    }
    (void)json_array_append_new(l->kept, json_deep_copy(msg));
}

/* Newer values go over the older ones of that rank. */
static void keep_newest(struct agent_link *l, int64_t rank, const json_t *msg)
{
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)rank);
    json_t *older = json_object_get(l->newest, key);
    if (older)
        (void)json_object_update(json_object_get(older, "values"), json_object_get(msg, "values"));
    else
        jsonx_set(l->newest, key, json_deep_copy(msg));
}

void agent_link_progress(struct agent_link *l, int64_t rank, const json_t *msg)
{
    bool checkpoint = has_checkpoint(msg);
    if (l->bev && (checkpoint || evbuffer_get_length(bufferevent_get_output(l->bev)) < OUTPUT_MAX))
        jsonline_send(l->bev, msg);
    else if (checkpoint)
        keep_checkpoint(l, msg);
    else
        keep_newest(l, rank, msg);
}

void agent_link_flush(struct agent_link *l)
{
    if (!l || !l->bev)
        return;
    struct evbuffer *out = bufferevent_get_output(l->bev);
    evbuffer_unfreeze(out, 1); /* libevent keeps everybody but itself from taking bytes off the front */
    while (evbuffer_get_length(out) > 0 && evbuffer_write(out, bufferevent_getfd(l->bev)) > 0)
        ;
    evbuffer_freeze(out, 1);
}
