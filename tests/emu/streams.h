/* streams: what a stream, an event and a capture are, for queue.cpp, streams.cpp, events.cpp and capture.cpp. All of it is under one lock. */
#ifndef BELAY_TESTS_EMU_STREAMS_H
#define BELAY_TESTS_EMU_STREAMS_H

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/emu/machine.h"

namespace emu
{
/* Reached when the stream has done so many steps; NULL: always. */
struct position {
    CUstream_st *stream;
    uint64_t count;
};

struct queued {
    step work;
    const char *what;
    std::vector<position> after;
};

/* A step of a graph; after: the nodes it waits for, all of lower numbers. */
struct node {
    step work;
    const char *what;
    std::vector<size_t> after;
};

/* Work that streams are given meanwhile becomes nodes. */
struct capture {
    CUstream_st *origin;
    int mode; /* cudaStreamCaptureMode */
    size_t thread;
    bool invalid;
    std::vector<node> nodes;
    std::vector<CUstream_st *> streams; /* that have joined, the origin first */
};

extern std::recursive_mutex stream_lock;
typedef std::lock_guard<std::recursive_mutex> locked;

/* ---- queue.cpp ---- */

/* The legacy default stream first; destroyed ones stay: places name them. */
std::vector<CUstream_st *> &all_streams();
/* NULL when it is none (any more). */
CUstream_st *find_stream(cudaStream_t stream);
/* Behind all that the stream has been given. */
position end_of(cudaStream_t stream);
/* What is enqueued from now on waits for it. */
void stream_waits(cudaStream_t stream, const position &p);
/* Runs queues until it is reached. */
void wait_for(const position &p);
/* Reached? Queues may move. */
bool ask(const position &p);
/* When lazy: a number below n by the seed; else 0. */
size_t choose(size_t n);

/* ---- capture.cpp ---- */

/* Makes work a node of the stream's capture. */
void record(CUstream_st *s, step work, const char *what);
/* Makes the stream's next node wait for an event that was recorded in a capture, and the stream a part of it. */
cudaError_t join(CUstream_st *s, CUevent_st *event);
/* Is a call forbidden that waits, asks or allocates? Then the capture it would disturb becomes invalid. */
cudaError_t capture_forbids();
} // namespace emu

struct CUstream_st {
    int number = 0;
    bool blocking = true; /* ordered with the legacy default stream */
    bool destroyed = false;
    std::deque<emu::queued> steps;
    std::vector<emu::position> next_after; /* what the next step waits for */
    uint64_t given = 0, done = 0;
    uint32_t priority = 0; /* when lazy: which queue moves first */
    std::shared_ptr<emu::capture> recording;
    std::vector<size_t> tail; /* while capturing: the nodes that its next node waits for */
};

struct CUevent_st {
    bool timed;
    emu::position at = {NULL, 0}; /* reached from the start: nothing recorded yet */
    std::shared_ptr<double> ms = std::make_shared<double>(); /* when; a new one for each record */
    std::shared_ptr<emu::capture> recording;                 /* recorded last in a capture, behind these */
    std::vector<size_t> tail;
};

#endif
