/* agent_peer: from accept to close.
 *
 * States: new (challenge sent, one hello awaited, LOGIN_TIMEOUT_S and LOGIN_MAX bytes allowed) → logged in → freed; or
 * refused (the reason is being written, nothing is read any more). Message handlers never free the peer: they return -1 with a
 * sentence and the read callback closes. Nothing is sent that depends on uncommitted state: acknowledgements and the welcome
 * are kept until agent_peer_flush. */
#include "daemon/agent_peer.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/jsonline.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/proof.h"

#define LOGIN_TIMEOUT_S   5
#define LOGIN_MAX         (4u << 20)  /* a hello with reports of tens of thousands of ranks fits */
#define OUTPUT_MAX        (64u << 20) /* an agent that does not read is cut off before it fills our memory */
#define HELLO_REPORTS_MAX 4096

struct ack {
    int64_t job, attempt, rev;
};

struct agent_peer {
    const struct agent_peer_owner *owner;
    void *place;
    struct bufferevent *bev;
    struct event *login_timer;
    char from[64], nonce[PROOF_NONCE_SIZE];
    char node[LINK_NODE_NAME_MAX + 1]; /* "" until logged in */
    char welcome_proof[PROOF_SIZE];    /* "" when no welcome is due */
    bool refused;
    struct ack *acks;
    size_t n_acks, acks_room;
    uint64_t desired_hash; /* of the last desired set sent; 0 = none */
};

/* ---- sending ---- */

void agent_peer_send(struct agent_peer *peer, const json_t *msg)
{
    jsonline_send(peer->bev, msg);
}

static void send_new(struct agent_peer *peer, json_t *msg)
{
    agent_peer_send(peer, msg);
    json_decref(msg);
}

static void send_challenge(struct agent_peer *peer)
{
    proof_nonce(peer->nonce);
    send_new(peer, json_pack("{s:s,s:i,s:s}", "t", "challenge", "v", LINK_VERSION, "nonce", peer->nonce));
}

/* The reason is written out, then the connection ends (write_done, or the login timer when the peer does not read). */
static void refuse(struct agent_peer *peer, const char *reason)
{
    json_t *msg = json_pack("{s:s}", "t", "refused");
    jsonx_set_str(msg, "reason", reason);
    send_new(peer, msg);
    peer->refused = true;
    bufferevent_disable(peer->bev, EV_READ);
}

void agent_peer_flush(struct agent_peer *peer)
{
    if (peer->welcome_proof[0])
        send_new(peer, json_pack("{s:s,s:i,s:s,s:I}", "t", "welcome", "v", LINK_VERSION, "proof",
                                 peer->welcome_proof, "heartbeat_ms", (json_int_t)peer->owner->heartbeat_ms));
    if (peer->welcome_proof[0])
        agent_peer_send_desired(peer);
    peer->welcome_proof[0] = '\0';
    for (size_t i = 0; i < peer->n_acks; i++) {
        const struct ack *a = &peer->acks[i];
        send_new(peer, json_pack("{s:s,s:I,s:I,s:I}", "t", "ack", "job", (json_int_t)a->job, "attempt",
                                 (json_int_t)a->attempt, "rev", (json_int_t)a->rev));
    }
    peer->n_acks = 0;
}

void agent_peer_send_desired(struct agent_peer *peer)
{
    const struct core *core = turn_core(peer->owner->turn);
    struct link_order *orders = NULL;
    int64_t *keep = NULL;
    struct evbuffer *out = evbuffer_new();
    struct desired_set set = {.n_orders = core_node_orders(core, peer->node, &orders),
                              .n_keep = core_node_keep(core, peer->node, &keep)};
    set.orders = orders;
    set.keep = keep;
    if (!out)
        abort(); /* out of memory */
    uint64_t hash = desired_write(peer->owner->desired, &set, out);
    if (hash != peer->desired_hash && bufferevent_write_buffer(peer->bev, out) != 0)
        abort(); /* out of memory */
    peer->desired_hash = hash;
    evbuffer_free(out);
    for (size_t i = 0; i < set.n_orders; i++)
        link_order_clear(&orders[i]);
    free(orders);
    free(keep);
}

/* ---- login ---- */

static bool name_ok(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);
    return len > 0 && len <= LINK_NODE_NAME_MAX && name[0] != '.' && name[0] != '-' &&
           strspn(name, allowed) == len;
}

struct hello {
    const char *node, *nonce, *proof, *boot;
    struct link_inventory inventory;
    struct link_report *reports;
    size_t n_reports;
};

static void hello_clear(struct hello *h)
{
    for (size_t i = 0; i < h->n_reports; i++)
        link_report_clear(&h->reports[i]);
    free(h->reports);
    link_inventory_clear(&h->inventory);
}

