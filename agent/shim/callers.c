/* callers: each connection has a ring of packets that wait until the other side reads. */
#include "agent/shim/callers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/packet.h"
#include "common/unixsock.h"

#define DOORS             2
#define QUEUE_MAX         256 /* packets for one that does not read */
#define PACKETS_A_TURN    16  /* then others have their turn */
#define COMPLAINT_WAIT_MS 10000

struct packet {
    json_t *msg;
    struct held *image; /* its descriptor goes along, or NULL */
};

struct caller {
    struct callers *all;
    struct caller *next;
    int64_t id;
    int fd;
    struct event *readable, *writable;
    struct packet queue[QUEUE_MAX]; /* a ring from `first` on */
    size_t first, n_queue;
};

struct door {
    struct callers *all;
    int fd;
    char *path; /* NULL = not open */
    struct event *event;
};

struct callers {
    struct event_base *base;
    uid_t uid;
    size_t max, n;
    callers_said *said;
    void *ctx;
    struct door doors[DOORS];
    struct caller *callers;
    int64_t last_id, complained_ms;
};

/* What ranks do wrong a thousand times a second must not fill the log. */
static void complain(struct callers *all, const char *what)
{
    if (all->complained_ms && clock_boot_ms() - all->complained_ms < COMPLAINT_WAIT_MS)
        return;
    all->complained_ms = clock_boot_ms();
    log_warn("a connection to the memory tier was dropped: %s", what);
}

/* ---- one caller ---- */

static struct caller *caller_of(const struct callers *all, int64_t id)
{
    struct caller *c = all->callers;
    while (c && c->id != id)
        c = c->next;
    return c;
}

static void packet_clear(struct packet *p)
{
    json_decref(p->msg);
    images_drop(p->image);
}

static void caller_free(struct caller *c)
{
    for (; c->n_queue > 0; c->n_queue--, c->first = (c->first + 1) % QUEUE_MAX)
        packet_clear(&c->queue[c->first]);
    event_free(c->readable);
    event_free(c->writable);
    close(c->fd);
    free(c);
}

static void hang_up(struct caller *c)
{
    struct caller **at = &c->all->callers;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->all->n--;
    caller_free(c);
}

/* Sends what the socket takes; the rest when it takes more. */
static void send_queue(struct caller *c)
{
    while (c->n_queue > 0) {
        struct packet *p = &c->queue[c->first];
        if (packet_send(c->fd, p->msg, p->image ? p->image->fd : -1, MSG_DONTWAIT, NULL) != 0)
            break;
        packet_clear(p);
        c->first = (c->first + 1) % QUEUE_MAX;
        c->n_queue--;
    }
    if (c->n_queue > 0 && errno != EAGAIN && errno != EINTR)
        hang_up(c);
    else if (c->n_queue > 0)
        event_add(c->writable, NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    send_queue(arg);
}

void callers_answer(struct callers *all, int64_t id, json_t *msg, struct held *image)
{
    struct caller *c = caller_of(all, id);
    if (c && c->n_queue == QUEUE_MAX) {
        complain(all, "it does not read its answers");
        hang_up(c);
        c = NULL;
    }
    if (!c) {
        json_decref(msg);
        return;
    }
    c->queue[(c->first + c->n_queue++) % QUEUE_MAX] =
        (struct packet){.msg = msg, .image = image ? images_use(image) : NULL};
    send_queue(c);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct caller *c = arg;
    struct callers *all = c->all;
    int64_t id = c->id;
    for (int i = 0; i < PACKETS_A_TURN && caller_of(all, id); i++) {
        struct err err = {""};
        json_t *msg;
        int passed, rc = packet_receive(fd, MSG_DONTWAIT, &msg, &passed, &err);
        if (rc == 0)
            return;
        if (rc < 0) {
            if (strcmp(err.text, PACKET_CLOSED) != 0)
                complain(all, err.text);
            hang_up(c);
            return;
        }
        all->said(all->ctx, id, msg, passed);
        json_decref(msg);
    }
}

/* ---- the sockets ---- */

static bool is_allowed(const struct callers *all, int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           (who.uid == all->uid || who.uid == geteuid());
}

static void on_knock(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct callers *all = ((const struct door *)arg)->all;
    int got = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (got < 0)
        return;
    if (!is_allowed(all, got) || all->n >= all->max) {
        complain(all, all->n >= all->max ? "there are too many" : "it is of another user");
        close(got);
        return;
    }
    struct caller *c = mem_zero(1, sizeof *c);
    c->all = all;
    c->next = all->callers;
    c->id = ++all->last_id;
    c->fd = got;
    c->readable = event_new(all->base, got, EV_READ | EV_PERSIST, on_readable, c);
    c->writable = event_new(all->base, got, EV_WRITE, on_writable, c);
    event_add(c->readable, NULL);
    all->callers = c;
    all->n++;
}

int callers_listen(struct callers *all, const char *path, mode_t mode, struct err *err)
{
    struct door *door = all->doors[0].path ? &all->doors[1] : &all->doors[0];
    int fd = unixsock_listen_packets(path, mode, err);
    if (fd < 0)
        return -1;
    *door = (struct door){.all = all, .fd = fd, .path = str_dup(path)};
    door->event = event_new(all->base, fd, EV_READ | EV_PERSIST, on_knock, door);
    event_add(door->event, NULL);
    return 0;
}

static void door_close(struct door *door)
{
    event_free(door->event);
    close(door->fd);
    unlink(door->path);
    free(door->path);
    door->path = NULL;
}

void callers_unlisten(struct callers *all, const char *path)
{
    for (size_t i = 0; i < DOORS; i++)
        if (all->doors[i].path && strcmp(all->doors[i].path, path) == 0)
            door_close(&all->doors[i]);
}

struct callers *callers_new(struct event_base *base, uid_t uid, size_t max, callers_said *said, void *ctx)
{
    struct callers *all = mem_zero(1, sizeof *all);
    *all = (struct callers){.base = base, .uid = uid, .max = max, .said = said, .ctx = ctx};
    return all;
}

void callers_free(struct callers *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < DOORS; i++)
        if (all->doors[i].path)
            door_close(&all->doors[i]);
    for (struct caller *c = all->callers, *next; c; c = next) {
        next = c->next;
        caller_free(c);
    }
    free(all);
}
