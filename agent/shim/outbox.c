/* outbox: a list of what waits, and the one on its way. */
#include "agent/shim/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"

#define RETRY_FIRST_MS 100
#define RETRY_MAX_MS   5000

struct letter {
    struct letter *next;
    struct held *image;
    int64_t caller;
    bool told; /* that the buddy does not have it */
};

struct outbox {
    struct transfers *transfers;
    outbox_tell *tell;
    void *ctx;
    bool aimed;
    struct transfer_peer buddy;
    struct letter *waiting, *sending;
    struct event *retry;
    int64_t retry_ms; /* 0 = the buddy was reached the last time */
};

static void send_next(struct outbox *o);

static void letter_free(struct letter *l)
{
    images_drop(l->image);
    free(l);
}

static bool is_named(const struct letter *l, const char *name)
{
    return strcmp(l->image->is.name, name) == 0;
}

static void tell_missing(struct outbox *o, struct letter *l)
{
    if (!l->told)
        o->tell(o->ctx, l->caller, &l->image->is, false);
    l->told = true;
}

/* A newer image of that name takes their place. */
static void drop_waiting(struct outbox *o, const char *name)
{
    for (struct letter **at = &o->waiting; *at;) {
        struct letter *l = *at;
        if (!is_named(l, name)) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        tell_missing(o, l);
        letter_free(l);
    }
}

static void append(struct outbox *o, struct letter *l)
{
    struct letter **at = &o->waiting;
    while (*at)
        at = &(*at)->next;
    l->next = NULL;
    *at = l;
}

static bool newer_waits(const struct outbox *o, const char *name)
{
    const struct letter *l = o->waiting;
    while (l && !is_named(l, name))
        l = l->next;
    return l;
}

/* The buddy is away: it is asked again after a pause. */
static void pause_sending(struct outbox *o, const struct memimage *image, const char *error)
{
    if (o->retry_ms == 0)
        log_warn("the buddy node did not take %s of step %lld, and is asked again: %s", image->name,
                 (long long)image->step, error);
    o->retry_ms = o->retry_ms == 0 ? RETRY_FIRST_MS : o->retry_ms * 2;
    if (o->retry_ms > RETRY_MAX_MS)
        o->retry_ms = RETRY_MAX_MS;
    const struct timeval pause = {.tv_sec = o->retry_ms / 1000, .tv_usec = o->retry_ms % 1000 * 1000};
    evtimer_add(o->retry, &pause);
}

static void not_sent(struct outbox *o, struct letter *l, const struct transfer_end *end)
{
    const struct memimage *image = &l->image->is;
    tell_missing(o, l);
    if (end->hopeless)
        log_warn("the buddy node does not take %s of step %lld: %s", image->name, (long long)image->step,
                 end->error);
    else
        pause_sending(o, image, end->error);
    if (end->hopeless || newer_waits(o, image->name))
        letter_free(l);
    else
        append(o, l);
}

static void on_sent(void *ctx, const struct transfer_end *end)
{
    struct outbox *o = ctx;
    struct letter *l = o->sending;
    o->sending = NULL;
    if (end->error) {
        not_sent(o, l, end);
    } else {
        if (o->retry_ms > 0)
            log_info("the buddy node takes images again");
        o->retry_ms = 0;
        o->tell(o->ctx, l->caller, &l->image->is, true);
        letter_free(l);
    }
    send_next(o);
}

static void send_next(struct outbox *o)
{
    struct letter *l = o->waiting;
    if (!l || o->sending || evtimer_pending(o->retry, NULL))
        return;
    o->waiting = l->next;
    o->sending = l;
    transfer_push(o->transfers, &o->buddy, l->image, on_sent, o);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    send_next(arg);
}

void outbox_put(struct outbox *o, struct held *image, int64_t caller)
{
    drop_waiting(o, image->is.name);
    if (!o->aimed) {
        o->tell(o->ctx, caller, &image->is, false);
        return;
    }
    struct letter *l = mem_zero(1, sizeof *l);
    *l = (struct letter){.image = images_use(image), .caller = caller};
    if (o->retry_ms > 0) /* nobody is to wait for the next try */
        tell_missing(o, l);
    append(o, l);
    send_next(o);
}

void outbox_aim(struct outbox *o, const struct transfer_peer *buddy)
{
    o->aimed = true;
    o->buddy = *buddy;
}

struct outbox *outbox_new(struct event_base *base, struct transfers *transfers, outbox_tell *tell, void *ctx)
{
    struct outbox *o = mem_zero(1, sizeof *o);
    *o = (struct outbox){.transfers = transfers, .tell = tell, .ctx = ctx};
    o->retry = evtimer_new(base, on_retry, o);
    return o;
}

void outbox_free(struct outbox *o)
{
    if (!o)
        return;
    if (o->sending)
        letter_free(o->sending);
    for (struct letter *l = o->waiting, *next; l; l = next) {
        next = l->next;
        letter_free(l);
    }
    event_free(o->retry);
    free(o);
}
