/* block: the threads of the block that runs. */
#ifndef BELAY_TESTS_EMU_BLOCK_H
#define BELAY_TESTS_EMU_BLOCK_H

#include <functional>

#include <emu_device.h>

#include "tests/emu/fiber.h"
#include "tests/emu/machine.h"
#include "tests/emu/order.h"

namespace emu
{
enum state { READY, AT_BARRIER, IN_WARP, FOR_EVENT, DONE };

struct thread : Cur {
    int number;
    state is;
    fiber *on; /* NULL before it has begun */
    /* where it waits, for messages */
    const char *file;
    int line;
    /* FOR_EVENT */
    bool (*event)(void *);
    void *event_of;
    const char *event_name;
};

extern thread threads[MOST_THREADS];
extern int thread_count, living; /* of the block; not yet done */

inline thread &me()
{
    return *static_cast<thread *>(cur);
}

/* Runs work in each thread of a block; the shape of grid and block stands in B. */
void run_block(const std::function<void()> &work);
/* The running thread, whose state says for what, waits: others run until it has been woken and its turn has come. */
void wait(const char *file, int line);
void wake(thread &t);

/* ---- barriers and warps (meet.cpp) ---- */

void meet_begin(); /* of a block */
/* The running thread is done; nobody waits for it. */
void meet_thread_end();

/* ---- copies.cpp, shared.cpp ---- */

void copies_begin();
void copies_thread_end();
void shared_begin();
void shared_end();
/* Do these bytes lie in one array of the block's shared memory? */
bool is_shared(const void *p, size_t bytes);
} // namespace emu

#endif
