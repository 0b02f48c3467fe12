/* watch: what can go wrong with other ranks, and what is said then.
 *
 * NCCL's kernels wait for their peers for ever. So while the host waits, for the device or for other ranks, it looks at all communicators: an error of one, a peer
 * that does not join, or no call done for BELAY_COMM_TIMEOUT seconds while one is open, end the process. Before it ends, the record of all
 * communicators is written, and they are aborted so that their kernels leave the device. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "kernels/cuda/device.h"
#include "runtime/comm/nccl/channel.h"

#define LOOK_S  0.001 /* between two looks */
#define ABORT_S 10    /* that aborting may take */

struct nccl_run nccl;

static volatile sig_atomic_t record_asked;

static void on_signal(int sig)
{
    (void)sig;
    record_asked = 1;
}

void watch_open(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGUSR2, &act, NULL);
    device_watch(watch);
}

void watch_close(void)
{
    device_watch(NULL);
    (void)signal(SIGUSR2, SIG_DFL);
}

/* ---- the end ---------------------------------------------------------------------------------------------------------- */

static void write_all(void)
{
    for (const struct channel *c = nccl.channels; c; c = c->next)
        recorder_write(c);
}

static void *abort_one(void *comm)
{
    (void)ncclCommAbort(comm);
    return NULL;
}

/* Each in a thread of its own: it may not come back, and memory is freed by it, which waits for the kernels of all others to leave the device. */
static void abort_in_time(void)
{
    size_t n = 0, started = 0;
    for (const struct channel *c = nccl.channels; c; c = c->next)
        n += c->comm != NULL;
    pthread_t *threads = mem_grow(NULL, n + 1, sizeof *threads);
    for (const struct channel *c = nccl.channels; c; c = c->next)
        if (c->comm && pthread_create(&threads[started], NULL, abort_one, c->comm) == 0)
            started++;
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ABORT_S;
    size_t joined = 0;
    while (joined < started && pthread_timedjoin_np(threads[joined], NULL, &end) == 0)
        joined++;
    if (joined < started)
        device_say("NCCL's communicators could not be aborted within %d s", ABORT_S);
    free(threads);
}

_Noreturn void watch_fail(const struct channel *c, const char *call, const char *reason)
{
    static bool failing;
    char text[1024], where[160];
    if (failing)
        _exit(1);
    failing = true;
    for (struct channel *each = nccl.channels; each; each = each->next)
        (void)recorder_look(each);
    write_all();
    abort_in_time();
    const struct record *open = recorder_oldest(c);
    (void)snprintf(where, sizeof where, "%s of group %s", call, c->name);
    if (open)
        (void)snprintf(
            text, sizeof text,
            "%s; its call %llu (%s, %zu bytes out, %zu in) has not ended since %.0f s, the lines above tell "
            "of the others",
            reason, (unsigned long long)open->number, open->what, open->out, open->in,
            clock_monotonic_s() - open->at);
    else
        (void)snprintf(text, sizeof text, "%s; none of its calls is open, the lines above tell of the others",
                       reason);
    device_fail(where, text);
}

ncclResult_t watch_check(const struct channel *c, const char *call, ncclResult_t rc)
{
    char reason[512];
    if (rc == ncclSuccess || rc == ncclInProgress)
        return rc;
    (void)snprintf(reason, sizeof reason, "%s (%s)", ncclGetErrorString(rc), ncclGetLastError(c->comm));
    watch_fail(c, call, reason);
}

/* ---- looking ---------------------------------------------------------------------------------------------------------- */

static void check_error(const struct channel *c)
{
    ncclResult_t state = ncclSuccess;
    if (c->state != CHANNEL_READY)
        return;
    watch_check(c, "ncclCommGetAsyncError", ncclCommGetAsyncError(c->comm, &state));
    watch_check(c, "a call", state);
}

/* Does the channel wait for another rank before it can give the device anything? */
static bool waits(const struct channel *c)
{
    return (c->state != CHANNEL_READY && c->state != CHANNEL_LEFT) || c->first;
}

/* The channel that has waited longest; NULL when none waits. since: from when on. */
static const struct channel *slowest(double *since)
{
    const struct channel *found = NULL;
    for (const struct channel *c = nccl.channels; c; c = c->next) {
        const struct record *open = recorder_oldest(c);
        double from = waits(c) ? c->since : open ? open->at : 0;
        if (from > 0 && (!found || from < *since)) {
            found = c;
            *since = from;
        }
    }
    return found;
}

static void check_time(double now, bool late)
{
    double since = now, limit = device_patience_s();
    char reason[160];
    const struct channel *c = slowest(&since);
    if (!c)
        return;
    since = waits(c) || since > nccl.moved ? since : nccl.moved;
    if (!late && now - since < limit)
        return;
    (void)snprintf(reason, sizeof reason, "no other rank has moved it within %.0f s (BELAY_COMM_TIMEOUT)",
                   limit);
    watch_fail(c, waits(c) ? "waiting for the other ranks" : "waiting for the end of a call", reason);
}

void watch(bool late)
{
    double now = clock_monotonic_s();
    if (now - nccl.looked < LOOK_S && !late && !record_asked)
        return;
    nccl.looked = now;
    for (struct channel *c = nccl.channels; c; c = c->next) {
        if (c->point)
            channel_move(c);
        if (recorder_look(c))
            nccl.moved = now;
        check_error(c);
    }
    if (record_asked) {
        record_asked = 0;
        write_all();
    }
    check_time(now, late);
}
