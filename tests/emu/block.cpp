/* block: see block.h.
 *
 * Threads run on workers, which are fibers with a stack. A thread that has to wait leaves its worker to itself and goes to whoever is next: to the worker
 * of a thread that has waited, or, for one that has not begun, to an idle worker. A worker whose thread has ended begins the next on the same stack, so
 * a kernel in which nobody waits runs on one worker and never switches. The host's stack runs again when nobody can. */
#include "tests/emu/block.h"

#include <stdio.h>
#include <string.h>

#include <vector>

namespace emu
{
Cur *cur;
Blk B;
thread threads[MOST_THREADS];
int thread_count, living;

static thread_set ready;
static int waiting_for_events;
static bool stirred; /* something has changed that events may have waited for */
static const std::function<void()> *body;
static std::vector<fiber *> *idle = new std::vector<fiber *>;

void wake(thread &t)
{
    t.is = READY;
    ready.add(t.number);
}

/* ---- events ---- */

static void wake_for_events()
{
    stirred = false;
    for (int i = 0; i < thread_count && waiting_for_events > 0; i++)
        if (threads[i].is == FOR_EVENT && threads[i].event(threads[i].event_of)) {
            waiting_for_events--;
            wake(threads[i]);
        }
}

void changed()
{
    stirred = true;
}

void wait_until(bool (*event)(void *), void *of, const char *name, const char *file, int line)
{
    thread &t = me();
    if (event(of))
        return;
    t.event = event;
    t.event_of = of;
    t.event_name = name;
    t.is = FOR_EVENT;
    waiting_for_events++;
    wait(file, line);
}

/* ---- who runs ---- */

/* The next thread; NULL when none can run, whatever the engine does. */
static thread *next_thread()
{
    if (stirred || ready.count == 0 || (current_order() == RANDOM && engine_step(64)))
        wake_for_events();
    while (ready.count == 0 && living > 0 && engine_step(1))
        wake_for_events();
    return ready.count > 0 ? &threads[take_next(&ready)] : NULL;
}

static void work();

static fiber *idle_worker()
{
    if (idle->empty())
        return fiber_new(work);
    fiber *f = idle->back();
    idle->pop_back();
    return f;
}

static void go_to(thread *t)
{
    cur = t;
    if (t && !t->on)
        t->on = idle_worker();
    fiber_switch(t ? t->on : &host);
}

static void end_thread()
{
    thread &t = me();
    copies_thread_end();
    engine_thread_end();
    t.is = DONE;
    living--;
    meet_thread_end();
}

/* A worker. Who switches to it has made the thread that is to begin the current one. */
static void work()
{
    fiber *self = fiber_running();
    for (;;) {
        (*body)();
        end_thread();
        thread *t = next_thread();
        if (t && !t->on) {
            t->on = self;
            cur = t;
        } else {
            idle->push_back(self);
            go_to(t);
        }
    }
}

void wait(const char *file, int line)
{
    thread &t = me();
    t.file = file;
    t.line = line;
    thread *next = next_thread();
    if (next != &t) /* it may have been the one that all waited for */
        go_to(next);
}

/* ---- a block ---- */

static void begin_threads()
{
    memset(&ready, 0, sizeof ready);
    waiting_for_events = 0;
    stirred = false;
    living = thread_count;
    for (int i = 0; i < thread_count; i++) {
        thread &t = threads[i];
        unsigned x = B.bdim.x, y = B.bdim.y, n = (unsigned)i;
        t.tidx = {n % x, n / x % y, n / (x * y)};
        t.number = i;
        t.lane = i % WARP_LANES;
        t.warp = i / WARP_LANES;
        t.on = NULL;
        t.file = "";
        t.line = 0;
        wake(t);
    }
}

static const char *what_for(const thread &t)
{
    return t.is == AT_BARRIER ? "__syncthreads" : t.is == FOR_EVENT ? t.event_name : "warp op";
}

static void deadlock()
{
    for (int i = 0, told = 0; i < thread_count && told < 6; i++)
        if (threads[i].is != DONE) {
            fprintf(stderr, "  thread %d waits at %s %s:%d\n", i, what_for(threads[i]), threads[i].file,
                    threads[i].line);
            told++;
        }
    die("deadlock: divergent barrier or warp collective, or an event that does not come");
}

void run_block(const std::function<void()> &kernel)
{
    body = &kernel;
    thread_count = (int)(B.bdim.x * B.bdim.y * B.bdim.z);
    order_block(thread_count);
    begin_threads();
    meet_begin();
    copies_begin();
    shared_begin();
    engine_begin();
    go_to(next_thread());
    if (living > 0)
        deadlock();
    engine_end();
    shared_end();
}
} // namespace emu
