/* uplink: connect, prove, be told, tell.
 *
 * Both ends prove the cluster secret before anything else counts: orders are taken only after belayd's proof. Whatever goes wrong
 * (a broken message, a wrong proof, silence while logging in, EOF) ends the connection with one sentence and leads to the next
 * try; nothing is kept of the old one, because every message can be said again. What waits to be sent is bounded: progress gives
 * way first, reports are refused (their owner says them again), and a peer that reads nothing at all is given up by TCP itself. */
#include "agent/uplink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/dns.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/backoff.h"
#include "agent/progress.h"
#include "common/clock.h"
#include "common/jsonline.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/procid.h"
#include "common/proof.h"

#define RETRY_FIRST_MS   100
#define RETRY_MAX_MS     1000
#define REFUSED_RETRY_MS 5000 /* a wrong secret or name does not mend itself quickly */
#define LOGIN_LIMIT_MS   5000
#define STEADY_MS        5000 /* a login that lasted this long was a good one: the next pause is short again */
#define REPEAT_LOG_MS    60000 /* the same failure is logged again after this */
#define DEAD_PEER_MS     5000
#define UNSENT_MAX       (8u << 20)
#define UNSENT_PROGRESS  (256u << 10)
#define PROGRESS_KEPT    256
#define ORDERS_MAX       65536 /* far more attempts than a node has slots */
#define HEARTBEAT_MIN_MS 50
#define HEARTBEAT_MAX_MS 60000

enum stage { AWAY, CONNECTING, CHALLENGED, PROVING, UP };

struct uplink {
    struct uplink_config config;
    struct evdns_base *dns;
    struct bufferevent *bev;
    enum stage stage;
    char nonce[PROOF_NONCE_SIZE];
    struct event *timer; /* AWAY: next try; CONNECTING to PROVING: login limit */
    struct event *heartbeat;
    struct backoff backoff;
    bool refused;
    int64_t up_ms, logged_ms;
    char logged[256]; /* the failure that was logged last */
    struct progress *kept;
};

static void after(struct event *timer, int64_t ms)
{
    struct timeval delay = {ms / 1000, ms % 1000 * 1000};
    event_add(timer, &delay);
}

/* ---- the connection ends ---- */

static void log_failure(struct uplink *u, const char *why)
{
    int64_t now_ms = clock_boot_ms();
    if (strncmp(u->logged, why, sizeof u->logged - 1) == 0 && now_ms - u->logged_ms < REPEAT_LOG_MS)
        return;
    snprintf(u->logged, sizeof u->logged, "%s", why);
    u->logged_ms = now_ms;
    log_warn("no connection to belayd at %s:%d: %s; trying again", u->config.host, u->config.port, why);
}

static void go_away(struct uplink *u, const char *why)
{
    log_failure(u, why);
    if (u->stage == UP && clock_boot_ms() - u->up_ms >= STEADY_MS)
        backoff_reset(&u->backoff);
    if (u->bev)
        bufferevent_free(u->bev);
    u->bev = NULL;
    u->stage = AWAY;
    event_del(u->heartbeat);
    after(u->timer, u->refused ? REFUSED_RETRY_MS : backoff_next(&u->backoff));
    u->refused = false;
}

/* ---- messages ---- */

static void proof_text(char *out, size_t size, const char *side, const char *nonce, const char *node)
{
    snprintf(out, size, "%s|%s|%s", side, nonce, node);
}

static void local_address(struct uplink *u, char *out, size_t size)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    out[0] = '\0';
    if (getsockname(bufferevent_getfd(u->bev), (struct sockaddr *)&a, &len) < 0)
        return;
    if (a.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&a)->sin_addr, out, (socklen_t)size);
    else if (a.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&a)->sin6_addr, out, (socklen_t)size);
    if (strcmp(out, "::1") == 0 || strncmp(out, "127.", 4) == 0)
        snprintf(out, size, "127.0.0.1");
}