/* Only what the proof needs: the rest is looked at once the peer has shown that it knows the secret. */
static int check_proof(struct agent_peer *peer, const json_t *msg, struct hello *h, struct err *err)
{
    int64_t version;
    if (strcmp(jsonx_str_or(msg, "t", ""), "hello") != 0)
        return err_set(err, "the first message must be hello");
    if (jsonx_int(msg, "v", LINK_VERSION, LINK_VERSION, &version, err) != 0)
        return err_prefix(err, "this belayd speaks link version %d: install the same Belay on both sides",
                          LINK_VERSION);
    if (jsonx_str(msg, "node", &h->node, err) != 0 || jsonx_str(msg, "nonce", &h->nonce, err) != 0 ||
        jsonx_str(msg, "proof", &h->proof, err) != 0)
        return -1;
    if (!name_ok(h->node))
        return err_set(err, "a node name has 1 to %d of A-Z a-z 0-9 . _ - and starts with a letter or digit",
                       LINK_NODE_NAME_MAX);
    char *text = str_printf("agent|%s|%s", peer->nonce, h->node);
    bool good = strlen(h->nonce) < 256 && proof_check(peer->owner->secret, text, h->proof);
    free(text);
    return good ? 0
                : err_set(
                      err,
                      "the proof is wrong: give the agent the same secret file as belayd has (DIR/secret)");
}

static int read_hello(const json_t *msg, struct hello *h, struct err *err)
{
    json_t *list, *item;
    size_t i;
    if (jsonx_str(msg, "boot", &h->boot, err) != 0 || jsonx_array(msg, "attempts", &list, err) != 0)
        return -1;
    if (json_array_size(list) > HELLO_REPORTS_MAX)
        return err_set(err, "more than %d attempts on one node", HELLO_REPORTS_MAX);
    if (link_inventory_decode(json_object_get(msg, "inventory"), &h->inventory, err) != 0)
        return err_prefix(err, "inventory");
    h->reports = mem_zero(json_array_size(list), sizeof(*h->reports));
    json_array_foreach(list, i, item)
    {
        if (link_report_decode(item, &h->reports[i], err) != 0)
            return err_prefix(err, "attempt %zu of the hello", i);
        h->n_reports = i + 1;
    }
    return 0;
}

static void add_ack(struct agent_peer *peer, const struct link_report *r)
{
    peer->acks = mem_one_more(peer->acks, peer->n_acks, &peer->acks_room, sizeof(*peer->acks));
    peer->acks[peer->n_acks++] = (struct ack){r->job, r->attempt, r->rev};
}

/* Something for the core that is to be answered after the commit. */
static void due(struct agent_peer *peer)
{
    peer->owner->due(peer->owner->ctx, peer->place);
    turn_poke(peer->owner->turn);
}

static void accept_hello(struct agent_peer *peer, const struct hello *h)
{
    snprintf(peer->node, sizeof(peer->node), "%s", h->node);
    char *text = str_printf("belayd|%s|%s", h->nonce, h->node);
    proof_make(peer->owner->secret, text, peer->welcome_proof);
    free(text);
    evtimer_del(peer->login_timer);
    peer->owner->logged_in(peer->owner->ctx, peer->place);
    const struct core_hello hello = {h->node, h->boot, &h->inventory, h->reports, h->n_reports};
    core_node_hello(turn_core(peer->owner->turn), turn_time(), &hello);
    for (size_t i = 0; i < h->n_reports; i++)
        add_ack(peer, &h->reports[i]);
    due(peer);
}

/* Failed logins can come as fast as a stranger likes: at most one line a second tells of them. */
static void log_refusal(const struct agent_peer *peer, const char *why)
{
    static int64_t last_ms;
    static unsigned long unsaid;
    int64_t now = clock_boot_ms();
    if (last_ms && now - last_ms < 1000) {
        unsaid++;
        return;
    }
    log_warn("login from %s refused: %s (%lu more not shown)", peer->from, why, unsaid);
    last_ms = now;
    unsaid = 0;
}

static void on_login(struct agent_peer *peer, const json_t *msg)
{
    struct hello hello = {0};
    struct err err = {0};
    if (check_proof(peer, msg, &hello, &err) == 0 && read_hello(msg, &hello, &err) == 0) {
        accept_hello(peer, &hello);
    } else {
        log_refusal(peer, err.text);
        refuse(peer, err.text);
    }
    hello_clear(&hello);
}

/* ---- messages of a logged-in agent ---- */

static int on_heartbeat(struct agent_peer *peer, const json_t *msg, struct err *err)
{
    struct core *core = turn_core(peer->owner->turn);
    (void)msg;
    (void)err;
    core_node_heartbeat(core, turn_time(), peer->node);
    const struct node_record *node = core_node(core, peer->node);
    if (!node ||
        node->state != NODE_UP) /* an `up` node that goes on changes nothing: 3,072 a second need no turn */
        turn_poke(peer->owner->turn);
    return 0;
}

static int on_report(struct agent_peer *peer, const json_t *msg, struct err *err)
{
    struct link_report report;
    if (link_report_decode(msg, &report, err) != 0)
        return err_prefix(err, "report");
    core_node_report(turn_core(peer->owner->turn), turn_time(), peer->node, &report);
    add_ack(peer, &report);
    link_report_clear(&report);
    due(peer);
    return 0;
}

