/* sort: a radix sort, least significant digit first (Merrill, Grimshaw, "High performance and scalable radix sorting", 2011). For each digit of 8 bits:
 * every block counts the digits in its tile; then every block adds up the counts of all tiles, which tells where its own entries of each
 * digit begin, and moves them there, in their order. Two launches a digit, and no number depends on which block runs first: the atomic
 * additions are of integers within a block. */
#include "kernels/cuda/sort.h"

#include "kernels/cuda/launch.cuh"

#define DIGITS 256 /* as many as threads: each looks after one */
#define WARPS  (THREADS / WARP)
#define ROUNDS 8 /* entries of a thread */
#define TILE   ((size_t)THREADS * ROUNDS)

static_assert(DIGITS == THREADS, "each thread looks after one digit");

__device__ __forceinline__ uint32_t digit_of(uint64_t entry, int shift)
{
    return (uint32_t)(entry >> shift) % DIGITS;
}

/* counts (tiles, DIGITS) */
static __global__ void count_digits(uint32_t *counts, const uint64_t *entries, size_t n, int shift)
{
    SHARED(uint32_t, count, DIGITS);
    count[threadIdx.x] = 0;
    __syncthreads();
    for (int i = 0; i < ROUNDS; i++) {
        size_t at = blockIdx.x * TILE + i * THREADS + threadIdx.x;
        if (at < n)
            atomicAdd(&count[digit_of(entries[at], shift)], 1u);
    }
    __syncthreads();
    counts[(size_t)blockIdx.x * DIGITS + threadIdx.x] = count[threadIdx.x];
}

/* The sum of x over the threads before this one; room: WARPS numbers. */
__device__ __forceinline__ uint32_t sum_before(uint32_t x, uint32_t *room)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t sum = x;
    for (int d = 1; d < WARP; d *= 2) {
        uint32_t below = __shfl_up_sync(ALL_LANES, sum, d);
        sum += lane >= d ? below : 0;
    }
    if (lane == WARP - 1)
        room[warp] = sum;
    __syncthreads();
    sum -= x;
    for (int w = 0; w < warp; w++)
        sum += room[w];
    return sum;
}

/* Where this thread's digit begins in the result, for entries of this block. */
__device__ __forceinline__ uint32_t digit_begin(const uint32_t *counts, unsigned tiles, uint32_t *room)
{
    uint32_t all = 0, mine = 0;
#pragma unroll 8
    for (unsigned t = 0; t < tiles; t++) {
        uint32_t count = counts[(size_t)t * DIGITS + threadIdx.x];
        all += count;
        mine += t < blockIdx.x ? count : 0;
    }
    return sum_before(all, room) + mine;
}

/* The lanes whose digit is this one's; all lanes call. */
__device__ __forceinline__ unsigned lanes_alike(uint32_t digit, bool counts)
{
    unsigned alike = __ballot_sync(ALL_LANES, counts);
    for (int b = 0; 1 << b < DIGITS; b++) {
        unsigned has = __ballot_sync(ALL_LANES, digit >> b & 1);
        alike &= digit >> b & 1 ? has : ~has;
    }
    return alike;
}

/* Each warp has a run of the tile; next (WARPS, DIGITS) counts its digits first and then says where its next entry of a digit goes. */
static __global__ void move_entries(uint64_t *out, const uint64_t *entries, const uint32_t *counts, size_t n,
                                    int shift)
{
    SHARED(uint32_t, room, WARPS);
    SHARED(uint32_t, next, WARPS * DIGITS);
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    size_t first = blockIdx.x * TILE + (size_t)warp * WARP * ROUNDS + lane;
    uint32_t begin = digit_begin(counts, gridDim.x, room), *mine = next + warp * DIGITS;
    for (int w = 0; w < WARPS; w++)
        next[w * DIGITS + threadIdx.x] = 0;
    __syncthreads();
    for (int i = 0; i < ROUNDS; i++)
        if (first + i * WARP < n)
            atomicAdd(&mine[digit_of(entries[first + i * WARP], shift)], 1u);
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        uint32_t count = next[w * DIGITS + threadIdx.x];
        next[w * DIGITS + threadIdx.x] = begin;
        begin += count;
    }
    __syncthreads();
    for (int i = 0; i < ROUNDS; i++) {
        size_t at = first + i * WARP;
        uint64_t entry = at < n ? entries[at] : 0;
        uint32_t digit = digit_of(entry, shift);
        unsigned alike = lanes_alike(digit, at < n), below = alike & ((1u << lane) - 1);
        if (at < n)
            out[mine[digit] + __popc(below)] = entry;
        __syncwarp();
        if (at < n && below == 0)
            mine[digit] += __popc(alike);
        __syncwarp();
    }
}

static unsigned tiles_of(size_t n)
{
    return (unsigned)((n + TILE - 1) / TILE);
}

size_t sort_counts(size_t n)
{
    return (size_t)tiles_of(n) * DIGITS;
}

const uint64_t *sort_entries(const struct sort_room *room, size_t n, int bits)
{
    uint64_t *from = room->entries, *to = room->other;
    for (int shift = 32; n > 0 && shift < 32 + bits; shift += 8) {
        LAUNCH(count_digits, tiles_of(n), THREADS, 0, device_stream(), room->counts, from, n, shift);
        LAUNCH(move_entries, tiles_of(n), THREADS, 0, device_stream(), to, from, room->counts, n, shift);
        uint64_t *moved = to;
        to = from;
        from = moved;
    }
    return from;
}
