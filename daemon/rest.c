/* rest: from evhttp to a handler and back.
 *
 * Path of a request: on_request reads identity, route and body → route->change gives the core its event → turn_after → (commit)
 * → route->render → answer, wait (long poll) or later (logs from an agent). A refusal takes the same way, since what it is based on
 * must be on disk too.
 * Always holds: an exchange is in one place at a time (turn, waiting list, or a handler's own callback), and whoever holds it
 * answers it exactly once; req is NULL once the client is gone. */
#include "daemon/rest.h"

#include <ctype.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/unixsock.h"
#include "daemon/exchange.h"

#define BODY_MAX    (2 << 20) /* a job file of 1 MiB, escaped */
#define HEADERS_MAX (16 << 10)
#define IDLE_S      60 /* a connection that says nothing is closed */
#define WAIT_MAX_S  30
#define WAITING_MAX 1024 /* long polls at a time; more are answered at once */

/* The public part first, so that a pointer to it is a pointer to the whole. */
struct request {
    struct exchange x;
    struct rest *rest;
    struct evhttp_request *req; /* NULL: the client is gone */
    struct event *timer;        /* end of the wait */
    TAILQ_ENTRY(request) link;
    bool waiting;
};

struct rest {
    struct event_base *base;
    struct turn *turn;
    struct agent_link *agents;
    char *dir, *path;
    int64_t started_ms;
    struct evhttp *http;
    struct evhttp_bound_socket *bound;
    TAILQ_HEAD(waiting, request) waiting;
    size_t n_waiting;
    bool stopping;
};

/* ---- for handlers ---- */

void exchange_refuse(struct exchange *x, int status, const char *fmt, ...)
{
    char text[sizeof(x->error.text)];
    va_list args;
    if (x->status)
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args); /* a long sentence is cut */
    va_end(args);
    err_set(&x->error, "%s", text);
    x->status = status;
}

void exchange_refuse_core(struct exchange *x, enum core_refusal why, const struct err *err)
{
    int status = why == CORE_NO_SUCH ? 404 : why == CORE_INVALID ? 400 : 409;
    exchange_refuse(x, status, "%s", err->text);
}

const char *exchange_query(const struct exchange *x, const char *key)
{
    return evhttp_find_header(&x->query, key);
}

int64_t exchange_query_int(struct exchange *x, const char *key, int64_t min, int64_t max, int64_t absent)
{
    const char *text = exchange_query(x, key);
    char *end;
    if (!text)
        return absent;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!errno && end != text && !*end && value >= min && value <= max)
        return value;
    exchange_refuse(x, 400, "%s is \"%.40s\"; it must be a whole number from %lld to %lld", key, text,
                    (long long)min, (long long)max);
    return absent;
}

bool exchange_may_act(const struct exchange *x, int64_t owner_uid)
{
    return x->uid == owner_uid || x->uid == 0 || x->uid == (int64_t)geteuid();
}

bool exchange_owner_only(struct exchange *x, const struct job_record *job, const char *what)
{
    if (exchange_may_act(x, job->uid))
        return true;
    exchange_refuse(x, 403, "job %lld belongs to %s: only %s%s or the user that runs belayd may %s",
                    (long long)job->id, job->user, job->uid ? job->user : "", job->uid ? ", root," : "root",
                    what);
    return false;
}

/* ---- answering ---- */

static void request_free(struct request *r)
{
    if (r->timer)
        event_free(r->timer);
    evhttp_clear_headers(&r->x.query);
    json_decref(r->x.body);
    json_decref(r->x.reply);
    free(r);
}

static int append(const char *data, size_t len, void *out)
{
    return evbuffer_add(out, data, len);
}

static const char *phrase(int status)
{
    static const struct {
        int status;
        const char *text;
    } phrases[] = {{200, "OK"},        {201, "Created"},   {400, "Bad Request"},
                   {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
                   {409, "Conflict"},  {413, "Too Large"}};
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        if (phrases[i].status == status)
            return phrases[i].text;
    }
    return "Service Unavailable";
}

