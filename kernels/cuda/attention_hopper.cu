/* attention_hopper: flash attention on Hopper's asynchronous units, after FlashAttention-3 (Shah et al., arXiv 2407.08608, sections 3.1 and 3.2).
 *
 * A block is three warpgroups. One thread of the first loads tiles of queries, keys and values by TMA into shared memory, as far ahead as there is room; the
 * other two warpgroups compute, 64 queries each, and hand the room back. Which tile is where is told by mbarriers: of each place one
 * that says it is full and one that says it is free. A warpgroup issues the scores of the next tile of keys before it weighs the
 * values of this one, so that the tensor cores multiply while it takes exponentials; and the two warpgroups take turns in issuing, so that one's exponentials
 * fall into the other's products. Probabilities go from the registers of the scores into those of the second product, rounded to bf16.
 *
 * Blocks stay (one on each SM) and take every so manieth piece of work. What lies outside of the arrays TMA fills with 0; scores of keys that a query does not
 * see become -Inf. Sums are in fp32. Results do not depend on who takes which piece. No dropout. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention_hopper.cuh"
#include "kernels/cuda/backend.h"

#define KEYS   128 /* of a tile */
#define STAGES 2   /* tiles of keys, and of values, that there is room for */
/* Keys and values that are read again and again at a time, so that they stay in the L2 cache: bytes. */
#define L2_SHARE (16 << 20)

/* A piece of work: one head's queries row .. row+ROWS-1, which see the first `tiles` tiles of keys. */
struct piece {
    int b, head, row, tiles;
};

/* How the pieces are numbered: `together` heads after each other; of those the last queries of each head first, which see the most keys. */
struct pieces {
    int heads, together, rows, count; /* heads of all sequences; blocks of rows; pieces */
};

__device__ static struct piece piece_at(const struct attention &a, const struct pieces &all, int n)
{
    int first = n / (all.together * all.rows) * all.together, heads = min(all.together, all.heads - first);
    int inner = n - first * all.rows, head = first + inner % heads;
    struct piece p = {head / a.heads, head % a.heads, (all.rows - 1 - inner / heads) * ROWS, 0};
    p.tiles = (attention_sees(a, min(p.row + ROWS, a.queries) - 1) + KEYS - 1) / KEYS;
    return p;
}

template <int SIZE> struct forward_room {
    unsigned char q[PARTS(SIZE)][TILE(ROWS)];
    unsigned char k[STAGES][PARTS(SIZE)][TILE(KEYS)];
    unsigned char v[STAGES][PARTS(SIZE)][TILE(KEYS)];
    struct signals q_signals, k_signals[STAGES], v_signals[STAGES];
};

/* ---- loading ---- */

template <int SIZE, int BYTES>
__device__ static void fill_place(unsigned char (*to)[BYTES], const tensor_map *from, struct signals *s,
                                  int n, int b, int row, int head)
{
    wait_empty(s, n);
    mbarrier_expect(&s->full, PARTS(SIZE) * BYTES);
    load_tile<SIZE>(to, from, &s->full, b, row, head);
}

template <int SIZE>
__device__ static void load_all(const struct attention &a, const struct pieces &all, const tensor_map *q,
                                const tensor_map *k, const tensor_map *v, struct forward_room<SIZE> *room)
{
    int queries = 0, keys = 0; /* tiles loaded so far */
    for (int n = blockIdx.x; n < all.count; n += gridDim.x) {
        struct piece p = piece_at(a, all, n);
        int kv_head = p.head / (a.heads / a.kv_heads);
        if (p.tiles == 0)
            continue;
        fill_place<SIZE>(room->q, q, &room->q_signals, queries++, p.b, p.row, p.head);
        for (int t = p.tiles - 1; t >= 0; t--, keys++) {
            int stage = keys % STAGES, round = keys / STAGES;
            fill_place<SIZE>(room->k[stage], k, &room->k_signals[stage], round, p.b, t * KEYS, kv_head);
            fill_place<SIZE>(room->v[stage], v, &room->v_signals[stage], round, p.b, t * KEYS, kv_head);
        }
    }
}

/* ---- computing ---- */

/* What a warpgroup's thread holds of its 64 queries: rows g and g+8 of its warp's 16, in each 8 columns 2t and 2t+1 (hopper.cuh, wgmma). */
template <int SIZE> struct rows {
    float out[SIZE / 2];
    float score[KEYS / 2];
    uint32_t p[KEYS / 16][4]; /* probabilities as operands */
    float most[2], sum[2];    /* of each row: the largest score; this thread's part of the sum */
};

