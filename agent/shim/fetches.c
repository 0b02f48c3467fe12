/* fetches: a list of fetches, each with those who wait for it. */
#include "agent/shim/fetches.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define RETRY_FIRST_MS 100
#define TRIES          6 /* with pauses that double: some six seconds */
#define AT_ONCE        8

struct fetch {
    struct fetches *all;
    struct fetch *next;
    struct memimage want;
    struct transfer_peer peer;
    struct waiter *waiters;
    size_t n_waiters, waiters_room;
    int tries;
    bool active;
    struct event *retry;
};

struct fetches {
    struct event_base *base;
    struct transfers *transfers;
    fetches_tell *tell;
    void *ctx;
    struct fetch *first;
    size_t n_active;
};

static void start(struct fetches *all);

static void fetch_free(struct fetch *f)
{
    event_free(f->retry);
    free(f->waiters);
    free(f);
}

static void end(struct fetch *f, const struct transfer_end *how)
{
    struct fetches *all = f->all;
    struct fetch **at = &all->first;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    for (size_t i = 0; i < f->n_waiters; i++)
        all->tell(all->ctx, f->waiters[i], &f->want, how->image, how->error);
    fetch_free(f);
}

static void on_fetched(void *ctx, const struct transfer_end *how)
{
    struct fetch *f = ctx;
    struct fetches *all = f->all;
    f->active = false;
    all->n_active--;
    if (how->error && !how->hopeless && f->tries < TRIES) {
        int64_t pause_ms = RETRY_FIRST_MS << f->tries;
        const struct timeval pause = {.tv_sec = pause_ms / 1000, .tv_usec = pause_ms % 1000 * 1000};
        evtimer_add(f->retry, &pause);
    } else {
        end(f, how);
    }
    start(all);
}

static void start(struct fetches *all)
{
    for (struct fetch *f = all->first; f && all->n_active < AT_ONCE; f = f->next) {
        if (f->active || evtimer_pending(f->retry, NULL))
            continue;
        f->active = true;
        f->tries++;
        all->n_active++;
        transfer_fetch(all->transfers, &f->peer, &f->want, on_fetched, f);
    }
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    start(((const struct fetch *)arg)->all);
}

static bool is_of(const struct fetch *f, const struct transfer_peer *peer, const struct memimage *want)
{
    return f->peer.port == peer->port && strcmp(f->peer.addr, peer->addr) == 0 &&
           memimage_same(&f->want, want);
}

void fetches_add(struct fetches *all, const struct transfer_peer *peer, const struct memimage *want,
                 struct waiter waiter)
{
    struct fetch *f = all->first;
    while (f && !is_of(f, peer, want))
        f = f->next;
    if (!f) {
        f = mem_zero(1, sizeof *f);
        *f = (struct fetch){.all = all, .next = all->first, .want = *want, .peer = *peer};
        f->retry = evtimer_new(all->base, on_retry, f);
        all->first = f;
    }
    f->waiters = mem_one_more(f->waiters, f->n_waiters, &f->waiters_room, sizeof *f->waiters);
    f->waiters[f->n_waiters++] = waiter;
    start(all);
}

struct fetches *fetches_new(struct event_base *base, struct transfers *transfers, fetches_tell *tell,
                            void *ctx)
{
    struct fetches *all = mem_zero(1, sizeof *all);
    *all = (struct fetches){.base = base, .transfers = transfers, .tell = tell, .ctx = ctx};
    return all;
}

void fetches_free(struct fetches *all)
{
    if (!all)
        return;
    for (struct fetch *f = all->first, *next; f; f = next) {
        next = f->next;
        fetch_free(f);
    }
    free(all);
}