static void send_hello(struct uplink *u, const char *nonce)
{
    char text[256], proof[PROOF_SIZE], local[INET6_ADDRSTRLEN];
    struct procid self = {0};
    proof_text(text, sizeof text, "agent", nonce, u->config.node);
    proof_make(u->config.secret, text, proof);
    proof_nonce(u->nonce);
    local_address(u, local, sizeof local);
    (void)procid_of(0, &self); /* /proc is needed by everything else here too */
    json_t *msg = json_object(), *rest = u->config.hello(u->config.ctx, local);
    jsonx_set_str(msg, "t", "hello");
    jsonx_set(msg, "v", json_integer(LINK_VERSION));
    jsonx_set_str(msg, "node", u->config.node);
    jsonx_set_str(msg, "nonce", u->nonce);
    jsonx_set_str(msg, "proof", proof);
    jsonx_set_str(msg, "boot", self.boot);
    jsonx_set(msg, "start", json_integer((json_int_t)self.start));
    (void)json_object_update(msg, rest); /* fails only without memory; belayd then refuses the hello */
    json_decref(rest);
    jsonline_send(u->bev, msg);
    json_decref(msg);
}

static int on_challenge(struct uplink *u, const json_t *msg, struct err *err)
{
    int64_t version;
    const char *nonce;
    if (u->stage != CHALLENGED)
        return err_set(err, "an unexpected challenge");
    if (jsonx_int(msg, "v", 1, INT32_MAX, &version, err) < 0 || jsonx_str(msg, "nonce", &nonce, err) < 0)
        return -1;
    if (version != LINK_VERSION) {
        u->refused = true;
        return err_set(err,
                       "belayd speaks version %" PRId64
                       " of the protocol, this agent version %d; install the same release",
                       version, LINK_VERSION);
    }
    if (strlen(nonce) != PROOF_NONCE_SIZE - 1)
        return err_set(err, "the challenge's nonce does not have %d characters", PROOF_NONCE_SIZE - 1);
    u->stage = PROVING;
    send_hello(u, nonce);
    return 0;
}

static void flush_progress(struct uplink *u)
{
    const struct link_progress *p;
    while (u->stage == UP && uplink_unsent(u) < UNSENT_PROGRESS && (p = progress_first(u->kept))) {
        json_t *msg = link_progress_encode(p);
        jsonline_send(u->bev, msg);
        json_decref(msg);
        progress_pop(u->kept);
    }
}

static void start_heartbeats(struct uplink *u, int64_t ms)
{
    ms = ms < HEARTBEAT_MIN_MS ? HEARTBEAT_MIN_MS : ms > HEARTBEAT_MAX_MS ? HEARTBEAT_MAX_MS : ms;
    after(u->heartbeat, ms);
}

static int on_welcome(struct uplink *u, const json_t *msg, struct err *err)
{
    char text[256];
    const char *proof;
    int64_t heartbeat_ms;
    if (u->stage != PROVING)
        return err_set(err, "an unexpected welcome");
    if (jsonx_str(msg, "proof", &proof, err) < 0 ||
        jsonx_int(msg, "heartbeat_ms", 1, HEARTBEAT_MAX_MS, &heartbeat_ms, err) < 0)
        return -1;
    proof_text(text, sizeof text, "belayd", u->nonce, u->config.node);
    if (!proof_check(u->config.secret, text, proof)) {
        u->refused = true;
        return err_set(
            err,
            "what answers there does not know the cluster's secret; check the address and the secret file");
    }
    event_del(u->timer);
    u->stage = UP;
    u->up_ms = clock_boot_ms();
    u->logged[0] = '\0';
    log_info("logged in to belayd at %s:%d", u->config.host, u->config.port);
    start_heartbeats(u, heartbeat_ms);
    u->config.welcome(u->config.ctx);
    flush_progress(u);
    return 0;
}

static int on_refused(struct uplink *u, const json_t *msg, struct err *err)
{
    u->refused = true;
    return err_set(err, "belayd refused this node: %.500s", jsonx_str_or(msg, "reason", "(no reason given)"));
}