/* Scores of what the rows do not see become -Inf. row: this thread's first; key: the tile's first */
__device__ __forceinline__ void hide(float (&score)[KEYS / 2], const struct attention &a, int row, int key)
{
    int column = key + threadIdx.x % 4 * 2,
        seen[2] = {attention_sees(a, row) - column, attention_sees(a, row + 8) - column};
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        if (i / 4 * 8 + i % 2 >= seen[i / 2 % 2])
            score[i] = -INFINITY;
}

/* The scores of row r (0, 1) become e^(score - most) for the new most; returns what earlier sums are to be multiplied by. scale: in base 2 */
__device__ __forceinline__ float soften_row(float (&score)[KEYS / 2], int r, float scale, float *most,
                                            float *sum)
{
    float top = *most, all = 0;
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++)
        top = fmaxf(top, score[i / 2 * 4 + r * 2 + i % 2]);
    top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 1));
    top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 2));
    float base = top == -INFINITY ? 0 : top * scale, factor = exp2_fast(*most * scale - base);
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) {
        float *x = &score[i / 2 * 4 + r * 2 + i % 2];
        *x = exp2_fast(*x * scale - base);
        all += *x;
    }
    *most = top;
    *sum = *sum * factor + all;
    return factor;
}

/* Hides and softens a tile whose first key is `key`; factor: of each row, for `out`. */
template <int SIZE>
__device__ __forceinline__ void soften(struct rows<SIZE> *x, const struct attention &a, int row, int key,
                                       float (&factor)[2])
{
    int warp_row = row - threadIdx.x % WARP / 4;
    if (key + KEYS > attention_sees(a, warp_row))
        hide(x->score, a, row, key);
#pragma unroll
    for (int r = 0; r < 2; r++)
        factor[r] = soften_row(x->score, r, a.scale * LOG2_E, &x->most[r], &x->sum[r]);
}

template <int SIZE> __device__ __forceinline__ void rescale(float (&out)[SIZE / 2], const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < SIZE / 2; i++)
        out[i] *= factor[i / 2 % 2];
}

/* Issues the scores of the tile of keys in `stage`, and the weighing of its values. */
template <int SIZE>
__device__ __forceinline__ void issue_keys(struct rows<SIZE> *x, const struct forward_room<SIZE> *room,
                                           int stage)
{
    issue_scores<SIZE>(x->score, shared_address(&room->q[0][TILE(GROUP_ROWS) * my_group()]), TILE(ROWS),
                       shared_address(room->k[stage][0]), TILE(KEYS));
}
template <int SIZE>
__device__ __forceinline__ void issue_values(struct rows<SIZE> *x, const struct forward_room<SIZE> *room,
                                             int stage)
{
    issue_weighing(x->out, x->p, shared_address(room->v[stage][0]), TILE(KEYS));
}

/* The two warpgroups that compute issue in turns: `group` waits for its turn, and gives the other one its turn. */
__device__ __forceinline__ void turn_wait(int group)
{
    barrier_sync(1 + group, GROUPS * WARPGROUP);
}
__device__ __forceinline__ void turn_give(int group)
{
    barrier_arrive(2 - group, GROUPS * WARPGROUP);
}

/* The first tile's probabilities. */
template <int SIZE>
__device__ __forceinline__ void first_tile(struct rows<SIZE> *x, const struct attention &a,
                                           struct forward_room<SIZE> *room, int row, int key, int count)
{
    float factor[2];
    struct signals *k = &room->k_signals[count % STAGES];
    wait_full(k, count / STAGES);
    settle(x->score);
    wgmma_fence();
    issue_keys<SIZE>(x, room, count % STAGES);
    wgmma_wait<0>();
    settle(x->score);
    give_empty(k);
    soften<SIZE>(x, a, row, key, factor);
    to_operands(x->p, x->score);
}

