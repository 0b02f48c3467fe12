/* overlay: a `link` per neighbour (the parent, each child), found by node_rank. Strangers that have not proved themselves
 * are `guests`: few, short-lived, and allowed one line. */
#include "agent/shim/overlay.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <jansson.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shim/transfer.h"
#include "common/clock.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/proof.h"

#define JOIN_LINE_MAX    1024
#define JOIN_TIMEOUT_S   10
#define GUESTS_MAX       64
#define CONNECT_RETRY_MS 100
#define CONNECT_LIMIT_MS                                                                                     \
    30000 /* the parent listened before anybody was told to go: more than this is a broken network */
#define LISTEN_BACKLOG 128

enum link_state { LINK_WAITING, LINK_JOINED, LINK_LOST };

struct link {
    struct overlay *overlay;
    int64_t node;
    enum link_state state;
    struct bufferevent *bev;
    struct evbuffer *waiting; /* frames from before the link was up */
};

struct guest {
    struct guest *next;
    struct overlay *overlay;
    struct bufferevent *bev;
};

struct overlay {
    struct event_base *base;
    struct overlay_id id;
    const struct overlay_events *events;
    void *ctx;
    struct evconnlistener *listener;
    int64_t port;
    struct link parent;
    struct link *children; /* (n_children) */
    int64_t n_children;
    struct guest *guests;
    int n_guests;
    char *parent_addr;
    int64_t parent_port, connect_until_ms;
    struct event *retry;
    bool started; /* until then links are made, but nothing is read from them */
};

static void try_parent(struct overlay *o);
static void link_readable(struct bufferevent *bev, void *arg);
static void link_event(struct bufferevent *bev, short what, void *arg);

static struct link *link_of(struct overlay *o, int64_t node)
{
    if (o->id.node_rank > 0 && node == o->parent.node)
        return &o->parent;
    int64_t i = node - tree_child(o->id.node_rank, 0);
    return i >= 0 && i < o->n_children ? &o->children[i] : NULL;
}

static void link_init(struct overlay *o, struct link *l, int64_t node)
{
    *l = (struct link){.overlay = o, .node = node, .waiting = evbuffer_new()};
}

static void link_clear(struct link *l)
{
    if (l->bev)
        bufferevent_free(l->bev);
    if (l->waiting)
        evbuffer_free(l->waiting);
}

static void link_lost(struct link *l, const char *why)
{
    if (l->state == LINK_LOST)
        return;
    l->state = LINK_LOST;
    if (l->bev)
        bufferevent_free(l->bev);
    l->bev = NULL;
    l->overlay->events->lost(l->overlay->ctx, l->node, why);
}

