/* device: the one GPU of this process, as the host functions of the backend use it: streams, waiting, errors, memory. */
#ifndef BELAY_KERNELS_CUDA_DEVICE_H
#define BELAY_KERNELS_CUDA_DEVICE_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "kernels/cuda/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The process's compute stream; every kernel of the table goes there. */
cudaStream_t device_stream(void);
/* For copies beside the computing. */
cudaStream_t device_copy_stream(void);
const struct cuda_device *device_properties(void);
/* Blocks that are enough to keep every SM busy with a kernel that loops over its work: a multiple of the number of SMs. */
int device_blocks(void);

/* Ends the process with "rank R: CALL failed: REASON, while WHAT" when rc is not success. */
#define CHECK(call) device_check((call), #call)
void device_check(cudaError_t rc, const char *call);
/* The same for another library's error, already in words. Does not return. */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void device_fail(const char *call, const char *reason);
/* What later errors say is being done: a constant format with one %lld. */
void device_doing(const char *what, int64_t number);

/* Waits until the stream has done what it was given; ends the process after the time limit or when a watcher finds an error. */
void device_wait(cudaStream_t stream);
/* Called again and again by device_wait: what else can go wrong meanwhile (communicators). `late`: the limit has passed; does not return then. */
void device_watch(void (*watcher)(bool late));

/* ---- memory (arena.cu) ---- */

/* Memory of the device, aligned to 256 bytes, of any content; NULL when there is not that much. What is freed may be used again at once by
 * what the compute stream is given later. */
void *arena_take(size_t bytes);
void arena_give(void *x);
/* A buffer of at least `bytes`, kept from call to call under this number, for what one kernel's call needs between its launches. Ends the process when there
 * is no memory. */
enum arena_scratch { SCRATCH_SUMS, SCRATCH_SORT, SCRATCH_ATTENTION, SCRATCH_FP8, SCRATCH_COUNT };
void *arena_scratch(enum arena_scratch which, size_t bytes);

/* Pinned memory of the host, kept and used again. Ends the process when there is none. */
void *pinned_take(size_t bytes);
void pinned_give(void *x);

#ifdef __cplusplus
}
#endif

#endif
