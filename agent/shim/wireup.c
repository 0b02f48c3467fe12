/* wireup: a fence goes PMIx → fences → overlay and back; a modex request travels hop by hop to the node of the rank, and its
 * answer back to the asker by number. */
#include "agent/shim/wireup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shim/fence.h"
#include "agent/shim/overlay.h"
#include "agent/shim/pmix_host.h"
#include "agent/shim/rankmap.h"
#include "agent/shim/tree.h"
#include "common/log.h"
#include "common/mem.h"

/* A local rank waits for the blob of a rank on another node. */
struct asked {
    struct asked *next;
    uint64_t id;
    int64_t hop;
    struct pmix_reply *reply;
};

struct wireup {
    struct event_base *base;
    int64_t node_rank;
    const struct wireup_events *events;
    void *ctx;
    struct overlay *overlay;
    struct pmix_host *pmix;
    struct rankmap map;
    struct fences *fences; /* from go on */
    struct asked *asked;
    uint64_t last_id;
    bool ended;
};

/* ---- modex ---- */

static void send_to(struct wireup *w, int64_t target, struct frame *f)
{
    f->target = (uint32_t)target;
    overlay_send(w->overlay, tree_next_hop(w->node_rank, target), f);
}

static void on_modex(void *ctx, int64_t rank, struct pmix_reply *reply)
{
    struct wireup *w = ctx;
    int64_t node = rankmap_node(&w->map, rank);
    if (w->ended || node < 0 || node == w->node_rank) {
        pmix_reply_send(reply, PMIX_HOST_NOT_FOUND, NULL, 0);
        return;
    }
    struct asked *a = mem_zero(1, sizeof *a);
    *a = (struct asked){
        .next = w->asked, .id = ++w->last_id, .hop = tree_next_hop(w->node_rank, node), .reply = reply};
    w->asked = a;
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)rank);
    struct frame f = {.type = FRAME_MODEX_REQUEST,
                      .source = (uint32_t)w->node_rank,
                      .id = a->id,
                      .key = key,
                      .key_len = strlen(key)};
    send_to(w, node, &f);
}

static void on_fetched(void *ctx, int64_t node, uint64_t id, int status, const void *data, size_t len)
{
    struct wireup *w = ctx;
    struct frame f = {.type = FRAME_MODEX_ANSWER,
                      .source = (uint32_t)w->node_rank,
                      .status = status,
                      .id = id,
                      .data = data,
                      .len = len};
    send_to(w, node, &f);
}

static void answer_asked(struct asked *a, int status, const void *data, size_t len)
{
    void *copy = len ? mem_zero(len, 1) : NULL;
    if (copy)
        memcpy(copy, data, len);
    pmix_reply_send(a->reply, status, copy, len);
    free(a);
}

static void take_answer(struct wireup *w, const struct frame *f)
{
    for (struct asked **at = &w->asked; *at; at = &(*at)->next) {
        struct asked *a = *at;
        if (a->id != f->id)
            continue;
        *at = a->next;
        answer_asked(a, f->status, f->data, f->len);
        return;
    }
}

/* hop -1: all of them */
static void fail_asked(struct wireup *w, int64_t hop)
{
    for (struct asked **at = &w->asked; *at;) {
        struct asked *a = *at;
        if (hop >= 0 && a->hop != hop) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        answer_asked(a, PMIX_HOST_LOST, NULL, 0);
    }
}

static int take_request(struct wireup *w, const char *key, const struct frame *f, struct err *err)
{
    char *end;
    int64_t rank = strtoll(key, &end, 10);
    if (*end != '\0' || rankmap_node(&w->map, rank) != w->node_rank)
        return err_set(err, "a shim asked this node for rank %s, which is not here", key);
    pmix_host_fetch(w->pmix, rank, f->source, f->id);
    return 0;
}

/* ---- fences ---- */

static void on_fence(void *ctx, const char *key, int status, const void *data, size_t len,
                     struct pmix_reply *reply)
{
    struct wireup *w = ctx;
    if (w->ended || !w->fences || !fence_key_valid(key))
        pmix_reply_send(reply, PMIX_HOST_LOST, NULL, 0);
    else
        fences_local(w->fences, key, status, data, len, reply);
}

static void send_fence(struct wireup *w, enum frame_type type, int64_t hop, const char *key, int status,
                       const void *data, size_t len)
{
    struct frame f = {.type = type,
                      .source = (uint32_t)w->node_rank,
                      .target = (uint32_t)hop,
                      .status = status,
                      .key = key,
                      .key_len = strlen(key),
                      .data = data,
                      .len = len};
    overlay_send(w->overlay, hop, &f);
}

static void fence_up(void *ctx, const char *key, int status, const void *data, size_t len)
{
    struct wireup *w = ctx;
    send_fence(w, FRAME_FENCE_UP, tree_parent(w->node_rank), key, status, data, len);
}

static void fence_down(void *ctx, int64_t child, const char *key, int status, const void *data, size_t len)
{
    send_fence(ctx, FRAME_FENCE_DOWN, child, key, status, data, len);
}

static void fence_done(void *ctx, void *waiter, int status, void *data, size_t len)
{
    (void)ctx;
    pmix_reply_send(waiter, status, data, len);
}

static const struct fence_ops FENCE_OPS = {.up = fence_up, .down = fence_down, .done = fence_done};

/* ---- the tree ---- */

static int check_frame(struct wireup *w, int64_t hop, const struct frame *f, struct err *err)
{
    if (f->source >= w->map.nodes || f->target >= w->map.nodes)
        return err_set(err, "a frame from node %u to node %u, but there are %lld", f->source, f->target,
                       (long long)w->map.nodes);
    bool from_parent = hop == tree_parent(w->node_rank);
    if ((f->type == FRAME_FENCE_UP && from_parent) || (f->type == FRAME_FENCE_DOWN && !from_parent))
        return err_set(err, "a fence frame came from the wrong side of the tree (node %lld)", (long long)hop);
    return 0;
}

