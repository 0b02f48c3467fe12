/* task: see task.h. Signals are for the main thread, so all are blocked in the task's. */
#include "runtime/task.h"

#include <signal.h>

static void *run(void *arg)
{
    struct task *task = arg;
    task->work(task->owner);
    atomic_store(&task->done, true);
    return NULL;
}

void task_start(struct task *task, void (*work)(void *owner), void *owner)
{
    sigset_t all, before;
    task->work = work;
    task->owner = owner;
    atomic_store(&task->done, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it */
    task->running = pthread_create(&task->thread, NULL, run, task) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!task->running)
        (void)run(task); /* slower, and as good */
}

bool task_done(struct task *task)
{
    return !task->running || atomic_load(&task->done);
}

void task_join(struct task *task)
{
    if (task->running)
        pthread_join(task->thread, NULL);
    task->running = false;
}
