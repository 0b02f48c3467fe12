/* memory: of the device and the way there from the host.
 *
 * Copies from the host go through rings of pinned buffers, which an event says are free again, so that the caller may reuse its memory at once while the
 * host runs ahead of the device; copies to the host go through the same buffers, several pieces under way. Both are in the compute
 * stream, between the kernels before and after. */
#include "kernels/cuda/memory.h"

#include <string.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/launch.cuh"

#define RING_MOST 64

/* Small copies (tokens, a sum) need many buffers, so that the host does not wait for one; large ones need long pieces. */
struct ring {
    size_t piece;
    size_t count;
    size_t next;
    char *room;
    cudaEvent_t done[RING_MOST];
};
static struct ring rings[] = {{64 * 1024, RING_MOST, 0, NULL, {}}, {(size_t)4 << 20, 4, 0, NULL, {}}};

static struct ring *ring_for(size_t bytes)
{
    struct ring *r = &rings[bytes > rings[0].piece];
    if (r->room)
        return r;
    r->room = (char *)pinned_take(r->piece * r->count);
    for (size_t i = 0; i < r->count; i++)
        CHECK(cudaEventCreateWithFlags(&r->done[i], cudaEventDisableTiming));
    return r;
}

void memory_close(void)
{
    for (struct ring *r = rings; r < rings + sizeof rings / sizeof *rings; r++) {
        for (size_t i = 0; r->room && i < r->count; i++)
            CHECK(cudaEventDestroy(r->done[i]));
        pinned_give(r->room);
        r->room = NULL;
        r->next = 0;
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void from_host(void *out, const void *x, size_t bytes)
{
    graph_forbid("a copy from the host");
    struct ring *r = ring_for(bytes);
    for (size_t at = 0; at < bytes; at += r->piece) {
        size_t slot = r->next++ % r->count, n = smaller(bytes - at, r->piece);
        char *room = r->room + slot * r->piece;
        device_wait_event(r->done[slot]);
        memcpy(room, (const char *)x + at, n);
        CHECK(cudaMemcpyAsync((char *)out + at, room, n, cudaMemcpyHostToDevice, device_stream()));
        CHECK(cudaEventRecord(r->done[slot], device_stream()));
    }
}

static void to_host(void *out, const void *x, size_t bytes)
{
    graph_forbid("a copy to the host");
    struct ring *r = ring_for(bytes);
    size_t first = r->next, pieces = (bytes + r->piece - 1) / r->piece;
    for (size_t asked = 0, got = 0; got < pieces;) {
        if (asked < pieces && asked < got + r->count) {
            size_t slot = (first + asked) % r->count, at = asked * r->piece;
            CHECK(cudaMemcpyAsync(r->room + slot * r->piece, (const char *)x + at,
                                  smaller(bytes - at, r->piece), cudaMemcpyDeviceToHost, device_stream()));
            CHECK(cudaEventRecord(r->done[slot], device_stream()));
            asked++;
        } else {
            size_t slot = (first + got) % r->count, at = got * r->piece;
            device_wait_event(r->done[slot]);
            memcpy((char *)out + at, r->room + slot * r->piece, smaller(bytes - at, r->piece));
            got++;
        }
    }
    r->next = first + pieces;
}

/* ---- within the device ---- */

static void zero(void *x, size_t bytes)
{
    if (bytes > 0)
        CHECK(cudaMemsetAsync(x, 0, bytes, device_stream()));
}

static void *alloc(size_t bytes)
{
    void *x = arena_take(bytes);
    if (x)
        zero(x, bytes);
    return x;
}

static void copy(void *out, const void *x, size_t bytes)
{
    if (bytes > 0)
        CHECK(cudaMemcpyAsync(out, x, bytes, cudaMemcpyDeviceToDevice, device_stream()));
}

/* Rows of `units` elements U; strides in bytes; x NULL: 0. A row of the block's threads takes a row of the array, and blocks share long ones. */
template <class U>
__global__ void rows_copy(char *out, size_t out_stride, const char *x, size_t x_stride, size_t rows,
                          size_t units)
{
    size_t step = (size_t)gridDim.y * blockDim.x;
    for (size_t r = (size_t)blockIdx.x * blockDim.y + threadIdx.y; r < rows;
         r += (size_t)gridDim.x * blockDim.y) {
        U *to = (U *)(void *)(out + r * out_stride);
        const U *from = (const U *)(const void *)(x + r * x_stride);
        for (size_t i = (size_t)blockIdx.y * blockDim.x + threadIdx.x; i < units; i += step)
            to[i] = x ? from[i] : U();
    }
}

/* Blocks for rows_copy: as many threads across as a row has units, a power of 2, the others down. */
static void shape(size_t rows, size_t units, dim3 *grid, dim3 *block)
{
    size_t across = WARP, down, most = (size_t)device_blocks();
    while (across < THREADS && across < units)
        across *= 2;
    down = THREADS / across;
    block->x = (unsigned)across;
    block->y = (unsigned)down;
    grid->x = (unsigned)smaller((rows + down - 1) / down, most);
    grid->y = (unsigned)smaller((units + across - 1) / across, (most + grid->x - 1) / grid->x);
}

template <class U>
static void copy_units(char *out, size_t out_stride, const char *x, size_t x_stride, size_t rows,
                       size_t bytes)
{
    dim3 grid, block;
    shape(rows, bytes / sizeof(U), &grid, &block);
    LAUNCH((rows_copy<U>), grid, block, 0, device_stream(), out, out_stride, x, x_stride, rows,
           bytes / sizeof(U));
}

void memory_rows(void *to, size_t out_stride, const void *from, size_t x_stride, size_t rows, size_t bytes)
{
    char *out = (char *)to;
    const char *x = (const char *)from;
    size_t any = (uintptr_t)out | (uintptr_t)x | out_stride | x_stride |
                 bytes; /* its lowest bit: the alignment of all */
    if (rows == 0 || bytes == 0)
        return;
    if (any % 16 == 0)
        copy_units<pack<float>>(out, out_stride, x, x_stride, rows, bytes);
    else if (any % 8 == 0)
        copy_units<uint64_t>(out, out_stride, x, x_stride, rows, bytes);
    else if (any % 4 == 0)
        copy_units<uint32_t>(out, out_stride, x, x_stride, rows, bytes);
    else if (any % 2 == 0)
        copy_units<uint16_t>(out, out_stride, x, x_stride, rows, bytes);
    else
        copy_units<uint8_t>(out, out_stride, x, x_stride, rows, bytes);
}

static void copy_rows(void *out, size_t out_stride, const void *x, size_t x_stride, size_t rows, size_t bytes)
{
    if (out_stride == bytes && x_stride == bytes)
        copy(out, x, rows * bytes);
    else
        memory_rows(out, out_stride, x, x_stride, rows, bytes);
}

static void sync(void)
{
    device_wait(device_stream());
}

CUDA_FILL(memory)
{
    table->alloc = alloc;
    table->free = arena_give;
    table->zero = zero;
    table->copy_rows = copy_rows;
    table->copy = copy;
    table->to_host = to_host;
    table->from_host = from_host;
    table->sync = sync;
    table->memory = arena_memory;
    table->doing = device_doing;
}
