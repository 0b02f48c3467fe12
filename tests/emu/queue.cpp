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

#include <deque>
#include <mutex>
#include <vector>

#include "tests/emu/machine.h"

#define WAIT_LIMIT_S 600 /* of a call that waits: then it says who waits for what */

struct queued {
    emu::step work;
    const char *what;
    std::vector<emu::position> after;
};

struct CUstream_st {
    int number = 0;
    bool blocking = true; /* ordered with the legacy default stream */
    bool destroyed = false;
    std::deque<queued> steps;
    std::vector<emu::position> next_after; /* what the next step waits for */
    uint64_t given = 0, done = 0;
    uint32_t priority = 0; /* when lazy: which queue moves first */
};

namespace emu
{
static std::recursive_mutex guard;
static std::vector<CUstream_st *>
    *streams; /* the legacy default stream first; kept for ever: places name them */
static bool lazy, running;
static uint64_t random_state;

static uint32_t draw()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 20);
}

static void set_mode(const char *mode, uint64_t seed)
{
    if (strcmp(mode, "eager") != 0 && strcmp(mode, "lazy") != 0)
        die("EMU_STREAMS is neither eager nor lazy", mode, 0);
    lazy = strcmp(mode, "lazy") == 0;
    random_state = (seed + 1) * 0x9E3779B97F4A7C15u | 1;
}

static std::vector<CUstream_st *> &all()
{
    if (!streams) {
        const char *mode = getenv("EMU_STREAMS"), *seed = getenv("EMU_SEED");
        set_mode(mode ? mode : "eager", seed ? strtoull(seed, NULL, 10) : 1);
        streams = new std::vector<CUstream_st *>(1, new CUstream_st);
    }
    return *streams;
}

static CUstream_st *find(cudaStream_t stream)
{
    if (!stream)
        return all()[0];
    for (CUstream_st *s : all())
        if (s == stream && !s->destroyed)
            return s;
    return NULL;
}

bool is_stream(cudaStream_t stream)
{
    std::lock_guard<std::recursive_mutex> lock(guard);
    return find(stream) != NULL;
}

bool reached(const position &p)
{
    return !p.stream || p.stream->done >= p.count;
}

static CUstream_st *checked(cudaStream_t stream)
{
    CUstream_st *s = find(stream);
    if (!s)
        die("work for a stream that is none (any more)", "", 0);
    return s;
}

position end_of(cudaStream_t stream)
{
    std::lock_guard<std::recursive_mutex> lock(guard);
    CUstream_st *s = checked(stream);
    return {s, s->given};
}

void stream_waits(cudaStream_t stream, const position &p)
{
    std::lock_guard<std::recursive_mutex> lock(guard);
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
    running = true;
    bool over = first.work();
    running = false;
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
    for (CUstream_st *s : all())
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
    for (CUstream_st *s : all())
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
    std::lock_guard<std::recursive_mutex> lock(guard);
    if (running)
        return;
    if (lazy)
        move_some();
    else
        move_all();
}

void enqueue(cudaStream_t stream, step work, const char *what)
{
    std::lock_guard<std::recursive_mutex> lock(guard);
    CUstream_st *s = checked(stream), *legacy = all()[0];
    queued q = {std::move(work), what, std::move(s->next_after)};
    s->next_after.clear();
    /* the legacy default stream and the blocking ones wait for each other */
    if (s != legacy && s->blocking && legacy->given > legacy->done)
        q.after.push_back({legacy, legacy->given});
    for (CUstream_st *other : all())
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
    for (CUstream_st *s : all()) {
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
    std::lock_guard<std::recursive_mutex> lock(guard);
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
        std::lock_guard<std::recursive_mutex> lock(guard);
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
        std::lock_guard<std::recursive_mutex> lock(guard);
        for (CUstream_st *s : all())
            ends.push_back({s, s->given});
    }
    for (const position &p : ends)
        wait_for(p);
}

bool ask(const position &p)
{
    std::lock_guard<std::recursive_mutex> lock(guard);
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

/* ---- CUDA's functions of streams ---- */

using namespace emu;

extern "C" {
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    std::lock_guard<std::recursive_mutex> lock(guard);
    if (device_number() < 0)
        return report(cudaErrorNoDevice);
    if (flags & ~(unsigned)cudaStreamNonBlocking)
        return report(cudaErrorInvalidValue);
    CUstream_st *s = new CUstream_st;
    s->number = (int)all().size();
    s->blocking = !(flags & cudaStreamNonBlocking);
    all().push_back(s);
    *stream = s;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* What it was given is still done. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    std::lock_guard<std::recursive_mutex> lock(guard);
    if (!stream || !find(stream))
        return report(cudaErrorInvalidResourceHandle);
    stream->destroyed = true;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (!is_stream(stream))
        return report(cudaErrorInvalidResourceHandle);
    return report(ask(end_of(stream)) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (!is_stream(stream))
        return report(cudaErrorInvalidResourceHandle);
    wait_for(end_of(stream));
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    if (device_number() < 0)
        return report(cudaErrorNoDevice);
    wait_for_all();
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t work, void *owner)
{
    if (!is_stream(stream) || !work)
        return report(cudaErrorInvalidValue);
    enqueue(
        stream,
        [=] {
            work(owner);
            return true;
        },
        "a function of the host");
    return cudaSuccess;
}
}
