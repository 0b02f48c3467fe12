/* memory: what others of this folder need of memory.cu. */
#ifndef BELAY_KERNELS_CUDA_MEMORY_H
#define BELAY_KERNELS_CUDA_MEMORY_H

#include <stddef.h>

/* `rows` pieces of `bytes` bytes on the compute stream, strides in bytes; from NULL: they become 0. */
void memory_rows(void *to, size_t out_stride, const void *from, size_t x_stride, size_t rows, size_t bytes);
/* Gives back the rings of pinned buffers. */
void memory_close(void);

#endif