static void on_client_gone(struct evhttp_connection *connection, void *ctx)
{
    struct request *r = ctx;
    (void)connection;
    r->req = NULL;
    if (!r->waiting)
        return; /* whoever holds it frees it */
    TAILQ_REMOVE(&r->rest->waiting, r, link);
    r->rest->n_waiting--;
    request_free(r);
}

/* The answer's JSON: the reply, or the error with whatever the handler put beside it. */
static json_t *answer_body(struct exchange *x)
{
    if (x->status >= 400) {
        if (!x->reply)
            x->reply = json_object();
        jsonx_set_str(x->reply, "error", x->error.text);
    }
    return x->reply ? x->reply : (x->reply = json_object());
}

static void send_answer(struct request *r)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(r->req);
    struct evbuffer *out = evbuffer_new();
    int status = r->x.status ? r->x.status : 200;
    if (!out || evhttp_add_header(headers, "Content-Type", "application/json") != 0 ||
        json_dump_callback(answer_body(&r->x), append, out, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0 ||
        evbuffer_add(out, "\n", 1) != 0)
        abort(); /* out of memory */
    if (r->rest->stopping)
        (void)evhttp_add_header(headers, "Connection", "close"); /* a courtesy */
    evhttp_connection_set_closecb(evhttp_request_get_connection(r->req), NULL, NULL);
    evhttp_send_reply(r->req, status, phrase(status), out);
    evbuffer_free(out);
}

void exchange_answer(struct exchange *x)
{
    struct request *r = (struct request *)x;
    if (r->req)
        send_answer(r);
    request_free(r);
}

/* ---- waiting ---- */

static void after_commit(void *ctx, const struct err *failure);

static void stop_waiting(struct request *r)
{
    TAILQ_REMOVE(&r->rest->waiting, r, link);
    r->rest->n_waiting--;
    r->waiting = false;
}

static void on_wait_over(evutil_socket_t fd, short what, void *ctx)
{
    struct request *r = ctx;
    (void)fd;
    (void)what;
    if (!r->waiting)
        return;
    stop_waiting(r);
    r->x.waited_enough = true;
    turn_after(r->rest->turn, after_commit, r);
}

/* Starts the clock at the first wait; later ones go on with it. */
static void wait_more(struct request *r)
{
    if (!r->timer) {
        const struct timeval timeout = {.tv_sec = (time_t)exchange_query_int(&r->x, "wait", 0, INT64_MAX, 0)};
        const struct timeval longest = {.tv_sec = WAIT_MAX_S};
        r->timer = evtimer_new(r->rest->base, on_wait_over, r);
        if (!r->timer || evtimer_add(r->timer, timeout.tv_sec < WAIT_MAX_S ? &timeout : &longest) != 0)
            abort(); /* out of memory */
    }
    TAILQ_INSERT_TAIL(&r->rest->waiting, r, link);
    r->rest->n_waiting++;
    r->waiting = true;
}

static bool may_wait(struct request *r)
{
    return !r->rest->stopping && r->rest->n_waiting < WAITING_MAX;
}

/* Renders and goes where the handler says. r is in nobody's list. */
static void render(struct request *r)
{
    struct exchange *x = &r->x;
    enum exchange_next next = EXCHANGE_ANSWER;
    if (!x->status && r->req) {
        x->waited_enough = x->waited_enough || !may_wait(r);
        next = x->route->render(x);
    }
    if (next == EXCHANGE_WAIT)
        wait_more(r);
    else if (next == EXCHANGE_ANSWER)
        exchange_answer(x);
}

static void after_commit(void *ctx, const struct err *failure)
{
    struct request *r = ctx;
    if (failure) {
        r->x.status = 0; /* whatever was decided rests on state that is not on disk */
        exchange_refuse(&r->x, 503, "%s", failure->text);
        exchange_answer(&r->x);
        return;
    }
    render(r);
}