/* The jobs whose ended attempts keep their memory; an older controller lists none. */
static int take_keep(const json_t *msg, int64_t **jobs, size_t *n, struct err *err)
{
    const json_t *list = json_object_get(msg, "keep");
    *n = json_array_size(list);
    if ((list && !json_is_array(list)) || *n > ORDERS_MAX)
        return err_set(err, "\"keep\" is not a list of at most %d jobs", ORDERS_MAX);
    *jobs = mem_zero(*n + 1, sizeof **jobs);
    for (size_t i = 0; i < *n; i++) {
        (*jobs)[i] = json_integer_value(json_array_get(list, i));
        if ((*jobs)[i] < 1)
            return err_set(err, "\"keep\" holds something that is not the number of a job");
    }
    return 0;
}

static int on_desired(struct uplink *u, const json_t *msg, struct err *err)
{
    json_t *array;
    int64_t *keep = NULL;
    size_t n_keep, decoded = 0;
    if (jsonx_array(msg, "attempts", &array, err) < 0)
        return -1;
    size_t n = json_array_size(array);
    if (n > ORDERS_MAX)
        return err_set(err, "%zu orders at once; at most %d are allowed", n, ORDERS_MAX);
    struct link_order *orders = mem_zero(n, sizeof *orders);
    int rc = take_keep(msg, &keep, &n_keep, err);
    while (rc == 0 && decoded < n) {
        rc = link_order_decode(json_array_get(array, decoded), &orders[decoded], err);
        decoded += rc == 0;
    }
    if (rc == 0)
        u->config.desired(u->config.ctx, orders, n, keep, n_keep);
    for (size_t i = 0; i < decoded; i++)
        link_order_clear(&orders[i]);
    free(orders);
    free(keep);
    return rc;
}

static int on_ack(struct uplink *u, const json_t *msg, struct err *err)
{
    int64_t job, attempt, rev;
    if (jsonx_int(msg, "job", 1, INT64_MAX, &job, err) < 0 ||
        jsonx_int(msg, "attempt", 1, INT64_MAX, &attempt, err) < 0 ||
        jsonx_int(msg, "rev", 0, INT64_MAX, &rev, err) < 0)
        return -1;
    u->config.ack(u->config.ctx, job, attempt, rev);
    return 0;
}

static int on_read_log(struct uplink *u, const json_t *msg, struct err *err)
{
    (void)err;
    u->config.read_log(u->config.ctx, msg);
    return 0;
}

static const struct {
    const char *type;
    bool before_login;
    int (*fn)(struct uplink *u, const json_t *msg, struct err *err);
} messages[] = {
    {"challenge", true, on_challenge}, {"welcome", true, on_welcome}, {"refused", true, on_refused},
    {"desired", false, on_desired},    {"ack", false, on_ack},        {"read_log", false, on_read_log},
};

static int on_message(void *ctx, const json_t *msg, struct err *err)
{
    struct uplink *u = ctx;
    const char *type;
    if (jsonx_str(msg, "t", &type, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        if (strcmp(type, messages[i].type) != 0)
            continue;
        if (!messages[i].before_login && u->stage != UP)
            return err_set(err, "a \"%s\" before the login was complete", type);
        int rc = messages[i].fn(u, msg, err);
        return rc < 0 && !u->refused ? err_prefix(err, "its message \"%s\"", type) : rc;
    }
    return 0; /* a newer belayd may say more */
}

/* ---- the connection ---- */

static void on_readable(struct bufferevent *bev, void *ctx)
{
    struct err err;
    if (jsonline_receive(bev, on_message, ctx, &err) < 0)
        go_away(ctx, err.text);
}

static void on_written(struct bufferevent *bev, void *ctx)
{
    (void)bev;
    flush_progress(ctx);
}

static void set_option(int fd, int level, int name, int value)
{
    if (setsockopt(fd, level, name, &value, sizeof value) < 0)
        log_warn("cannot set socket option %d to %d: %s", name, value, strerror(errno));
}

static void tune_socket(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 2);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, DEAD_PEER_MS);
}

