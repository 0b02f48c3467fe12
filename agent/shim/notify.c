/* notify: parse, find the rank, merge into what waits for that rank, send when its time has come. */
#include "agent/shim/notify.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "schema/notify_key.h"

#define KEYS_MAX          64   /* a message to the controller may hold no more */
#define DATAGRAMS_A_TURN  256  /* then PMIx and the rest have their turn */
#define DRAIN_MAX         8192 /* more than a socket queues */
#define COMPLAINT_WAIT_MS 10000

struct waiting {
    struct waiting *next;
    struct notify *owner;
    int64_t rank, sent_ms;
    json_t *values; /* NULL when nothing waits */
    struct event *timer;
};

struct notify {
    struct event_base *base;
    int fd;
    char *path;
    struct event *readable;
    const struct notify_events *events;
    void *ctx;
    struct waiting *ranks;
    size_t complaints;
    int64_t complained_ms;
};

/* ---- parsing ---- */

static int64_t parse_rank(const char *text, size_t len)
{
    int64_t rank = 0;
    if (len == 0 || len > 9)
        return -2;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -2;
        rank = rank * 10 + (text[i] - '0');
    }
    return rank;
}

static bool parse_line(json_t *values, const char *line, size_t len, int64_t *rank)
{
    const char *eq = memchr(line, '=', len);
    if (!eq || !notify_key_ok(line, (size_t)(eq - line)))
        return false;
    size_t key_len = (size_t)(eq - line), value_len = len - key_len - 1;
    if (key_len == 4 && memcmp(line, "RANK", 4) == 0) {
        *rank = parse_rank(eq + 1, value_len);
        return true;
    }
    json_t *value = memchr(eq, '\0', value_len + 1)
                        ? NULL
                        : json_stringn(eq + 1, value_len); /* NULL too when not UTF-8 */
    if (!value || json_object_size(values) >= KEYS_MAX) {
        json_decref(value);
        return false;
    }
    char key[NOTIFY_KEY_MAX + 1] = "";
    memcpy(key, line, key_len);
    jsonx_set(values, key, value);
    return true;
}

json_t *notify_parse(const char *text, size_t len, int64_t *rank, size_t *bad)
{
    json_t *values = json_object();
    *rank = -1;
    *bad = 0;
    for (size_t at = 0; at < len;) {
        const char *eol = memchr(text + at, '\n', len - at);
        size_t line_len = eol ? (size_t)(eol - text) - at : len - at;
        if (line_len > 0 && !parse_line(values, text + at, line_len, rank))
            (*bad)++;
        at += line_len + 1;
    }
    return values;
}

/* ---- sending on ---- */

static void send_waiting(struct waiting *w)
{
    json_t *values = w->values;
    if (!values)
        return;
    w->values = NULL;
    w->sent_ms = clock_boot_ms();
    evtimer_del(w->timer);
    w->owner->events->progress(w->owner->ctx, w->rank, values);
    json_decref(values);
}

static void timer_fired(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    send_waiting(arg);
}

static struct waiting *waiting_of(struct notify *n, int64_t rank)
{
    for (struct waiting *w = n->ranks; w; w = w->next)
        if (w->rank == rank)
            return w;
    struct waiting *w = mem_zero(1, sizeof *w);
    *w = (struct waiting){.next = n->ranks, .owner = n, .rank = rank, .sent_ms = -NOTIFY_INTERVAL_MS};
    w->timer = evtimer_new(n->base, timer_fired, w);
    return n->ranks = w;
}

static bool names_checkpoint(json_t *values)
{
    const char *key;
    json_t *value;
    json_object_foreach(values, key, value)
    {
        if (strncmp(key, "CHECKPOINT_", 11) == 0)
            return true;
    }
    return false;
}

/* A copy held in memory, perhaps after every step: of those only the newest counts, so it goes on under a key that may be replaced. */
static void rename_memory(json_t *values)
{
    json_t *step = json_object_get(values, "CHECKPOINT_DURABLE");
    if (!step || strcmp(jsonx_str_or(values, "CHECKPOINT_TIER", ""), "memory") != 0)
        return;
    jsonx_set(values, "MEMORY_CHECKPOINT", json_incref(step));
    (void)json_object_del(values, "CHECKPOINT_DURABLE");
    (void)json_object_del(values, "CHECKPOINT_TIER");
    (void)json_object_del(values, "CHECKPOINT_BYTES");
    (void)json_object_del(values, "CHECKPOINT_DURABLE_MS");
}

