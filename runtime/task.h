/* task: one piece of work in a thread of its own, whose end can be asked for without waiting. The work talks to no other rank: MPI belongs to the
 * main thread. */
#ifndef BELAY_RUNTIME_TASK_H
#define BELAY_RUNTIME_TASK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct task {
    void (*work)(void *owner);
    void *owner;
    pthread_t thread;
    bool running; /* between task_start and task_join */
    atomic_bool done;
};

/* Runs work(owner) beside the caller; on a machine that gives no thread, at once. `task` must stay where it is until task_join. */
void task_start(struct task *task, void (*work)(void *owner), void *owner);
/* Has it ended, or was none started? What it wrote can then be read. */
bool task_done(struct task *task);
/* Waits for its end. Nothing to do when none runs. */
void task_join(struct task *task);

#endif
