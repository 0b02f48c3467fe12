/* machine: what the files of the emulator share among themselves. */
#ifndef BELAY_TESTS_EMU_MACHINE_H
#define BELAY_TESTS_EMU_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime.h>

#include "tests/emu/queue.h"

namespace emu
{
/* Ends the process with a sentence (and the kernel's name and thread where one is running). */
[[noreturn]] void die(const char *msg, const char *file, int line);

/* ---- threads of a block (block.cpp, order.cpp) ---- */

/* Waits until ready(of) says so; it is asked again after each changed(), and when no other thread can run. name: for the report of a deadlock. */
void wait_until(bool (*ready)(void *), void *of, const char *name, const char *file, int line);
void changed();
/* Should what may happen now or later happen now? By the schedule. */
bool at_once();
uint32_t rnd();

/* ---- what goes on beside the threads (hopper.cpp) ---- */

void engine_begin(); /* of a block */
/* Does one thing that is under way, once in so many calls; false: nothing was done. */
bool engine_step(unsigned chance);
void engine_thread_end(); /* of the running thread */
void engine_end();        /* of a block */

/* ---- errors (runtime.cpp) ---- */

/* Becomes the thread's last error unless it is success; returns it. */
cudaError_t report(cudaError_t rc);

/* ---- devices (runtime.cpp) ---- */

/* The number of the thread's device among those of the host, or -1 when there is none. */
int device_number();
size_t device_memory();
/* What a kernel may have at most after cudaFuncSetAttribute. */
size_t device_shared_limit();

/* ---- memory (memory.cpp) ---- */

/* 0xff everywhere: NaN in every floating-point type. */
void poison(void *p, size_t bytes);
/* Do these bytes lie in one piece of the device's memory? */
bool is_in_piece(const void *p, size_t bytes);

/* ---- streams ---- */

/* May something be enqueued into it (NULL: the legacy default stream)? */
cudaError_t may_enqueue(cudaStream_t stream);
/* Is it being captured? */
bool is_capturing(cudaStream_t stream);
/* May something be allocated, or waited for? Not while a capture forbids it (which becomes invalid). */
cudaError_t may_wait_for_all();
void wait_for_all();
/* Waits for what the stream has been given. */
void wait_for_stream(cudaStream_t stream);
} // namespace emu

#endif