static void merge(struct notify *n, int64_t rank, json_t *values)
{
    struct waiting *w = waiting_of(n, rank);
    if (w->values && ((names_checkpoint(w->values) && names_checkpoint(values)) ||
                      json_object_size(w->values) + json_object_size(values) > KEYS_MAX))
        send_waiting(w);
    if (w->values) {
        json_object_update(w->values, values);
        return; /* its timer runs */
    }
    w->values = json_incref(values);
    int64_t due_ms = w->sent_ms + NOTIFY_INTERVAL_MS - clock_boot_ms();
    if (due_ms <= 0)
        send_waiting(w);
    else
        evtimer_add(w->timer, &(struct timeval){.tv_usec = due_ms * 1000});
}

void notify_flush(struct notify *n)
{
    for (struct waiting *w = n ? n->ranks : NULL; w; w = w->next)
        send_waiting(w);
}

/* ---- receiving ---- */

/* A program that sends rubbish a thousand times a second must not fill the shim's log. */
static void complain(struct notify *n, pid_t pid, const char *what)
{
    n->complaints++;
    if (n->complained_ms && clock_boot_ms() - n->complained_ms < COMPLAINT_WAIT_MS)
        return;
    log_warn("notify socket: process %d %s (%zu datagrams or lines ignored so far)", (int)pid, what,
             n->complaints);
    n->complained_ms = clock_boot_ms();
}

static void handle(struct notify *n, const char *text, size_t len, pid_t pid)
{
    int64_t rank;
    size_t bad;
    json_t *values = notify_parse(text, len, &rank, &bad);
    rename_memory(values);
    if (bad)
        complain(n, pid, "sent a line that is not KEY=value in UTF-8");
    if (rank == -1)
        rank = n->events->rank_of(n->ctx, pid);
    if (rank < 0 || !n->events->is_local(n->ctx, rank))
        complain(n, pid, "gave no RANK of this node and belongs to none");
    else if (json_object_size(values) > 0)
        merge(n, rank, values);
    json_decref(values);
}

static pid_t sender(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(c), sizeof who);
            return who.pid;
        }
    }
    return 0;
}

static void close_passed_fds(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
            close(fd);
        }
    }
}

/* false when there is nothing more to read. */
static bool receive_one(struct notify *n)
{
    char text[NOTIFY_DATAGRAM_MAX];
    union {
        char space[512];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = text, .iov_len = sizeof text};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof control.space};
    ssize_t len = recvmsg(n->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0)
        return errno == EINTR;
    close_passed_fds(&msg);
    if (msg.msg_flags & MSG_TRUNC)
        complain(n, sender(&msg), "sent a datagram of more than 4096 bytes");
    else
        handle(n, text, (size_t)len, sender(&msg));
    return true;
}

static void readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    for (int i = 0; i < DATAGRAMS_A_TURN && receive_one(arg); i++)
        ;
}

void notify_drain(struct notify *n)
{
    for (int i = 0; n && i < DRAIN_MAX && receive_one(n); i++)
        ;
    notify_flush(n);
}

static int bind_socket(const char *path, struct err *err)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len >= sizeof sa.sun_path)
        return err_set(err, "the notify socket's path is too long: %s", path);
    memcpy(sa.sun_path, path, len);
    int one = 1, fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) != 0 || chmod(path, 0666) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) != 0) {
        err_sys(err, "cannot open the notify socket %s", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

struct notify *notify_listen(struct event_base *base, const char *path, const struct notify_events *events,
                             void *ctx, struct err *err)
{
    int fd = bind_socket(path, err);
    if (fd < 0)
        return NULL;
    struct notify *n = mem_zero(1, sizeof *n);
    *n = (struct notify){.base = base, .fd = fd, .path = str_dup(path), .events = events, .ctx = ctx};
    n->readable = event_new(base, fd, EV_READ | EV_PERSIST, readable, n);
    event_add(n->readable, NULL);
    return n;
}

void notify_free(struct notify *n)
{
    if (!n)
        return;
    while (n->ranks) {
        struct waiting *w = n->ranks;
        n->ranks = w->next;
        json_decref(w->values);
        event_free(w->timer);
        free(w);
    }
    event_free(n->readable);
    close(n->fd);
    unlink(n->path);
    free(n->path);
    free(n);
}