static void describe_error(struct uplink *u, char *out, size_t size)
{
    int dns = bufferevent_socket_get_dns_error(u->bev), sock = EVUTIL_SOCKET_ERROR();
    if (dns != 0)
        snprintf(out, size, "its name cannot be looked up: %s", evutil_gai_strerror(dns));
    else
        snprintf(out, size, "%s", evutil_socket_error_to_string(sock));
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct uplink *u = ctx;
    char why[200] = "it closed the connection";
    if (what & BEV_EVENT_CONNECTED) {
        tune_socket(bufferevent_getfd(bev));
        u->stage = CHALLENGED;
        return;
    }
    if (what & BEV_EVENT_ERROR)
        describe_error(u, why, sizeof why);
    go_away(u, why);
}

static void start_connecting(struct uplink *u)
{
    u->stage = CONNECTING;
    u->bev = bufferevent_socket_new(u->config.base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    bufferevent_setcb(u->bev, on_readable, on_written, on_event, u);
    bufferevent_setwatermark(u->bev, EV_READ, 0, LINK_LINE_MAX + 2);
    bufferevent_setwatermark(u->bev, EV_WRITE, UNSENT_PROGRESS / 2, 0);
    bufferevent_enable(u->bev, EV_READ | EV_WRITE);
    after(u->timer, LOGIN_LIMIT_MS);
    if (bufferevent_socket_connect_hostname(u->bev, u->dns, AF_UNSPEC, u->config.host, u->config.port) < 0)
        go_away(u, "the connection cannot be begun");
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct uplink *u = ctx;
    if (u->stage == AWAY)
        start_connecting(u);
    else
        go_away(u, u->stage == CONNECTING ? "no answer" : "it does not complete the login");
}

static void on_heartbeat(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct uplink *u = ctx;
    json_t *msg = json_pack("{s:s}", "t", "heartbeat");
    (void)uplink_send(u, msg); /* refused only when plenty is queued already: that is a sign of life too */
    json_decref(msg);
    flush_progress(u);
}

/* ---- making and using ---- */

static uint64_t seed(const struct uplink_config *config)
{
    uint64_t hash = 1469598103934665603u ^ (uint64_t)clock_utc_ms();
    for (const char *p = config->node; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    return hash;
}

struct uplink *uplink_new(const struct uplink_config *config)
{
    struct uplink *u = mem_zero(1, sizeof *u);
    u->config = *config;
    u->dns =
        evdns_base_new(config->base, EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    u->timer = event_new(config->base, -1, 0, on_timer, u);
    u->heartbeat = event_new(config->base, -1, EV_PERSIST, on_heartbeat, u);
    u->kept = progress_new(PROGRESS_KEPT);
    backoff_init(&u->backoff, RETRY_FIRST_MS, RETRY_MAX_MS, seed(config));
    event_active(u->timer, EV_TIMEOUT, 0);
    return u;
}

void uplink_free(struct uplink *u)
{
    if (!u)
        return;
    if (u->bev)
        bufferevent_free(u->bev);
    if (u->dns)
        evdns_base_free(u->dns, 0);
    event_free(u->timer);
    event_free(u->heartbeat);
    progress_free(u->kept);
    free(u);
}

bool uplink_up(const struct uplink *u)
{
    return u->stage == UP;
}

size_t uplink_unsent(const struct uplink *u)
{
    return u->bev ? evbuffer_get_length(bufferevent_get_output(u->bev)) : 0;
}

bool uplink_send(struct uplink *u, const json_t *msg)
{
    if (u->stage != UP || uplink_unsent(u) > UNSENT_MAX)
        return false;
    jsonline_send(u->bev, msg);
    return true;
}

void uplink_progress(struct uplink *u, const struct link_progress *progress)
{
    progress_add(u->kept, progress);
    flush_progress(u);
}