/* Woken ones are taken out first, since rendering may put them back. */
static void on_commit(void *ctx, const struct core_changes *changes)
{
    struct rest *rest = ctx;
    struct waiting woken = TAILQ_HEAD_INITIALIZER(woken);
    if (changes->n_jobs + changes->n_events == 0)
        return;
    for (struct request *r = TAILQ_FIRST(&rest->waiting), *next; r; r = next) {
        next = TAILQ_NEXT(r, link);
        if (!r->x.route->wakes(&r->x, changes))
            continue;
        stop_waiting(r);
        TAILQ_INSERT_TAIL(&woken, r, link);
    }
    for (struct request *r = TAILQ_FIRST(&woken), *next; r; r = next) {
        next = TAILQ_NEXT(r, link); /* rendering puts r elsewhere, never another one */
        render(r);
    }
}

/* ---- reading a request ---- */

static int user_name(int64_t uid, char *out, size_t size)
{
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (getpwuid_r((uid_t)uid, &entry, buffer, sizeof(buffer), &found) == 0 && found)
        return snprintf(out, size, "%s", found->pw_name);
    return snprintf(out, size, "%lld", (long long)uid);
}

/* Names are asked for once in a while only: the user database may be slow. */
static void set_user(struct exchange *x)
{
    static struct {
        int64_t uid, until_ms;
        char name[sizeof(x->user)];
    } cache[64];
    size_t at = (size_t)x->uid % (sizeof(cache) / sizeof(cache[0]));
    if (cache[at].uid != x->uid || cache[at].until_ms < clock_boot_ms()) {
        cache[at].uid = x->uid;
        cache[at].until_ms = clock_boot_ms() + 60000;
        user_name(x->uid, cache[at].name, sizeof(cache[at].name));
    }
    memcpy(x->user, cache[at].name, sizeof(x->user));
}

static void set_identity(struct request *r)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(r->req));
    struct ucred who = {.uid = (uid_t)-1, .gid = (gid_t)-1};
    socklen_t len = sizeof(who);
    if (getsockopt(bufferevent_getfd(bev), SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
        exchange_refuse(&r->x, 403, "belayd cannot tell who you are (SO_PEERCRED: %s)", strerror(errno));
    r->x.uid = (int64_t)who.uid;
    r->x.gid = (int64_t)who.gid;
    set_user(&r->x);
}

/* A positive number without sign, or 0. */
static int64_t path_number(const char *text, size_t len)
{
    int64_t n = 0;
    if (len == 0 || len > 18)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]))
            return 0;
        n = n * 10 + (text[i] - '0');
    }
    return n;
}

/* Takes one path segment for '#' or '*'. */
static bool take_segment(struct exchange *x, char kind, const char *text, size_t len)
{
    if (kind == '#')
        return (x->id = path_number(text, len)) > 0;
    if (len == 0 || len >= sizeof(x->name))
        return false;
    memcpy(x->name, text, len);
    x->name[len] = '\0';
    return true;
}

static bool path_matches(struct exchange *x, const char *pattern, const char *path)
{
    while (*pattern) {
        if (*pattern == '#' || *pattern == '*') {
            size_t len = strcspn(path, "/");
            if (!take_segment(x, *pattern, path, len))
                return false;
            path += len;
            pattern++;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

static void set_route(struct exchange *x, enum evhttp_cmd_type method, const char *path)
{
    static const struct route *const tables[] = {rest_cluster_routes, rest_job_routes, rest_node_routes,
                                                 rest_log_routes, rest_explain_routes};
    bool other_method = false;
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const struct route *route = tables[t]; route->path; route++) {
            if (!path_matches(x, route->path, path))
                continue;
            if (route->method == method) {
                x->route = route;
                return;
            }
            other_method = true;
        }
    }
    if (other_method)
        exchange_refuse(x, 405, "this method is not for %.200s", path);
    else
        exchange_refuse(x, 404, "there is no %.200s here; see docs/protocols.md section 5", path);
}

static void set_target(struct request *r)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r->req);
    const char *raw = uri ? evhttp_uri_get_path(uri) : NULL, *query = uri ? evhttp_uri_get_query(uri) : NULL;
    size_t len = 0;
    char *path = evhttp_uridecode(raw ? raw : "", 0, &len);
    if (!path || strlen(path) != len || (query && evhttp_parse_query_str(query, &r->x.query) != 0))
        exchange_refuse(&r->x, 400, "the address is not understood");
    else
        set_route(&r->x, evhttp_request_get_command(r->req), path);
    free(path);
}

