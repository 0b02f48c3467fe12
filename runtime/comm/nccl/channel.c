/* channel: see channel.h. */
#include "runtime/comm/nccl/channel.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "kernels/cuda/device.h"

/* ---- making one ------------------------------------------------------------------------------------------------------- */

static void start(struct channel *c, const ncclUniqueId *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = c->ctas;
    config.commName = c->name;
    watch_check(c, "ncclCommInitRankConfig",
                ncclCommInitRankConfig(&c->comm, c->size, *id, c->rank, &config));
    c->state = CHANNEL_STARTS;
    c->since = clock_monotonic_s();
}

static void make_id(struct channel *c)
{
    ncclUniqueId id;
    struct err err = {""};
    watch_check(c, "ncclGetUniqueId", ncclGetUniqueId(&id));
    if (nccl.run.wire->put(c->key, &id, sizeof id, &err) != 0)
        watch_fail(c, "telling the other ranks the communicator's id", err.text);
    start(c, &id);
}

struct channel *channel_new(const struct channel *as)
{
    struct channel *c = mem_zero(1, sizeof *c), **end = &nccl.channels;
    *c = *as;
    c->last = &c->first;
    c->lane = nccl.run.memory->lane();
    c->since = clock_monotonic_s();
    while (*end)
        end = &(*end)->next;
    *end = c;
    if (c->maker == nccl.run.rank)
        make_id(c);
    else
        c->get = nccl.run.wire->get(c->maker, c->key);
    return c;
}

void channel_leave(struct channel *c)
{
    watch_check(c, "ncclCommFinalize", ncclCommFinalize(c->comm));
    c->state = CHANNEL_LEAVES;
    c->since = clock_monotonic_s();
}

void channel_free(struct channel *c)
{
    struct channel **at = &nccl.channels;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    watch_check(c, "ncclCommDestroy", ncclCommDestroy(c->comm));
    nccl.run.memory->lane_free(c->lane);
    recorder_free(c);
    free(c);
}

/* Has what the communicator was last asked for happened? */
static bool settled(const struct channel *c)
{
    ncclResult_t state;
    watch_check(c, "ncclCommGetAsyncError", ncclCommGetAsyncError(c->comm, &state));
    return watch_check(c, "the communicator", state) == ncclSuccess;
}

static bool is_ready(struct channel *c)
{
    ncclUniqueId id;
    if (c->state == CHANNEL_ASKS && nccl.run.wire->got(c->get, &id, sizeof id)) {
        c->get = NULL;
        start(c, &id);
    }
    if (c->state == CHANNEL_STARTS && settled(c)) {
        c->state = CHANNEL_READY;
        c->since = clock_monotonic_s();
    }
    if (c->state == CHANNEL_LEAVES && settled(c))
        c->state = CHANNEL_LEFT;
    return c->state == CHANNEL_READY;
}

/* ---- batches ---------------------------------------------------------------------------------------------------------- */

struct comm_batch *channel_post(struct channel *c, const struct comm_post *post, struct comm_mark *mark)
{
    struct comm_batch *batch = mem_zero(1, sizeof *batch);
    *batch =
        (struct comm_batch){.channel = c, .what = post->what, .tag = post->tag, .n = post->n, .start = mark};
    batch->messages = mem_grow(NULL, post->n, sizeof *batch->messages);
    memcpy(batch->messages, post->messages, post->n * sizeof *batch->messages);
    if (!c->first)
        c->since = clock_monotonic_s();
    *c->last = batch;
    c->last = &batch->next;
    return batch;
}

static void give(const struct comm_batch *batch)
{
    struct channel *c = batch->channel;
    cudaStream_t stream = lane_stream(c->lane);
    watch_check(c, "ncclGroupStart", ncclGroupStart());
    for (size_t i = 0; i < batch->n; i++) {
        const struct comm_message *m = &batch->messages[i];
        int peer = c->point ? 1 - c->rank : m->peer;
        if (m->out)
            watch_check(c, "ncclSend", ncclSend(m->data, m->bytes, ncclUint8, peer, c->comm, stream));
        else
            watch_check(c, "ncclRecv", ncclRecv(m->data, m->bytes, ncclUint8, peer, c->comm, stream));
    }
    watch_check(c, "ncclGroupEnd", ncclGroupEnd());
}

/* Launched: the stream has the messages, and what is put behind them now comes after them. */
static void launched(struct comm_batch *batch)
{
    struct channel *c = batch->channel;
    recorder_add(c, batch);
    if (c->point)
        batch->end = nccl.run.memory->mark(c->lane);
    batch->state = BATCH_LAUNCHED;
    c->first = batch->next;
    if (!c->first)
        c->last = &c->first;
    c->since = clock_monotonic_s();
}

void channel_move(struct channel *c)
{
    struct comm_batch *batch;
    while (is_ready(c) && (batch = c->first)) {
        if (batch->state == BATCH_WAITS) {
            if (batch->start) {
                nccl.run.memory->after(c->lane, batch->start);
                nccl.run.memory->drop(batch->start);
                batch->start = NULL;
            }
            give(batch);
            batch->state = BATCH_STARTED;
        }
        if (!settled(c))
            return;
        launched(batch);
    }
}

bool channel_idle(const struct channel *c)
{
    return c->state == CHANNEL_READY && !c->first;
}

bool channel_left(const struct channel *c)
{
    return c->state == CHANNEL_LEFT;
}

void channel_await(struct channel *c, bool (*reached)(const struct channel *c))
{
    for (channel_move(c); !reached(c); channel_move(c)) {
        watch(false);
        sched_yield();
    }
}
