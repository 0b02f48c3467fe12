/* attention_hopper: what the kernels of attention on wgmma share: how a block of three warpgroups is divided, tiles in shared memory and who may use them when,
 * products of tiles, and endings. */
#ifndef BELAY_KERNELS_CUDA_ATTENTION_HOPPER_CUH
#define BELAY_KERNELS_CUDA_ATTENTION_HOPPER_CUH

#include "kernels/cuda/attention_place.cuh"
#include "kernels/cuda/hopper.cuh"

#define GROUP_ROWS 64                    /* rows (queries or keys) of a warpgroup that computes */
#define GROUPS     2                     /* warpgroups that compute */
#define ROWS       (GROUPS * GROUP_ROWS) /* of a block */
#define BLOCK      ((1 + GROUPS) * WARPGROUP)
/* Registers of a thread that loads, and of one that computes: 128 * 24 + 256 * 240 are those of BLOCK threads with 168, which a kernel begins with. */
#define LOADER_REGISTERS  24
#define COMPUTE_REGISTERS 240

/* Rows of SIZE elements are cut into so many tiles of SWIZZLE_ROW bytes. */
#define PARTS(SIZE) ((SIZE)*2 / SWIZZLE_ROW)
#define TILE(rows)  ((rows)*SWIZZLE_ROW)

/* This thread's warpgroup, of those that compute; and its first row in the block's (its other one is 8 further): see wgmma. */
__device__ __forceinline__ int my_group()
{
    return (int)threadIdx.x / WARPGROUP - 1;
}
__device__ __forceinline__ int my_row()
{
    return my_group() * GROUP_ROWS + (int)threadIdx.x % WARPGROUP / WARP * 16 + (int)threadIdx.x % WARP / 4;
}

/* ---- who may use a place in shared memory ---- */

/* A place that is filled and emptied in turns. */
struct signals {
    uint64_t full, empty;
};

__device__ __forceinline__ void signals_init(struct signals *s)
{
    mbarrier_init(&s->full, 1);
    mbarrier_init(&s->empty, GROUPS * WARPGROUP / WARP);
}
/* The place has been filled n times before: may it be filled again? is it filled again? */
__device__ __forceinline__ void wait_empty(struct signals *s, int n)
{
    mbarrier_wait(&s->empty, ~n & 1);
}
__device__ __forceinline__ void wait_full(struct signals *s, int n)
{
    mbarrier_wait(&s->full, n & 1);
    __syncwarp(); /* wgmma wants whole warps */
}
/* This warp's products have read it. */
__device__ __forceinline__ void give_empty(struct signals *s)
{
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(&s->empty);
}

/* Loads the rows from `row` on of a head of (sequences, tokens, heads, SIZE): a tile of BYTES for each part. They have been announced. */
template <int SIZE, int BYTES>
__device__ __forceinline__ void load_tile(unsigned char (*to)[BYTES], const tensor_map *from, uint64_t *full,
                                          int b, int row, int head)
{
    for (int i = 0; i < PARTS(SIZE); i++)
        tma_load(to[i], from, i * SWIZZLE_ROW / 2, head, row, b, full);
}

/* ---- products ---- */

/* Issues d (64,N) = the 64 rows at `a` times the N rows at `b`, of SIZE elements each. a, b: addresses in the first part; apart: bytes to the next */
template <int SIZE, int D>
__device__ __forceinline__ void issue_scores(float (&d)[D], uint32_t a, uint32_t a_apart, uint32_t b,
                                             uint32_t b_apart)
{
#pragma unroll
    for (int i = 0; i < SIZE / 16; i++)
        wgmma<false>(d, wgmma_rows(a + i / 4 * a_apart + i % 4 * 32),
                     wgmma_rows(b + i / 4 * b_apart + i % 4 * 32), i > 0);
    wgmma_commit();
}