static void set_body(struct request *r)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(r->req);
    size_t len = evbuffer_get_length(in);
    json_error_t why = {0};
    if (len == 0) {
        r->x.body = json_object();
        return;
    }
    const char *text = (const char *)evbuffer_pullup(in, -1);
    r->x.body = text ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &why) : NULL;
    if (!r->x.body)
        exchange_refuse(&r->x, 400, "the body is not JSON: line %d, column %d: %s", why.line, why.column,
                        why.text);
    else if (!json_is_object(r->x.body))
        exchange_refuse(&r->x, 400, "the body must be a JSON object");
}

static struct request *request_new(struct rest *rest, struct evhttp_request *req)
{
    struct request *r = mem_zero(1, sizeof(*r));
    r->rest = rest;
    r->req = req;
    r->x.turn = rest->turn;
    r->x.link = rest->agents;
    r->x.dir = rest->dir;
    r->x.started_ms = rest->started_ms;
    r->x.wait_for = -1;
    TAILQ_INIT(&r->x.query);
    evhttp_connection_set_closecb(evhttp_request_get_connection(req), on_client_gone, r);
    return r;
}

static void on_request(struct evhttp_request *req, void *ctx)
{
    struct rest *rest = ctx;
    struct request *r = request_new(rest, req);
    struct exchange *x = &r->x;
    set_identity(r);
    set_target(r);
    set_body(r);
    if (rest->stopping)
        exchange_refuse(x, 503, "belayd is shutting down; try again when it is back");
    if (!x->status && x->route->change && !turn_failure(rest->turn))
        x->route->change(x);
    turn_after(rest->turn, after_commit, r);
}

/* ---- the server ---- */

static void set_limits(struct evhttp *http)
{
    evhttp_set_max_body_size(http, BODY_MAX);
    evhttp_set_max_headers_size(http, HEADERS_MAX);
    evhttp_set_timeout(http, IDLE_S);
    evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
                                         EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
}

struct rest *rest_new(struct event_base *base, struct turn *turn, struct agent_link *link, const char *dir,
                      const char *path, struct err *err)
{
    int fd = unixsock_listen(path, 0666, err);
    if (fd < 0)
        return NULL;
    struct rest *rest = mem_zero(1, sizeof(*rest));
    rest->base = base;
    rest->turn = turn;
    rest->agents = link;
    rest->dir = str_dup(dir);
    rest->path = str_dup(path);
    rest->started_ms = clock_utc_ms();
    TAILQ_INIT(&rest->waiting);
    rest->http = evhttp_new(base);
    rest->bound = rest->http ? evhttp_accept_socket_with_handle(rest->http, fd) : NULL;
    if (!rest->bound)
        abort(); /* out of memory */
    set_limits(rest->http);
    evhttp_set_gencb(rest->http, on_request, rest);
    turn_on_commit(turn, on_commit, rest);
    return rest;
}

void rest_stop(struct rest *rest)
{
    if (rest->stopping)
        return;
    rest->stopping = true;
    evhttp_del_accept_socket(rest->http, rest->bound);
    for (struct request *r = TAILQ_FIRST(&rest->waiting), *next; r; r = next) {
        next = TAILQ_NEXT(r, link);
        stop_waiting(r);
        exchange_refuse(&r->x, 503, "belayd is shutting down; try again when it is back");
        exchange_answer(&r->x);
    }
}

void rest_free(struct rest *rest)
{
    if (!rest)
        return;
    rest_stop(rest);
    evhttp_free(rest->http);
    free(rest->dir);
    free(rest->path);
    free(rest);
}
