/* parts: how the CPU kernels cut their work. A cut depends on sizes only, never on the number of threads, so that sums over parts come
 * out the same for every thread count. */
#ifndef BELAY_KERNELS_CPU_PARTS_H
#define BELAY_KERNELS_CPU_PARTS_H

#include <stddef.h>

/* Below this many elements a loop is not worth waking other threads (a few microseconds). */
#define PARTS_SERIAL 16384
/* Columns a thread takes at a time when it sums down the rows: 4 cache lines of float, held in registers. */
#define PARTS_COLUMNS 64
/* Pieces of a long sum: enough for 64 threads to share evenly. */
#define PARTS_SUM 256

/* The same in bytes, and the chunks that a long array of bytes or elements is cut into. */
#define PARTS_BYTES ((size_t)PARTS_SERIAL * 4)
#define PARTS_CHUNK ((size_t)4096)

static inline size_t parts_chunks(size_t count)
{
    return (count + PARTS_CHUNK - 1) / PARTS_CHUNK;
}

/* size of chunk i of `count` */
static inline size_t parts_chunk(size_t count, size_t i)
{
    size_t rest = count - i * PARTS_CHUNK;
    return rest < PARTS_CHUNK ? rest : PARTS_CHUNK;
}

/* First element of part `i` of `parts` of a range of `count`, cut at multiples of 16 elements (one cache line of float). */
static inline size_t parts_begin(size_t count, size_t parts, size_t i)
{
    size_t lines = (count + 15) / 16;
    size_t begin = (lines / parts * i + lines % parts * i / parts) * 16;
    return begin < count ? begin : count;
}

#endif
