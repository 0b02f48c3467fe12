/* queue: streams as queues of steps.
 *
 * Whatever is given to a stream (a kernel, a copy, a message of NCCL) is a step at the end of its queue. The first step of a queue runs when
 * what it waits for in other queues (events) has been done. When that happens is chosen by EMU_STREAMS:
 *
 * - eager (default): as soon as it can, mostly in the call that enqueues it;
 * - lazy: when somebody waits for a stream or asks about one, and then one queue after another in an order drawn from EMU_SEED, sometimes one
 *   far ahead of the others. Work that is ordered by chance on a GPU goes wrong here. */
#ifndef BELAY_TESTS_EMU_QUEUE_H
#define BELAY_TESTS_EMU_QUEUE_H

#include <stdint.h>

#include <functional>

#include <cuda_runtime.h>

namespace emu
{
/* Does a piece of work; false: it cannot be done yet, because a peer has not come, and is to be asked again. A graph that was captured runs copies
 * of the step, so what it remembers between two questions belongs into the function object. */
typedef std::function<bool()> step;

/* what: for messages; kept as a pointer. */
void enqueue(cudaStream_t stream, step work, const char *what = "a library's work");

/* Lets queues move without waiting: for a library whose peers are polled by the host. */
void pump();
} // namespace emu

/* For tests: "eager" or "lazy"; everything enqueued before is done first. */
extern "C" void emu_streams(const char *mode, uint64_t seed);

#endif