/* Weighs the values of tile `count` while the probabilities of the next are made, whose first key is `key`. */
template <int SIZE>
__device__ __forceinline__ void next_tile(struct rows<SIZE> *x, const struct attention &a,
                                          struct forward_room<SIZE> *room, int row, int key, int count)
{
    float factor[2];
    int group = my_group(), next = count + 1;
    struct signals *k = &room->k_signals[next % STAGES], *v = &room->v_signals[count % STAGES];
    wait_full(k, next / STAGES);
    turn_wait(group);
    settle(x->score);
    settle(x->out);
    settle(x->p);
    wgmma_fence();
    issue_keys<SIZE>(x, room, next % STAGES);
    wait_full(v, count / STAGES);
    wgmma_fence();
    issue_values<SIZE>(x, room, count % STAGES);
    turn_give(group);
    wgmma_wait<1>();
    settle(x->score);
    give_empty(k);
    soften<SIZE>(x, a, row, key, factor);
    wgmma_wait<0>();
    settle(x->out);
    give_empty(v);
    rescale<SIZE>(x->out, factor);
    to_operands(x->p, x->score);
}

/* Weighs the last tile's values. */
template <int SIZE>
__device__ __forceinline__ void last_tile(struct rows<SIZE> *x, struct forward_room<SIZE> *room, int count)
{
    struct signals *v = &room->v_signals[count % STAGES];
    wait_full(v, count / STAGES);
    settle(x->out);
    settle(x->p);
    wgmma_fence();
    issue_values<SIZE>(x, room, count % STAGES);
    wgmma_wait<0>();
    settle(x->out);
    give_empty(v);
}

/* ---- endings ---- */

/* How a row ends: out = out before * before + sums * fresh, and its lse. */
struct ending {
    float before, fresh, lse;
};

/* before: the lse of the blocks of keys before this one, -Inf when there are none */
__device__ __forceinline__ struct ending end_row(float scale, float most, float sum, float before)
{
    struct ending e = {0, sum == 0 ? 0 : 1 / sum, sum == 0 ? -INFINITY : most * scale + logf(sum)};
    float top = fmaxf(before, e.lse);
    if (before == -INFINITY)
        return e;
    float old = expf(before - top), mine = expf(e.lse - top), all = old + mine;
    return {old / all, e.fresh * mine / all, top + logf(all)};
}

/* row: this thread's first */
template <int SIZE>
__device__ __forceinline__ void finish(const struct rows<SIZE> *x, const struct attention &a,
                                       const struct piece &p, int row)
{
#pragma unroll
    for (int r = 0; r < 2; r++, row += 8) {
        float sum = x->sum[r];
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        bool there = row < a.queries;
        float *lse = a.lse + lse_at(a, p.b, p.head, row);
        size_t out = out_at(a, p.b, p.head, row);
        struct ending e = end_row(a.scale, x->most[r], sum, there && !a.first ? *lse : -INFINITY);
        if (a.out)
            write_row((bf16 *)a.out + out, x->out, r, e.fresh, there);
        else if (there)
            merge_row(a.out_sum + out, x->out, r, e.before, e.fresh);
        __syncwarp(); /* all have read lse */
        if (there && threadIdx.x % 4 == 0)
            *lse = e.lse;
    }
}

template <int SIZE>
__device__ __forceinline__ void compute_all(const struct attention &a, const struct pieces &all,
                                            struct forward_room<SIZE> *room)
{
    int group = my_group();
    int queries = 0, keys = 0; /* tiles used so far */
    struct rows<SIZE> x;
    if (group == 1)
        turn_give(group);
    for (int n = blockIdx.x; n < all.count; n += gridDim.x) {
        struct piece p = piece_at(a, all, n);
        int first = p.row + my_row();
        set_zero(x.out);
#pragma unroll
        for (int r = 0; r < 2; r++)
            x.most[r] = -INFINITY, x.sum[r] = 0;
        if (p.tiles > 0) {
            wait_full(&room->q_signals, queries++);
            first_tile<SIZE>(&x, a, room, first, (p.tiles - 1) * KEYS, keys);
            for (int t = p.tiles - 2; t >= 0; t--)
                next_tile<SIZE>(&x, a, room, first, t * KEYS, keys++);
            give_empty(&room->q_signals);
            last_tile<SIZE>(&x, room, keys++);
        }
        finish<SIZE>(&x, a, p, first);
    }
    if (group == 0) /* so that no barrier is left half full */
        turn_wait(group);
}

