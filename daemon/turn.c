/* turn: the glue between loop, core and store.
 *
 * Two events carry it: a low-priority one (libevent runs it only when no socket has anything left) and, so that steady traffic
 * cannot put it off for ever, a high-priority one used once the oldest waiting request is TURN_DELAY_MAX_MS old.
 * Always holds: callbacks and hooks run only after store_commit returned; core changes are cleared only after they were written;
 * once a commit has failed, no other is tried and every later callback gets the failure.
 * Progress is lazy: a job of which only progress changed is written with the next transaction that is at least
 * LAZY_WRITE_MS after the last one that carried progress. */
#include "daemon/turn.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define TURN_DELAY_MAX_MS 4    /* well below what a person notices, well above one commit's fsync */
#define LAZY_WRITE_MS     1000 /* a kill loses at most this much of the progress shown */

struct waiter {
    void (*fn)(void *ctx, const struct err *failure);
    void *ctx;
};

struct hook {
    void (*fn)(void *ctx, const struct core_changes *changes);
    void *ctx;
};

struct turn {
    struct core *core;
    struct store *store;
    struct event *quiet, *urgent, *timer;
    bool poked;
    int64_t poked_ms; /* when the first poke of this turn came */
    struct waiter *waiters;
    size_t n_waiters, room;
    struct hook hooks[TURN_HOOKS_MAX];
    size_t n_hooks;
    int64_t *lazy; /* ids of jobs whose progress is not on disk */
    size_t n_lazy, lazy_room;
    int64_t lazy_due_ms;
    bool failed;
    struct err failure;
    void (*on_failure)(void *ctx, const struct err *why);
    void *on_failure_ctx;
};

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    turn_run(ctx);
}

/* Both poke events may have been activated: the second one finds nothing to do. */
static void on_poke(evutil_socket_t fd, short what, void *ctx)
{
    struct turn *turn = ctx;
    (void)fd;
    (void)what;
    if (turn->poked)
        turn_run(turn);
}

static struct event *make_event(struct event_base *base, struct turn *turn, event_callback_fn fn,
                                int priority)
{
    struct event *ev = event_new(base, -1, 0, fn, turn);
    if (!ev || event_priority_set(ev, priority) != 0)
        abort(); /* out of memory, or a base without priorities */
    return ev;
}

struct turn *turn_new(struct event_base *base, struct core *core, struct store *store,
                      void (*on_failure)(void *ctx, const struct err *why), void *ctx)
{
    struct turn *turn = mem_zero(1, sizeof(*turn));
    turn->core = core;
    turn->store = store;
    turn->on_failure = on_failure;
    turn->on_failure_ctx = ctx;
    turn->urgent = make_event(base, turn, on_poke, 0);
    turn->timer = make_event(base, turn, on_timer, 1);
    turn->quiet = make_event(base, turn, on_poke, TURN_PRIORITIES - 1);
    return turn;
}

void turn_free(struct turn *turn)
{
    if (!turn)
        return;
    event_free(turn->urgent);
    event_free(turn->timer);
    event_free(turn->quiet);
    free(turn->waiters);
    free(turn->lazy);
    free(turn);
}

struct core *turn_core(struct turn *turn)
{
    return turn->core;
}

struct store *turn_store(struct turn *turn)
{
    return turn->store;
}

const struct err *turn_failure(const struct turn *turn)
{
    return turn->failed ? &turn->failure : NULL;
}

struct core_time turn_time(void)
{
    return (struct core_time){.now_ms = clock_utc_ms(), .mono_ms = clock_boot_ms()};
}

void turn_poke(struct turn *turn)
{
    int64_t now = clock_boot_ms();
    if (!turn->poked) {
        turn->poked = true;
        turn->poked_ms = now;
        event_active(turn->quiet, EV_TIMEOUT, 0);
    } else if (now - turn->poked_ms >= TURN_DELAY_MAX_MS) {
        event_active(turn->urgent, EV_TIMEOUT, 0);
    }
}

void turn_after(struct turn *turn, void (*fn)(void *ctx, const struct err *failure), void *ctx)
{
    turn->waiters = mem_one_more(turn->waiters, turn->n_waiters, &turn->room, sizeof(*turn->waiters));
    turn->waiters[turn->n_waiters++] = (struct waiter){fn, ctx};
    turn_poke(turn);
}

void turn_on_commit(struct turn *turn, void (*fn)(void *ctx, const struct core_changes *changes), void *ctx)
{
    if (turn->n_hooks == TURN_HOOKS_MAX)
        abort(); /* a programming error: raise TURN_HOOKS_MAX */
    turn->hooks[turn->n_hooks++] = (struct hook){fn, ctx};
}

/* ---- lazy progress ---- */