static void set_nodelay(struct bufferevent *bev)
{
    int one = 1;
    (void)setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void link_joined(struct link *l, struct bufferevent *bev)
{
    l->bev = bev;
    l->state = LINK_JOINED;
    bufferevent_set_timeouts(bev, NULL, NULL);
    bufferevent_setcb(bev, link_readable, NULL, link_event, l);
    bufferevent_disable(bev, EV_READ);
    bufferevent_enable(bev, l->overlay->started ? EV_READ | EV_WRITE : EV_WRITE);
    bufferevent_write_buffer(bev, l->waiting);
    set_nodelay(bev);
}

/* ---- frames ---- */

/* 1 = one frame handled, 0 = none complete, -1 with a sentence. */
static int take_frame(struct link *l, struct evbuffer *in, struct err *err)
{
    uint8_t head[4];
    size_t size;
    if (evbuffer_copyout(in, head, sizeof head) < (ssize_t)sizeof head)
        return 0;
    if (frame_size(head, &size, err) != 0)
        return -1;
    if (evbuffer_get_length(in) < size)
        return 0;
    const uint8_t *buf = evbuffer_pullup(in, (ssize_t)size);
    struct frame f;
    if (!buf || frame_decode(buf, size, &f, err) != 0)
        return -1;
    struct overlay *o = l->overlay;
    int rc = o->events->frame(o->ctx, l->node, &f, err);
    evbuffer_drain(in, size);
    return rc == 0 ? 1 : -1;
}

static void link_readable(struct bufferevent *bev, void *arg)
{
    struct link *l = arg;
    struct err err = {""};
    int rc = l->overlay->started ? 1 : 0;
    while (rc == 1 && l->bev == bev)
        rc = take_frame(l, bufferevent_get_input(bev), &err);
    if (rc < 0)
        link_lost(l, err.text);
}

static void link_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        link_lost(arg, what & BEV_EVENT_EOF ? "the other shim closed it"
                                            : evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
}

void overlay_send(struct overlay *o, int64_t hop, const struct frame *f)
{
    struct link *l = link_of(o, hop);
    if (!l || l->state == LINK_LOST)
        return;
    uint8_t header[TREE_HEADER];
    frame_encode_header(f, header);
    struct evbuffer *out = l->state == LINK_JOINED ? bufferevent_get_output(l->bev) : l->waiting;
    evbuffer_expand(out, sizeof header + f->key_len + f->len);
    evbuffer_add(out, header, sizeof header);
    evbuffer_add(out, f->key, f->key_len);
    evbuffer_add(out, f->data, f->len);
}

/* ---- join: the side of the parent ---- */

static void join_text(const struct overlay_id *id, int64_t node_rank, char *out, size_t size)
{
    snprintf(out, size, "shim|%lld|%lld|%lld", (long long)id->job, (long long)id->attempt,
             (long long)node_rank);
}

static struct bufferevent *guest_leave(struct guest *g)
{
    struct bufferevent *bev = g->bev;
    struct guest **at = &g->overlay->guests;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    g->overlay->n_guests--;
    free(g);
    return bev;
}

static void guest_refuse(struct guest *g, const char *why)
{
    log_warn("a connection to the tree port was dropped: %s", why);
    bufferevent_free(guest_leave(g));
}

static int check_proof(const struct overlay *o, const char *text, const json_t *msg, struct err *err)
{
    if (proof_check(o->id.token, text, jsonx_str_or(msg, "proof", "")))
        return 0;
    return err_set(err, "its proof is wrong: it does not know the token of job %lld attempt %lld",
                   (long long)o->id.job, (long long)o->id.attempt);
}

/* The link of the child that this join line proves to come from, or NULL with a sentence. */
static struct link *check_join(struct overlay *o, const json_t *msg, struct err *err)
{
    int64_t node = jsonx_int_or(msg, "node_rank", -1);
    char text[128];
    join_text(&o->id, node, text, sizeof text);
    struct link *l = NULL;
    if (strcmp(jsonx_str_or(msg, "t", ""), "join") != 0)
        err_set(err, "it did not start with a join line");
    else if (check_proof(o, text, msg, err) != 0)
        return NULL;
    else if (tree_parent(node) != o->id.node_rank || !(l = link_of(o, node)))
        err_set(err, "node %lld is no child of node %lld", (long long)node, (long long)o->id.node_rank);
    else if (l->state != LINK_WAITING)
        err_set(err, "node %lld had joined before", (long long)node);
    else
        return l;
    return NULL;
}

static void join(struct guest *g, const json_t *msg)
{
    struct err err = {""};
    struct link *l = check_join(g->overlay, msg, &err);
    if (!l) {
        guest_refuse(g, err.text);
        return;
    }
    link_joined(l, guest_leave(g));
    link_readable(l->bev, l); /* frames may have come with the line */
}

/* Its connection goes to the memory tier: nothing may have come behind the line, for then it does not wait for an answer. */
static void join_memory(struct guest *g, const json_t *msg)
{
    struct overlay *o = g->overlay;
    struct err err = {""};
    char text[TRANSFER_PROOF_TEXT];
    transfer_proof_text(o->id.job, o->id.attempt, jsonx_int_or(msg, "node_rank", -1), text);
    int rc = check_proof(o, text, msg, &err);
    if (rc == 0 && evbuffer_get_length(bufferevent_get_input(g->bev)) > 0)
        rc = err_set(&err, "it did not wait for an answer");
    if (rc != 0 || !o->events->memory) {
        guest_refuse(g, rc != 0 ? err.text : "this attempt has no memory tier");
        return;
    }
    struct bufferevent *bev = guest_leave(g);
    int fd = bufferevent_getfd(bev);
    (void)bufferevent_setfd(bev, -1); /* so that freeing it leaves the socket open */
    bufferevent_free(bev);
    o->events->memory(o->ctx, fd, msg);
}

static void guest_readable(struct bufferevent *bev, void *arg)
{
    struct guest *g = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    struct evbuffer_ptr end = evbuffer_search_eol(in, NULL, NULL, EVBUFFER_EOL_LF);
    if (end.pos < 0 || end.pos > JOIN_LINE_MAX) {
        if (end.pos > 0 || evbuffer_get_length(in) > JOIN_LINE_MAX)
            guest_refuse(g, "its join line is too long");
        return;
    }
    char *line = evbuffer_readln(in, NULL, EVBUFFER_EOL_LF);
    json_t *msg = line ? json_loads(line, 0, NULL) : NULL;
    if (strcmp(jsonx_str_or(msg, "t", ""), "memory") == 0)
        join_memory(g, msg);
    else
        join(g, msg);
    json_decref(msg);
    free(line);
}

static void guest_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    guest_refuse(arg, what & BEV_EVENT_TIMEOUT ? "it said nothing" : "it left without a word");
}

static void accepted(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa, int len,
                     void *arg)
{
    (void)listener;
    (void)sa;
    (void)len;
    struct overlay *o = arg;
    if (o->n_guests >= GUESTS_MAX) {
        evutil_closesocket(fd);
        return;
    }
    struct guest *g = mem_zero(1, sizeof *g);
    *g = (struct guest){
        .next = o->guests, .overlay = o, .bev = bufferevent_socket_new(o->base, fd, BEV_OPT_CLOSE_ON_FREE)};
    o->guests = g;
    o->n_guests++;
    bufferevent_setcb(g->bev, guest_readable, NULL, guest_event, g);
    bufferevent_set_timeouts(g->bev, &(struct timeval){.tv_sec = JOIN_TIMEOUT_S}, NULL);
    bufferevent_enable(g->bev, EV_READ | EV_WRITE);
}