template <int SIZE>
__global__ void __launch_bounds__(BLOCK, 1)
    attention_wgmma(const struct attention a, const struct pieces all, const __grid_constant__ tensor_map q,
                    const __grid_constant__ tensor_map k, const __grid_constant__ tensor_map v)
{
    DYN_SHARED(unsigned char, dynamic);
    struct forward_room<SIZE> *room = (struct forward_room<SIZE> *)tile_start(dynamic);
    if (threadIdx.x == 0) {
        signals_init(&room->q_signals);
        for (int i = 0; i < STAGES; i++) {
            signals_init(&room->k_signals[i]);
            signals_init(&room->v_signals[i]);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    /* In this order: with the other one ptxas forgets that it may use more registers here. */
    if (threadIdx.x >= WARPGROUP) {
        registers_take<COMPUTE_REGISTERS>();
        compute_all<SIZE>(a, all, room);
    } else {
        registers_give<LOADER_REGISTERS>();
        if (threadIdx.x == 0)
            load_all<SIZE>(a, all, &q, &k, &v, room);
    }
}

/* ---- host ---- */

static bool wanted(void)
{
    static int known = -1;
    const char *path = getenv("BELAY_CUDA_ATTENTION");
    if (known < 0)
        known = path && strcmp(path, "wgmma") == 0;
    return known;
}

bool attention_hopper_takes(const struct attention *a)
{
    const struct cuda_device *device = device_properties();
    return wanted() && device->major == 9 && device->minor == 0 && a->half &&
           (a->size == 64 || a->size == 128) && a->threshold == 0 && a->queries > 0 && a->keys > 0;
}

/* Strides in elements. Where there is one sequence only its stride may be anything. */
static bool map_heads(tensor_map *map, const act *x, const struct attention *a, int tokens, int heads,
                      size_t stride, size_t batch_stride, int rows)
{
    uint64_t size[4] = {(uint64_t)a->size, (uint64_t)heads, (uint64_t)tokens, (uint64_t)a->batch};
    uint64_t strides[3] = {(uint64_t)a->size * 2, stride * 2,
                           a->batch > 1 ? batch_stride * 2 : stride * 2 * (uint64_t)tokens};
    uint32_t box[4] = {SWIZZLE_ROW / 2, 1, (uint32_t)rows, 1};
    return tensor_map_make(map, x, size, strides, box);
}
bool attention_map_queries(tensor_map *map, const act *x, const struct attention *a, int rows)
{
    return map_heads(map, x, a, a->queries, a->heads, a->q_stride, a->q_batch, rows);
}
bool attention_map_keys(tensor_map *map, const act *x, const struct attention *a, int rows)
{
    return map_heads(map, x, a, a->keys, a->kv_heads, a->kv_stride, a->kv_batch, rows);
}
bool attention_map_outs(tensor_map *map, const act *x, const struct attention *a, int rows)
{
    return map_heads(map, x, a, a->queries, a->heads, a->out_stride, a->out_batch, rows);
}

static struct pieces pieces_of(const struct attention *a)
{
    size_t group = (size_t)(a->heads / a->kv_heads),
           kv_heads = L2_SHARE / ((size_t)a->keys * (size_t)a->size * 4) + 1;
    struct pieces all = {a->batch * a->heads, 0, (a->queries + ROWS - 1) / ROWS, 0};
    all.together = kv_heads * group < (size_t)all.heads ? (int)(kv_heads * group) : all.heads;
    all.count = all.heads * all.rows;
    return all;
}

template <int SIZE> static bool forward(const struct attention *a)
{
    int multiprocessors = device_properties()->multiprocessors;
    auto kernel = attention_wgmma<SIZE>;
    size_t shared = sizeof(struct forward_room<SIZE>) + SWIZZLE_UNIT;
    static bool prepared;
    struct pieces all = pieces_of(a);
    tensor_map q, k, v;
    if (!attention_map_queries(&q, a->q, a, ROWS) || !attention_map_keys(&k, a->k, a, KEYS) ||
        !attention_map_keys(&v, a->v, a, KEYS))
        return false;
    if (!prepared)
        CHECK(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)shared));
    prepared = true;
    LAUNCH(kernel, (unsigned)(all.count < multiprocessors ? all.count : multiprocessors), BLOCK, shared,
           device_stream(), *a, all, q, k, v);
    return true;
}

bool attention_hopper_forward(const struct attention *a)
{
    if (!attention_hopper_takes(a) ||
        !attention_rows_aligned(a->out, a->out_sum, a->out_stride, a->out_batch))
        return false;
    return a->size == 64 ? forward<64>(a) : forward<128>(a);
}
