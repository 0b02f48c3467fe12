/* recorder: which of the last calls of a channel the device has done. An event behind each call tells; calls of one stream end in their order. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/cuda/device.h"
#include "runtime/comm/nccl/channel.h"

static struct record *record_of(struct channel *c, uint64_t number)
{
    return &c->recorder.last[number % RECORDS];
}

static void describe(struct record *r, const struct comm_batch *batch)
{
    r->what = batch->what;
    r->tag = batch->tag;
    r->peer = batch->messages[0].peer;
    r->out = r->in = 0;
    for (size_t i = 0; i < batch->n; i++) {
        const struct comm_message *m = &batch->messages[i];
        *(m->out ? &r->out : &r->in) += m->bytes;
        r->peer = m->peer == r->peer ? r->peer : -1;
    }
}

void recorder_add(struct channel *c, const struct comm_batch *batch)
{
    struct recorder *q = &c->recorder;
    struct record *r = record_of(c, ++q->calls);
    if (!r->event)
        CHECK(cudaEventCreateWithFlags(&r->event, cudaEventDisableTiming));
    describe(r, batch);
    r->number = q->calls;
    r->at = clock_monotonic_s();
    r->done = false;
    CHECK(cudaEventRecord(r->event, lane_stream(c->lane)));
}

bool recorder_look(struct channel *c)
{
    struct recorder *q = &c->recorder;
    uint64_t before = q->done;
    if (q->done + RECORDS < q->calls)
        q->done = q->calls - RECORDS; /* the record has forgotten them; their successors tell */
    while (q->done < q->calls && cudaEventQuery(record_of(c, q->done + 1)->event) == cudaSuccess)
        record_of(c, ++q->done)->done = true;
    (void)cudaGetLastError(); /* "not ready" is left there; real errors show where the host waits */
    return q->done > before;
}

const struct record *recorder_oldest(const struct channel *c)
{
    const struct recorder *q = &c->recorder;
    return q->done < q->calls ? &q->last[(q->done + 1) % RECORDS] : NULL;
}

static void write_record(const struct channel *c, const struct record *r, double now)
{
    char peer[32] = "several ranks";
    if (r->peer >= 0)
        (void)snprintf(peer, sizeof peer, "rank %d", r->peer);
    device_say("%s: call %llu, %s, %zu bytes out, %zu in, with %s, tag %d, enqueued %.3f s ago: %s", c->name,
               (unsigned long long)r->number, r->what, r->out, r->in, peer, r->tag, now - r->at,
               r->done ? "done" : "NOT DONE");
}

static const char *state_of(const struct channel *c)
{
    if (c->state == CHANNEL_ASKS)
        return "waits for the id that another rank makes";
    if (c->state == CHANNEL_STARTS)
        return "waits for the other ranks to join";
    if (c->state == CHANNEL_LEAVES)
        return "waits for the other ranks to leave";
    if (!c->first)
        return "ready";
    return c->first->state == BATCH_STARTED ? "waits for a call to be launched" : "has calls that wait";
}

void recorder_write(const struct channel *c)
{
    const struct recorder *q = &c->recorder;
    uint64_t from = q->calls > RECORDS ? q->calls - RECORDS : 0;
    double now = clock_monotonic_s();
    device_say("%s: rank %d of %d; %llu calls, %llu done; %s", c->name, c->rank, c->size,
               (unsigned long long)q->calls, (unsigned long long)q->done, state_of(c));
    for (uint64_t n = from + 1; n <= q->calls; n++)
        write_record(c, &q->last[n % RECORDS], now);
}

void recorder_free(struct channel *c)
{
    for (int i = 0; i < RECORDS; i++)
        if (c->recorder.last[i].event)
            CHECK(cudaEventDestroy(c->recorder.last[i].event));
    memset(&c->recorder, 0, sizeof c->recorder);
}