struct overlay *overlay_listen(struct event_base *base, bool loopback, const struct overlay_id *id,
                               const struct overlay_events *events, void *ctx, struct err *err)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY)};
    struct overlay *o = mem_zero(1, sizeof *o);
    *o = (struct overlay){.base = base, .id = *id, .events = events, .ctx = ctx};
    o->listener = evconnlistener_new_bind(base, accepted, o, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
                                          LISTEN_BACKLOG, (struct sockaddr *)&sa, sizeof sa);
    socklen_t len = sizeof sa;
    if (!o->listener || getsockname(evconnlistener_get_fd(o->listener), (struct sockaddr *)&sa, &len) != 0) {
        err_sys(err, "cannot listen for the other shims on %s", loopback ? "127.0.0.1" : "any address");
        overlay_free(o);
        return NULL;
    }
    o->port = ntohs(sa.sin_port);
    link_init(o, &o->parent, tree_parent(id->node_rank));
    o->n_children = tree_child_count(id->node_rank, id->nodes);
    o->children = mem_zero((size_t)o->n_children + 1, sizeof *o->children);
    for (int64_t i = 0; i < o->n_children; i++)
        link_init(o, &o->children[i], tree_child(id->node_rank, i));
    return o;
}

void overlay_start(struct overlay *o)
{
    o->started = true;
    for (int64_t i = 0; i < o->n_children; i++) {
        struct link *l = &o->children[i];
        if (l->state != LINK_JOINED)
            continue;
        bufferevent_enable(l->bev, EV_READ);
        link_readable(l->bev, l); /* what came with its join line */
    }
}

int64_t overlay_port(const struct overlay *o)
{
    return o->port;
}

/* ---- join: the side of the child ---- */

static void parent_retry(struct overlay *o, const char *why)
{
    bufferevent_free(o->parent.bev);
    o->parent.bev = NULL;
    if (clock_boot_ms() > o->connect_until_ms)
        link_lost(&o->parent, why);
    else
        evtimer_add(o->retry, &(struct timeval){.tv_usec = CONNECT_RETRY_MS * 1000});
}

static void send_join(struct overlay *o, struct bufferevent *bev)
{
    char text[128], proof[PROOF_SIZE];
    join_text(&o->id, o->id.node_rank, text, sizeof text);
    proof_make(o->id.token, text, proof);
    evbuffer_add_printf(
        bufferevent_get_output(bev),
        "{\"t\":\"join\",\"job\":%lld,\"attempt\":%lld,\"node_rank\":%lld,\"proof\":\"%s\"}\n",
        (long long)o->id.job, (long long)o->id.attempt, (long long)o->id.node_rank, proof);
}

static void parent_event(struct bufferevent *bev, short what, void *arg)
{
    struct overlay *o = arg;
    if (what & BEV_EVENT_CONNECTED) {
        send_join(o, bev);
        link_joined(&o->parent, bev);
    } else {
        parent_retry(o, evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
    }
}

static void retry_fired(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    try_parent(arg);
}

static void try_parent(struct overlay *o)
{
    char port[16];
    snprintf(port, sizeof port, "%lld", (long long)o->parent_port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    o->parent.bev = bufferevent_socket_new(o->base, -1, BEV_OPT_CLOSE_ON_FREE);
    int rc = getaddrinfo(o->parent_addr, port, &hints, &found);
    if (rc != 0) {
        parent_retry(o, gai_strerror(rc));
        return;
    }
    bufferevent_setcb(o->parent.bev, NULL, NULL, parent_event, o);
    rc = bufferevent_socket_connect(o->parent.bev, found->ai_addr, (int)found->ai_addrlen);
    freeaddrinfo(found);
    if (rc != 0 && o->parent.bev)
        parent_retry(o, "cannot connect");
}

void overlay_connect(struct overlay *o, const char *addr, int64_t port)
{
    o->parent_addr = str_dup(addr);
    o->parent_port = port;
    o->connect_until_ms = clock_boot_ms() + CONNECT_LIMIT_MS;
    o->retry = evtimer_new(o->base, retry_fired, o);
    try_parent(o);
}

void overlay_free(struct overlay *o)
{
    if (!o)
        return;
    if (o->listener)
        evconnlistener_free(o->listener);
    for (struct guest *g = o->guests, *next; g; g = next) {
        next = g->next;
        bufferevent_free(g->bev);
        free(g);
    }
    link_clear(&o->parent);
    for (int64_t i = 0; i < o->n_children; i++)
        link_clear(&o->children[i]);
    if (o->retry)
        event_free(o->retry);
    free(o->children);
    free(o->parent_addr);
    free(o);
}
