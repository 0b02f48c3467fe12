/* queue: see queue.h.
 *
 * A stream counts the steps it was given and those it has done, so a place in it is a number: an event is the place where it was recorded, and
 * waiting for an event makes the next step wait for that place. Places always lie in the past, so queues cannot wait for each other in
 * a circle; only a peer of another process can keep one from moving. */
#include "tests/emu/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/emu/guard.h"
#include "tests/emu/streams.h"

#define WAIT_LIMIT_S 600 /* of a call that waits: then it says who waits for what */

namespace emu
{
std::recursive_mutex stream_lock;
static std::vector<CUstream_st *> *streams;
static bool lazy, running;
static uint64_t random_state;

static uint32_t draw()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 20);
}

size_t choose(size_t n)
{
    return lazy ? draw() % n : 0;
}

static void set_mode(const char *mode, uint64_t seed)
{
    if (strcmp(mode, "eager") != 0 && strcmp(mode, "lazy") != 0)
        die("EMU_STREAMS is neither eager nor lazy", mode, 0);
    lazy = strcmp(mode, "lazy") == 0;
    random_state = (seed + 1) * 0x9E3779B97F4A7C15u | 1;
}

std::vector<CUstream_st *> &all_streams()
{
    if (!streams) {
        const char *mode = getenv("EMU_STREAMS"), *seed = getenv("EMU_SEED");
        set_mode(mode ? mode : "eager", seed ? strtoull(seed, NULL, 10) : 1);
        streams = new std::vector<CUstream_st *>(1, new CUstream_st);
    }
    return *streams;
}

CUstream_st *find_stream(cudaStream_t stream)
{
    if (!stream)
        return all_streams()[0];
    for (CUstream_st *s : all_streams())
        if (s == stream && !s->destroyed)
            return s;
    return NULL;
}

static bool reached(const position &p)
{
    return !p.stream || p.stream->done >= p.count;
}

static CUstream_st *checked(cudaStream_t stream)
{
    CUstream_st *s = find_stream(stream);
    if (!s)
        die("work for a stream that is none (any more)", "", 0);
    return s;
}

position end_of(cudaStream_t stream)
{
    locked lock(stream_lock);
    CUstream_st *s = checked(stream);
    return {s, s->given};
}

void stream_waits(cudaStream_t stream, const position &p)
{
    locked lock(stream_lock);
    CUstream_st *s = checked(stream);
    if (p.stream != s && !reached(p))
        s->next_after.push_back(p);
}

/* ---- moving ---- */

enum outcome { RAN, EMPTY, WAITS_FOR_QUEUE, WAITS_FOR_PEER };

static const position *awaited(const queued &first)
{
    for (const position &p : first.after)
        if (!reached(p))
            return &p;
    return NULL;
}

static outcome move(CUstream_st *s)
{
    if (s->steps.empty())
        return EMPTY;
    queued &first = s->steps.front();
    if (awaited(first))
        return WAITS_FOR_QUEUE;
    bool over;
    {
        device_at_work now;
        running = true;
        over = first.work();
        running = false;
    }
    if (!over)
        return WAITS_FOR_PEER;
    s->steps.pop_front();
    s->done++;
    return RAN;
}

/* Moves one queue by one step, that of the highest priority which can. */
static outcome move_one()
{
    std::vector<CUstream_st *> order;
    for (CUstream_st *s : all_streams())
        if (!s->steps.empty())
            order.push_back(s);
    outcome most = EMPTY;
    while (!order.empty()) {
        size_t best = 0;
        for (size_t i = 1; i < order.size(); i++)
            if (order[i]->priority > order[best]->priority)
                best = i;
        outcome o = move(order[best]);
        if (o == RAN)
            return RAN;
        most = o > most ? o : most;
        order.erase(order.begin() + (ptrdiff_t)best);
    }
    return most;
}

static void draw_priorities()
{
    for (CUstream_st *s : all_streams())
        s->priority = lazy ? draw() : 0;
}

static void move_all()
{
    while (move_one() == RAN)
        ;
}

/* Lazy queues move only now and then, and by any number of steps. */
static void move_some()
{
    if (draw() % 2)
        return;
    draw_priorities();
    while (move_one() == RAN && draw() % 64)
        ;
}

void pump()
{
    locked lock(stream_lock);
    if (running)
        return;
    if (lazy)
        move_some();
    else
        move_all();
}

void enqueue(cudaStream_t stream, step work, const char *what)
{
    locked lock(stream_lock);
    CUstream_st *s = checked(stream), *legacy = all_streams()[0];
    if (s->recording)
        return record(s, std::move(work), what);
    queued q = {std::move(work), what, std::move(s->next_after)};
    s->next_after.clear();
    /* the legacy default stream and the blocking ones wait for each other */
    if (s != legacy && s->blocking && legacy->given > legacy->done)
        q.after.push_back({legacy, legacy->given});
    for (CUstream_st *other : all_streams())
        if (s == legacy && other != legacy && other->blocking && other->given > other->done)
            q.after.push_back({other, other->given});
    s->steps.push_back(std::move(q));
    s->given++;
    if (!lazy)
        pump();
}

/* ---- waiting ---- */

static void tell_queues()
{
    for (CUstream_st *s : all_streams()) {
        if (s->steps.empty())
            continue;
        const position *p = awaited(s->steps.front());
        fprintf(stderr, "  stream %d has %zu steps to do; the first (%s) ", s->number, s->steps.size(),
                s->steps.front().what);
        if (p)
            fprintf(stderr, "waits for step %llu of stream %d, which has done %llu\n",
                    (unsigned long long)p->count, p->stream->number, (unsigned long long)p->stream->done);
        else
            fprintf(stderr, "waits for a peer\n");
    }
}

static double seconds()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void nap()
{
    struct timespec pause = {0, 20000};
    nanosleep(&pause, NULL);
}

/* One step towards p; what kept it from that otherwise. */
static outcome approach(const position &p)
{
    locked lock(stream_lock);
    if (running)
        die("a step of a stream waits for a stream", "", 0);
    if (reached(p))
        return EMPTY;
    if (lazy && draw() % 16 == 0)
        draw_priorities();
    outcome o = move_one();
    if (o == EMPTY || o == WAITS_FOR_QUEUE) {
        tell_queues();
        die("streams wait for each other", "", 0);
    }
    return o;
}

static void wait_for_ever(double since)
{
    if (seconds() - since < WAIT_LIMIT_S)
        return nap();
    tell_queues();
    die("a stream has not moved for too long", "", 0);
}

void wait_for(const position &p)
{
    double since = 0;
    {
        locked lock(stream_lock);
        draw_priorities();
    }
    for (outcome o; (o = approach(p)) != EMPTY;)
        if (o == RAN)
            since = 0;
        else if (since > 0)
            wait_for_ever(since);
        else
            since = seconds();
}

void wait_for_all()
{
    std::vector<position> ends;
    {
        locked lock(stream_lock);
        for (CUstream_st *s : all_streams())
            ends.push_back({s, s->given});
    }
    for (const position &p : ends)
        wait_for(p);
}

void wait_for_stream(cudaStream_t stream)
{
    wait_for(end_of(stream));
}

bool ask(const position &p)
{
    locked lock(stream_lock);
    if (!reached(p))
        pump();
    return reached(p);
}
} // namespace emu

extern "C" void emu_streams(const char *mode, uint64_t seed)
{
    emu::wait_for_all();
    emu::set_mode(mode, seed);
}