static int dispatch(struct wireup *w, int64_t hop, const char *key, const struct frame *f, struct err *err)
{
    switch (f->type) {
    case FRAME_FENCE_UP:
        return fences_from_child(w->fences, hop, key, f->status, f->data, f->len, err);
    case FRAME_FENCE_DOWN:
        fences_from_parent(w->fences, key, f->status, f->data, f->len);
        return 0;
    case FRAME_MODEX_REQUEST:
        return take_request(w, key, f, err);
    default:
        take_answer(w, f);
        return 0;
    }
}

static int on_frame(void *ctx, int64_t hop, const struct frame *f, struct err *err)
{
    struct wireup *w = ctx;
    if (check_frame(w, hop, f, err) != 0)
        return -1;
    if (f->target != w->node_rank) {
        overlay_send(w->overlay, tree_next_hop(w->node_rank, f->target), f);
        return 0;
    }
    char *key = str_printf("%.*s", (int)f->key_len, f->key);
    int rc = dispatch(w, hop, key, f, err);
    free(key);
    return rc;
}

static void on_lost(void *ctx, int64_t hop, const char *why)
{
    struct wireup *w = ctx;
    if (!w->ended)
        log_warn("the link to the shim of node_rank %lld is lost: %s", (long long)hop, why);
    if (w->fences)
        fences_fail(w->fences, PMIX_HOST_LOST);
    fail_asked(w, hop);
}

static void on_memory(void *ctx, int fd, const json_t *line)
{
    struct wireup *w = ctx;
    w->events->memory(w->ctx, fd, line);
}

static const struct overlay_events OVERLAY_EVENTS = {.frame = on_frame, .lost = on_lost, .memory = on_memory};

/* ---- PMIx's word on ranks ---- */

static void on_connected(void *ctx, int64_t rank)
{
    struct wireup *w = ctx;
    w->events->connected(w->ctx, rank);
}

static void on_finalized(void *ctx, int64_t rank)
{
    struct wireup *w = ctx;
    w->events->finalized(w->ctx, rank);
}

static void on_aborted(void *ctx, int64_t rank, int code, const char *message, struct pmix_reply *reply)
{
    struct wireup *w = ctx;
    w->events->aborted(w->ctx, rank, code, message);
    pmix_reply_send(reply, 0, NULL, 0);
}

static const struct pmix_host_events PMIX_EVENTS = {.connected = on_connected,
                                                    .finalized = on_finalized,
                                                    .aborted = on_aborted,
                                                    .fence = on_fence,
                                                    .modex = on_modex,
                                                    .fetched = on_fetched};

struct wireup *wireup_open(struct event_base *base, bool loopback, const struct link_order *order,
                           const struct wireup_events *events, void *ctx, struct err *err)
{
    struct wireup *w = mem_zero(1, sizeof *w);
    *w = (struct wireup){.base = base, .node_rank = order->node_rank, .events = events, .ctx = ctx};
    struct overlay_id id = {.job = order->job,
                            .attempt = order->attempt,
                            .node_rank = order->node_rank,
                            .nodes = order->nodes,
                            .token = order->token};
    w->overlay = overlay_listen(base, loopback, &id, &OVERLAY_EVENTS, w, err);
    if (w->overlay)
        return w;
    free(w);
    return NULL;
}

int64_t wireup_port(const struct wireup *w)
{
    return overlay_port(w->overlay);
}

int wireup_start_server(struct wireup *w, const struct link_order *order, const char *dir, const char *node,
                        struct err *err)
{
    if (w->pmix)
        return 0;
    char *nspace =
        str_printf("belay-%lld.%lld-%s", (long long)order->job, (long long)order->attempt, order->token);
    struct pmix_host_config config = {
        .dir = dir, .node = node, .node_rank = order->node_rank, .nspace = nspace};
    w->pmix = pmix_host_start(w->base, &config, &PMIX_EVENTS, w, err);
    free(nspace);
    return w->pmix ? 0 : -1;
}

int wireup_go(struct wireup *w, const struct link_order *order, uid_t uid, gid_t gid, struct err *err)
{
    if (rankmap_build(order, &w->map, err) != 0 || pmix_host_register(w->pmix, order, uid, gid, err) != 0)
        return -1;
    w->fences = fences_new(w->node_rank, &w->map, &FENCE_OPS, w);
    overlay_start(w->overlay);
    int64_t parent = tree_parent(w->node_rank);
    if (parent >= 0)
        overlay_connect(w->overlay, order->map[parent].addr, order->map[parent].port);
    return 0;
}

int wireup_env(struct wireup *w, int64_t rank, char ***env, struct err *err)
{
    return pmix_host_env(w->pmix, rank, env, err);
}

void wireup_drain(struct wireup *w)
{
    if (w && w->pmix)
        pmix_host_drain(w->pmix);
}

void wireup_end(struct wireup *w)
{
    if (!w || w->ended)
        return;
    wireup_drain(w);
    w->ended = true;
    if (w->fences)
        fences_fail(w->fences, PMIX_HOST_LOST);
    fail_asked(w, -1);
    if (w->pmix)
        pmix_host_end_job(w->pmix);
}

void wireup_close(struct wireup *w)
{
    if (!w)
        return;
    wireup_end(w);
    overlay_free(w->overlay);
    fences_free(w->fences, PMIX_HOST_LOST);
    pmix_host_stop(w->pmix);
    rankmap_clear(&w->map);
    free(w);
}