static void lazy_add(struct turn *turn, int64_t id)
{
    for (size_t i = turn->n_lazy; i > 0 && i + 64 > turn->n_lazy;
         i--) { /* doubles are harmless, just not many */
        if (turn->lazy[i - 1] == id)
            return;
    }
    if (turn->n_lazy == 0)
        turn->lazy_due_ms = clock_boot_ms() + LAZY_WRITE_MS;
    turn->lazy = mem_one_more(turn->lazy, turn->n_lazy, &turn->lazy_room, sizeof(*turn->lazy));
    turn->lazy[turn->n_lazy++] = id;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* What one transaction writes: the core's changes, less the progress that is put off, plus the progress that is due. */
struct writing {
    struct core_changes changes;
    const struct job_record **jobs;
    const struct attempt_record **attempts;
};

static void writing_job(struct writing *w, const struct job_record *job)
{
    w->jobs[w->changes.n_jobs++] = job;
}

/* Each lazy job once, with its newest attempt (whose newest step counts towards the replay after a restart). */
static void lazy_take(struct turn *turn, struct writing *w)
{
    qsort(turn->lazy, turn->n_lazy, sizeof(*turn->lazy), by_id);
    for (size_t i = 0; i < turn->n_lazy; i++) {
        const struct job_record *job = core_job(turn->core, turn->lazy[i]);
        const struct attempt_record *attempt = job ? core_attempt(turn->core, job->id, 0) : NULL;
        if (!job || (i > 0 && turn->lazy[i] == turn->lazy[i - 1]))
            continue;
        writing_job(w, job);
        if (attempt)
            w->attempts[w->changes.n_attempts++] = attempt;
    }
    turn->n_lazy = 0;
}

/* ---- one turn ---- */

static void take_changes(struct turn *turn, const struct core_changes *changes, struct writing *w)
{
    for (size_t i = 0; i < changes->n_jobs; i++) {
        if (changes->jobs_progress_only && changes->jobs_progress_only[i])
            lazy_add(turn, changes->jobs[i]->id);
        else
            writing_job(w, changes->jobs[i]);
    }
    for (size_t i = 0; i < changes->n_attempts; i++)
        w->attempts[i] = changes->attempts[i];
    if (turn->n_lazy > 0 && clock_boot_ms() >= turn->lazy_due_ms)
        lazy_take(turn, w);
}

static int commit(struct turn *turn, const struct core_changes *changes)
{
    struct writing w = {.changes = *changes};
    w.jobs = mem_zero(changes->n_jobs * 2 + turn->n_lazy + 1, sizeof(void *));
    w.attempts = mem_zero(changes->n_attempts + changes->n_jobs + turn->n_lazy + 1, sizeof(void *));
    w.changes.jobs = w.jobs;
    w.changes.attempts = w.attempts;
    w.changes.n_jobs = 0;
    take_changes(turn, changes, &w);
    int rc = store_commit(turn->store, &w.changes, &turn->failure);
    free(w.jobs);
    free(w.attempts);
    return rc;
}

/* Sets the timer for what the core or the lazy progress waits for. */
static void set_timer(struct turn *turn)
{
    int64_t due = core_next_wakeup(turn->core), now = clock_boot_ms();
    if (turn->n_lazy > 0 && turn->lazy_due_ms < due)
        due = turn->lazy_due_ms;
    if (due == INT64_MAX) {
        event_del(turn->timer);
        return;
    }
    int64_t wait = due > now ? due - now : 0;
    struct timeval tv = {.tv_sec = (time_t)(wait / 1000), .tv_usec = (suseconds_t)(wait % 1000 * 1000)};
    event_add(turn->timer, &tv);
}

/* Callbacks may ask for another turn: those wait for the next one. */
static void tell_waiters(struct turn *turn, const struct err *failure)
{
    struct waiter *waiters = turn->waiters;
    size_t n = turn->n_waiters;
    turn->waiters = NULL;
    turn->n_waiters = turn->room = 0;
    for (size_t i = 0; i < n; i++)
        waiters[i].fn(waiters[i].ctx, failure);
    free(waiters);
}

static void fail(struct turn *turn)
{
    turn->failed = true;
    err_prefix(&turn->failure,
               "this may not have been kept, so belayd stops rather than go on without its disk");
    log_error("%s; make room or repair the disk, then start belayd again", turn->failure.text);
    tell_waiters(turn, &turn->failure);
    turn->on_failure(turn->on_failure_ctx, &turn->failure);
}

void turn_run(struct turn *turn)
{
    turn->poked = false;
    if (turn->failed) {
        tell_waiters(turn, &turn->failure);
        return;
    }
    core_turn(turn->core, turn_time());
    const struct core_changes *changes = core_changes(turn->core);
    if (commit(turn, changes) != 0) {
        fail(turn);
        return;
    }
    for (size_t i = 0; i < turn->n_hooks; i++)
        turn->hooks[i].fn(turn->hooks[i].ctx, changes);
    core_changes_clear(turn->core);
    tell_waiters(turn, NULL);
    set_timer(turn);
}
