/* device: the one GPU of this process, as the host functions of the backend use it: streams, waiting, errors, memory. */
#ifndef BELAY_KERNELS_CUDA_DEVICE_H
#define BELAY_KERNELS_CUDA_DEVICE_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_device;   /* backend.h */
struct kernel_memory; /* kernels/kernels.h */

/* How many devices this process may use; 0 with a sentence. */
int device_count(struct err *err);
/* Takes device `number` of those for this process, with its streams; once. 0, or -1 with a sentence. Where nobody has (programs that call kernels only),
 * the first use of a stream takes device 0, or ends the process. All functions here are for the one thread that computes. */
int device_open(int number, int rank, struct err *err);
/* Waits for the device, and gives back what the files of this folder hold. */
void device_close(void);

/* The process's compute stream; every kernel of the table goes there. */
cudaStream_t device_stream(void);
/* For copies beside the computing. */
cudaStream_t device_copy_stream(void);
const struct cuda_device *device_properties(void);
/* Blocks that are enough to keep every SM busy with a kernel that loops over its work: a multiple of the number of SMs. */
int device_blocks(void);

/* Ends the process with "rank R: CALL failed: REASON, while WHAT; ADVICE" when rc is not success. */
#define CHECK(call) device_check((call), #call)
void device_check(cudaError_t rc, const char *call);
/* The same for another library's error, already in words. Does not return. */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void device_fail(const char *call, const char *reason);
/* A line in the log of this rank. */
void device_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What later errors say is being done: `doing` of the table. */
void device_doing(const char *what, int64_t number, int64_t step);

/* Waits until the stream has done what it was given, or what the event was recorded behind; ends the process after BELAY_COMM_TIMEOUT seconds or
 * when the watcher finds an error. */
void device_wait(cudaStream_t stream);
void device_wait_event(cudaEvent_t event);
/* Called again and again while the host waits: what else can go wrong meanwhile (communicators). `late`: the limit has passed; does not return then. NULL: none. */
void device_watch(void (*watcher)(bool late));
/* Seconds that the host waits for the device, or for other ranks: BELAY_COMM_TIMEOUT, else 600. */
double device_patience_s(void);

/* ---- memory (arena.cu) ---- */

/* Memory of the device, aligned to 256 bytes, of any content; NULL when there is not that much. What is freed may be used again at once by
 * what the compute stream is given later. */
void *arena_take(size_t bytes);
void arena_give(void *x);
void arena_memory(struct kernel_memory *out);
/* A buffer of at least `bytes`, kept from call to call under this number, for what one kernel's call needs between its launches. Ends the process when there
 * is no memory. */
enum arena_scratch { SCRATCH_SUMS, SCRATCH_SORT, SCRATCH_ATTENTION, SCRATCH_FP8, SCRATCH_COUNT };
void *arena_scratch(enum arena_scratch which, size_t bytes);

/* Pinned memory of the host, kept and used again. Ends the process when there is none. */
void *pinned_take(size_t bytes);
void pinned_give(void *x);

/* For tests: false cuts blocks out of large pieces, true takes each from cudaMalloc alone, which is how AddressSanitizer sees an access beside it (and the
 * default where it is compiled in). Before the first block is taken. */
void arena_exact(bool exact);
/* No recorded calls are left that name memory: what arena_scratch gave before it grew may be used again. */
void arena_forget(void);
/* At the end: to the device and the host what nobody holds any more. */
void arena_close(void);

/* ---- graphs (graph.cu) ---- */

/* Ends the process with a sentence when the calls of a `repeat` are being recorded: `what` cannot be part of them. */
void graph_forbid(const char *what);
/* Do recorded calls exist, which name memory? */
bool graph_kept(void);
void graph_close(void);

/* ---- cuBLASLt (gemm.cu) ---- */
void gemm_close(void);
/* For tests: products come from the kernel that stands in where cuBLASLt has no algorithm. */
void gemm_by_tiles(bool only);

#ifdef __cplusplus
}
#endif

#endif
