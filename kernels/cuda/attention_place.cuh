/* attention_place: which part of a call a block does, and where that lies. */
#ifndef BELAY_KERNELS_CUDA_ATTENTION_PLACE_CUH
#define BELAY_KERNELS_CUDA_ATTENTION_PLACE_CUH

#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.cuh"

/* A block has one tile, of queries or of keys, of one head of one sequence. */
struct place {
    int b, head, start; /* head: of the queries or of the keys; start: the tile's first token */
};

/* With a causal mask the tiles of a head begin with the one that takes longest: the last queries, the first keys. */
__device__ __forceinline__ struct place query_place(const struct attention &a, int side)
{
    int tiles = (a.queries + side - 1) / side, tile = (int)(blockIdx.x % tiles),
        rest = (int)(blockIdx.x / tiles);
    return {rest / a.heads, rest % a.heads, (tiles - 1 - tile) * side};
}
__device__ __forceinline__ struct place key_place(const struct attention &a, int side)
{
    int tiles = (a.keys + side - 1) / side, tile = (int)(blockIdx.x % tiles),
        rest = (int)(blockIdx.x / tiles);
    return {rest / a.kv_heads, rest % a.kv_heads, tile * side};
}
static inline unsigned query_places(const struct attention *a, int side)
{
    return (unsigned)((a->queries + side - 1) / side) * (unsigned)(a->heads * a->batch);
}
static inline unsigned key_places(const struct attention *a, int side)
{
    return (unsigned)((a->keys + side - 1) / side) * (unsigned)(a->kv_heads * a->batch);
}

/* Elements before token `row` of a head, in arrays that are strided as q, as k and v, and as out. */
__device__ __forceinline__ size_t query_at(const struct attention &a, int b, int head, int row)
{
    return b * a.q_batch + row * a.q_stride + (size_t)head * a.size;
}
__device__ __forceinline__ size_t key_at(const struct attention &a, int b, int kv_head, int key)
{
    return b * a.kv_batch + key * a.kv_stride + (size_t)kv_head * a.size;
}
__device__ __forceinline__ size_t out_at(const struct attention &a, int b, int head, int row)
{
    return b * a.out_batch + row * a.out_stride + (size_t)head * a.size;
}
__device__ __forceinline__ size_t lse_at(const struct attention &a, int b, int head, int row)
{
    return (size_t)(b * a.heads + head) * a.lse_stride + row;
}

/* Tokens of one array from some place on: `count` are left. */
template <class T> struct tokens {
    const T *x;
    size_t stride;
    int count;
};
template <class T>
__device__ __forceinline__ struct tokens<T> queries_from(const struct attention &a, const act *x, int b,
                                                         int head, int row) {
    return {(const T *)(const void *)x + query_at(a, b, head, row), a.q_stride, a.queries - row};
} template <class T>
__device__ __forceinline__ struct tokens<T> keys_from(const struct attention &a, const act *x, int b,
                                                      int kv_head, int key) {
    return {(const T *)(const void *)x + key_at(a, b, kv_head, key), a.kv_stride, a.keys - key};
} template <class T>
__device__ __forceinline__ struct tokens<T> outs_from(const struct attention &a, const act *x, int b,
                                                      int head, int row) {
    return {(const T *)(const void *)x + out_at(a, b, head, row), a.out_stride, a.queries - row};
}

#endif