/* Issues d (64,SIZE) += p (64,16K) times the 16K rows at `b`. */
template <int D, int K>
__device__ __forceinline__ void issue_weighing(float (&d)[D], const uint32_t (&p)[K][4], uint32_t b,
                                               uint32_t b_apart)
{
#pragma unroll
    for (int i = 0; i < K; i++)
        wgmma<true>(d, p[i], wgmma_columns(b + i * 2 * SWIZZLE_UNIT, b_apart), true);
    wgmma_commit();
}

/* The result of a product is, rounded, the operand of the next: 16 columns at a time. */
template <int K> __device__ __forceinline__ void to_operands(uint32_t (&p)[K][4], const float (&x)[8 * K])
{
#pragma unroll
    for (int i = 0; i < 4 * K; i++)
        p[i / 4][i % 4] = pack_bf16(x[2 * i], x[2 * i + 1]);
}

template <int D> __device__ __forceinline__ void set_zero(float (&d)[D])
{
#pragma unroll
    for (int i = 0; i < D; i++)
        d[i] = 0;
}

/* ---- endings ---- */

/* What lane t of four has of four columns of words becomes what column t has in the four lanes, lowest first. */
__device__ __forceinline__ void turn_words(uint32_t (&x)[4])
{
    int t = threadIdx.x % 4;
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & bit)) {
                uint32_t other = __shfl_xor_sync(ALL_LANES, t & bit ? x[i] : x[i | bit], bit);
                if (t & bit)
                    x[i] = other;
                else
                    x[i | bit] = other;
            }
    }
}

/* Row r (0, 1) of the thread's two rows of x (64,2D), times factor and rounded, to out (2D) if it is `there`: four lanes write 64 bytes that lie together.
 * All lanes call. */
template <int D>
__device__ __forceinline__ void write_row(bf16 *out, const float (&x)[D], int r, float factor, bool there)
{
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        struct pack<uint32_t> words;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *pair = &x[(4 * i + j) * 4 + 2 * r];
            words.x[j] = pack_bf16(pair[0] * factor, pair[1] * factor);
        }
        turn_words(words.x);
        if (there)
            *(struct pack<uint32_t> *)(out + i * 32 + threadIdx.x % 4 * 8) = words;
    }
}

struct alignas(8) pair {
    float x[2];
};

/* out (2D) = out * before + row r of x * factor; out is not read when before is 0 */
template <int D>
__device__ __forceinline__ void merge_row(float *out, const float (&x)[D], int r, float before, float factor)
{
#pragma unroll
    for (int i = 0; i < D / 4; i++) {
        struct pair *to = (struct pair *)(out + i * 8 + threadIdx.x % 4 * 2), old = {{0, 0}};
        if (before != 0)
            old = *to;
#pragma unroll
        for (int j = 0; j < 2; j++)
            old.x[j] = old.x[j] * before + x[i * 4 + 2 * r + j] * factor;
        *to = old;
    }
}

/* ---- host (attention_hopper.cu) ---- */

/* Is the call for wgmma at all: switched on, a device that has it, bf16, a head of 64 or 128, no dropout, something to do? */
bool attention_hopper_takes(const struct attention *a);
/* Maps of (sequences, tokens, heads, size) for tiles of `rows` tokens of one head: of what is strided as q, as k and v, and as out. False: not for TMA. */
bool attention_map_queries(tensor_map *map, const act *x, const struct attention *a, int rows);
bool attention_map_keys(tensor_map *map, const act *x, const struct attention *a, int rows);
bool attention_map_outs(tensor_map *map, const act *x, const struct attention *a, int rows);
/* May rows be written with write_row, or, when they are sums, with merge_row? Strides in elements. */
static inline bool attention_rows_aligned(const act *x, const real *sum, size_t stride, size_t batch)
{
    return x ? aligned16(elements<bf16>(x), stride) && batch % 8 == 0
             : aligned16(sum, stride) && batch % 4 == 0;
}

#endif
