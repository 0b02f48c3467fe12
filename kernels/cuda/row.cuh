/* row: rows of an array, each worked on by a team of threads: a warp where rows are short (then several teams share a block), else a whole block.
 *
 * A row is moved in pieces of 16 bytes. Thread t of a team has the pieces t, t + team, t + 2 team, …; a kernel that passes over a row twice holds
 * SLOTS pieces of it in registers in between, so that memory is read once. Rows that are too long or not aligned for that need another way. */
#ifndef BELAY_KERNELS_CUDA_ROW_CUH
#define BELAY_KERNELS_CUDA_ROW_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

/* ---- in a kernel: blockDim.x threads of a team, blockDim.y teams of a block; only teams of one warp share a block ---- */

/* The loop over rows: for (row = team_first(); row < n; row += team_count()) */
__device__ __forceinline__ size_t team_first()
{
    return (size_t)blockIdx.x * blockDim.y + threadIdx.y;
}
__device__ __forceinline__ size_t team_count()
{
    return (size_t)gridDim.x * blockDim.y;
}

/* Which piece of its row a thread has in its slot. */
__device__ __forceinline__ unsigned slot_piece(int slot)
{
    return slot * blockDim.x + threadIdx.x;
}

/* Slots behind the row's end keep what they hold, and nobody looks at it. */
template <class T, int SLOTS>
__device__ __forceinline__ void row_load(pack<T> (&x)[SLOTS], const T *row, unsigned pieces)
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
        if (slot_piece(s) < pieces)
            x[s] = ((const pack<T> *)row)[slot_piece(s)];
}
template <class T, int SLOTS>
__device__ __forceinline__ void row_store(T *row, const pack<T> (&x)[SLOTS], unsigned pieces)
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
        if (slot_piece(s) < pieces)
            ((pack<T> *)row)[slot_piece(s)] = x[s];
}

/* What sums over a team need: two rooms by turns, so that one barrier a sum is enough: who writes into a room has passed the barrier of the sum
 * before, which nobody reaches before having read the one before that. */
#define TEAM_SUMS 2 /* at most at once */
struct team_room {
    float *x; /* shared, TEAM_ROOM floats */
    unsigned turn;
};
#define TEAM_ROOM (2 * TEAM_SUMS * WARP)

/* Each x becomes its sum over the team, all of whose threads call; in an order that is always the same. */
template <int N> __device__ __forceinline__ void team_sum(float (&x)[N], struct team_room *room)
{
    static_assert(N <= TEAM_SUMS, "a larger room");
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = warp_sum(x[i]);
    if (blockDim.x == WARP)
        return;
    unsigned lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    float *to = room->x + (room->turn++ % 2) * TEAM_SUMS * WARP;
    if (lane == 0) {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i * WARP + threadIdx.x / WARP] = x[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = warp_sum(lane < warps ? to[i * WARP + lane] : 0.0f);
}

/* ---- on the host ---- */

/* A block for rows of so many pieces when a thread takes `slots` of them: one team that is large enough, or `most` threads, or several teams of one warp. */
static inline dim3 team_block(size_t pieces, size_t slots, unsigned most)
{
    size_t warps = (pieces + slots * WARP - 1) / (slots * WARP);
    unsigned team = warps < most / WARP ? (unsigned)warps * WARP : most;
    return team <= WARP ? dim3(WARP, THREADS / WARP) : dim3(team, 1);
}

/* Blocks for n rows: many more than run at once, so that none of them has much more to do than others. */
static inline unsigned team_blocks(size_t n, dim3 block)
{
    size_t blocks = (n + block.y - 1) / block.y, most = (size_t)device_blocks() * 16;
    return (unsigned)(blocks < most ? blocks : most);
}

#endif