static int on_leaving(struct agent_peer *peer, const json_t *msg, struct err *err)
{
    (void)err;
    core_node_leaving(turn_core(peer->owner->turn), turn_time(), peer->node,
                      jsonx_str_or(msg, "reason", "it gave no reason"));
    turn_poke(peer->owner->turn);
    return 0;
}

static int on_progress(struct agent_peer *peer, const json_t *msg, struct err *err)
{
    struct link_progress progress;
    if (link_progress_decode(msg, &progress, err) != 0)
        return err_prefix(err, "progress");
    core_node_progress(turn_core(peer->owner->turn), turn_time(), peer->node, &progress);
    link_progress_clear(&progress);
    turn_poke(peer->owner->turn);
    return 0;
}

static int on_log(struct agent_peer *peer, const json_t *msg, struct err *err)
{
    return agent_logs_answer(peer->owner->logs, peer, msg, err);
}

static const struct {
    const char *type;
    int (*fn)(struct agent_peer *peer, const json_t *msg, struct err *err);
} handlers[] = {{"heartbeat", on_heartbeat},
                {"report", on_report},
                {"progress", on_progress},
                {"leaving", on_leaving},
                {"log", on_log}};

/* Unknown types are ignored, so that an agent may be newer than us. */
static int on_message(void *ctx, const json_t *msg, struct err *err)
{
    struct agent_peer *peer = ctx;
    const char *type;
    if (peer->refused)
        return 0;
    if (!peer->node[0]) {
        on_login(peer, msg);
        return 0;
    }
    if (jsonx_str(msg, "t", &type, err) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        if (strcmp(handlers[i].type, type) == 0)
            return handlers[i].fn(peer, msg, err);
    }
    return 0;
}

/* ---- the connection ---- */

static void on_read(struct bufferevent *bev, void *ctx)
{
    struct agent_peer *peer = ctx;
    struct err err = {0};
    int rc = 0;
    if (!peer->node[0] && evbuffer_get_length(bufferevent_get_input(bev)) > LOGIN_MAX)
        rc = err_set(&err, "more than %u bytes before login", LOGIN_MAX);
    else if (!turn_failure(peer->owner->turn))
        rc = jsonline_receive(bev, on_message, peer, &err);
    if (rc == 0)
        return;
    if (peer->node[0])
        log_warn("link of node %s closed: %s", peer->node, err.text);
    else
        log_refusal(peer, err.text);
    agent_peer_close(peer);
}

/* All output has been written: a refused peer may go. (This call may be a late one, for what came before the refusal.) */
static void on_written(struct bufferevent *bev, void *ctx)
{
    struct agent_peer *peer = ctx;
    if (peer->refused && evbuffer_get_length(bufferevent_get_output(bev)) == 0)
        agent_peer_close(peer);
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        agent_peer_close(ctx);
}

static void on_login_timeout(evutil_socket_t fd, short what, void *ctx)
{
    struct agent_peer *peer = ctx;
    (void)fd;
    (void)what;
    log_refusal(peer, "no login in time");
    agent_peer_close(peer);
}

/* A host that vanished without a word is noticed by heartbeats; keepalive frees its socket. Failures cost only that. */
static void tune(int fd)
{
    const int on = 1, idle_s = 5, every_s = 2, times = 3;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
}

/* Adds to the output run into the high-water check here, the one place that sees all of them. */
static void on_output(struct evbuffer *out, const struct evbuffer_cb_info *info, void *ctx)
{
    struct agent_peer *peer = ctx;
    (void)info;
    if (evbuffer_get_length(out) > OUTPUT_MAX)
        bufferevent_trigger_event(peer->bev, BEV_EVENT_ERROR, BEV_OPT_DEFER_CALLBACKS);
}

struct agent_peer *agent_peer_new(const struct agent_peer_owner *owner, void *place, int fd, const char *from)
{
    struct agent_peer *peer = mem_zero(1, sizeof(*peer));
    const struct timeval timeout = {.tv_sec = LOGIN_TIMEOUT_S};
    tune(fd);
    peer->owner = owner;
    peer->place = place;
    snprintf(peer->from, sizeof(peer->from), "%s", from);
    peer->bev = bufferevent_socket_new(owner->base, fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    peer->login_timer = evtimer_new(owner->base, on_login_timeout, peer);
    if (!peer->bev || !peer->login_timer || evtimer_add(peer->login_timer, &timeout) != 0)
        abort(); /* out of memory */
    bufferevent_setcb(peer->bev, on_read, on_written, on_event, peer);
    evbuffer_add_cb(bufferevent_get_output(peer->bev), on_output, peer);
    send_challenge(peer);
    bufferevent_enable(peer->bev, EV_READ | EV_WRITE);
    return peer;
}

void agent_peer_close(struct agent_peer *peer)
{
    peer->owner->gone(peer->owner->ctx, peer->place);
    agent_logs_peer_gone(peer->owner->logs, peer);
    event_free(peer->login_timer);
    bufferevent_free(peer->bev);
    free(peer->acks);
    free(peer);
}

const char *agent_peer_node(const struct agent_peer *peer)
{
    return peer->node[0] ? peer->node : NULL;
}
