/* attention_backward: gradients of flash attention on the tensor cores (Dao et al., arXiv 2205.14135, appendix B.2) for bf16 in aligned rows.
 *
 * Two kernels, so that each sum is one block's and has one order. One takes a tile of keys through the queries of all heads that share it: it
 * computes the scores turned, keys by queries, so that p and its gradient are at once the left operands of dv += p^T dout and dk += ds^T q and
 * never go through shared memory. The other takes a tile of queries through the keys: dq += ds k. That makes seven products instead of the five
 * of a kernel that adds to dq by atomics. What streams past has two buffers: one is copied while the other is used.
 *
 * Sums are float; p and ds are rounded to bf16 for the products with dout, q and k. Tokens past the last are zeros in shared memory, and what they
 * would get is not written; queries past the last add p = 1 times dout = 0. */
#include "kernels/cuda/attention_tile.cuh"

/* By keys: `keys` of a block, `rows` queries in a tile that streams past. With dropout there are fewer registers to hold sums in. */
template <int D, bool DROP> struct keys_plan {
    static const int m = D > 64 || DROP ? 1 : 2, warps = D > 64 || DROP ? 8 : 4, threads = warps * WARP;
    static const int keys = 16 * m * warps, rows = 32;
    static const int stage = 2 * rows * D; /* q and dout */
    static const size_t shared =
        (2 * keys * D + 2 * stage) * sizeof(bf16) + 2 * rows * sizeof(struct attention_row);
};
/* By queries: `rows` of a block, `keys` in a tile. */
template <int D, bool DROP> struct queries_plan {
    static const int m = D > 64 ? 1 : 2, warps = D > 64 ? 8 : 4, threads = warps * WARP;
    static const int rows = 16 * m * warps, keys = D > 64 || DROP ? 32 : 64;
    static const int stage = 2 * keys * D; /* k and v */
    static const size_t shared = (2 * rows * D + 2 * stage) * sizeof(bf16);
};

/* One score becomes p, dropped, and one dp the gradient ds without the scale. */
template <bool DROP>
__device__ __forceinline__ void weigh(const struct attention &a, const struct attention_row &r, int key,
                                      bool seen, float *s, float *dp)
{
    float p = exp2_fast(fmaf(*s, a.scale * LOG2_E, -r.lse)), d = *dp;
    *s = p;
    if (DROP) {
        bool kept = hash_column(r.hash, (uint32_t)a.k_position + key) >= a.threshold;
        *s = kept ? p * a.keep : 0;
        d = kept ? d * a.keep : 0;
    }
    *dp = p * (d - r.delta);
    if (!seen) {
        *s = 0;
        *dp = 0;
    }
}

/* ---- dk and dv ---- */

/* The queries that stream past a tile of keys: those of one head after another. */
struct stream {
    int head, heads; /* the next one's head, and how many are left */
    int first, row;  /* of the queries */
};

__device__ __forceinline__ void advance(const struct attention &a, struct stream *s, int rows)
{
    s->row += rows;
    if (s->row >= a.queries) {
        s->row = s->first;
        s->head++;
        s->heads--;
    }
}

/* Starts copying the stream's next tile. */
template <int D, bool DROP>
__device__ __forceinline__ void copy_queries(const struct attention &a, const struct attention_row *rows,
                                             int b, struct stream s, bf16 *q, struct attention_row *kept)
{
    typedef keys_plan<D, DROP> plan;
    int left = a.queries - s.row, i = (int)threadIdx.x;
    tile_load<D, plan::rows, plan::threads>(
        q, a.q, own_part<D, plan::threads>(query_at(a, b, s.head, s.row), a.q_stride, left, a.size),
        a.q_stride);
    tile_load<D, plan::rows, plan::threads>(
        q + plan::rows * D, a.dout,
        own_part<D, plan::threads>(out_at(a, b, s.head, s.row), a.out_stride, left, a.size), a.out_stride);
    if (i < plan::rows)
        cp_async16(kept + i, rows + (size_t)(b * a.heads + s.head) * a.queries + s.row + i, i < left);
    cp_async_commit();
}

/* Turned scores and dp (keys by queries) become p and ds. key, row: the warp's first key and the tile's first query */
template <bool DROP, int M, int N>
__device__ __forceinline__ void weigh_turned(const struct attention &a, const struct attention_row *kept,
                                             int key, int row, sums<M, N> &s, sums<M, N> &dp)
{
    int first = key + lane_of() / 4, shift = a.keys - a.queries;
    bool masked = a.causal && row + shift < key + 16 * M - 1;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int i = n * 8 + 2 * (lane_of() % 4) + e;
            struct attention_row r = kept[i];
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int own = first + m * 16 + h * 8;
                    bool seen = !masked || own <= row + i + shift;
                    weigh<DROP>(a, r, own, seen, &s.x[m][n][2 * h + e], &dp.x[m][n][2 * h + e]);
                }
        }
}

template <int D, bool DROP, int M>
__device__ __forceinline__ void add_queries(const struct attention &a, const bf16 *k, const bf16 *v,
                                            const bf16 *q, const struct attention_row *kept, int key, int row,
                                            sums<M, D> &dk, sums<M, D> &dv)
{
    const int N = keys_plan<D, DROP>::rows;
    const bf16 *dout = q + N * D;
    sums<M, N> s, dp;
    operand<M, N> weights;
    clear(s);
    add_scores<D, 4>(s, k, q);
    clear(dp);
    add_scores<D, 4>(dp, v, dout);
    weigh_turned<DROP>(a, kept, key, row, s, dp);
#pragma unroll
    for (int m = 0; m < M; m++)
        to_operand(weights, s, m);
    add_weighed<D>(dv, weights, dout);
#pragma unroll
    for (int m = 0; m < M; m++)
        to_operand(weights, dp, m);
    add_weighed<D>(dk, weights, q);
}

template <int D, bool DROP>
__global__ void __launch_bounds__(keys_plan<D, DROP>::threads)
    attention_mma_keys(struct attention a, const struct attention_row *rows)
{
    typedef keys_plan<D, DROP> plan;
    DYN_SHARED(bf16, k);
    bf16 *v = k + plan::keys * D, *q = v + plan::keys * D;
    struct attention_row *kept = (struct attention_row *)(void *)(q + 2 * plan::stage);
    struct place p = key_place(a, plan::keys);
    int own = warp_of() * 16 * plan::m, key = p.start + own, group = a.heads / a.kv_heads;
    int first = attention_first_query(a, p.start);
    struct stream next = {p.head * group, first < a.queries ? group : 0, first, first};
    part kv_part =
        own_part<D, plan::threads>(key_at(a, p.b, p.head, p.start), a.kv_stride, a.keys - p.start, a.size);
    tile_load<D, plan::keys, plan::threads>(k, a.k, kv_part, a.kv_stride);
    tile_load<D, plan::keys, plan::threads>(v, a.v, kv_part, a.kv_stride);
    cp_async_commit();
    sums<plan::m, D> dk, dv;
    clear(dk);
    clear(dv);
    if (next.heads > 0)
        copy_queries<D, DROP>(a, rows, p.b, next, q, kept);
    for (int stage = 0; next.heads > 0; stage = 1 - stage) {
        int row = next.row;
        advance(a, &next, plan::rows);
        cp_async_wait<0>();
        __syncthreads(); /* this stage is there; nobody reads the other any more */
        if (next.heads > 0)
            copy_queries<D, DROP>(a, rows, p.b, next, q + (1 - stage) * plan::stage,
                                  kept + (1 - stage) * plan::rows);
        /* unless all of the tile's queries come before the warp's keys */
        if (key < a.keys && (!a.causal || key <= row + plan::rows - 1 + a.keys - a.queries))
            add_queries<D, DROP>(a, k + own * D, v + own * D, q + stage * plan::stage,
                                 kept + stage * plan::rows, key, row, dk, dv);
    }
    cp_async_wait<0>();
    size_t at = key_at(a, p.b, p.head, key);
    store_gradient(a.dk, a.dk_sum, at, a.kv_stride, a.keys - key, a.size, dk, a.scale);
    store_gradient(a.dv, a.dv_sum, at, a.kv_stride, a.keys - key, a.size, dv, 1);
}

/* ---- dq ---- */

/* Scores and dp (queries by keys) become p and ds. */
template <bool DROP, int M, int N>
__device__ __forceinline__ void weigh_rows(const struct attention &a,
                                           const struct attention_row (&kept)[M][2], int row, int key,
                                           sums<M, N> &s, sums<M, N> &dp)
{
    bool masked = attention_sees(a, row) < key + N;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int seen = masked ? attention_sees(a, row + m * 16 + h * 8 + lane_of() / 4) : key + N;
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int i = key + n * 8 + 2 * (lane_of() % 4) + e;
                    weigh<DROP>(a, kept[m][h], i, i < seen, &s.x[m][n][2 * h + e], &dp.x[m][n][2 * h + e]);
                }
        }
}

template <int D, bool DROP, int M>
__device__ __forceinline__ void add_keys(const struct attention &a, const bf16 *q, const bf16 *dout,
                                         const bf16 *k, const struct attention_row (&kept)[M][2], int row,
                                         int key, sums<M, D> &dq)
{
    const int N = queries_plan<D, DROP>::keys;
    sums<M, N> s, dp;
    operand<M, N> weights;
    clear(s);
    add_scores<D, 2>(s, q, k);
    clear(dp);
    add_scores<D, 2>(dp, dout, k + N * D);
    weigh_rows<DROP>(a, kept, row, key, s, dp);
#pragma unroll
    for (int m = 0; m < M; m++)
        to_operand(weights, dp, m);
    add_weighed<D>(dq, weights, k);
}

/* Starts copying the tile of keys and values at `part`. */
template <int D, bool DROP>
__device__ __forceinline__ void copy_keys(const struct attention &a, part part, bf16 *k)
{
    typedef queries_plan<D, DROP> plan;
    tile_load<D, plan::keys, plan::threads>(k, a.k, part, a.kv_stride);
    tile_load<D, plan::keys, plan::threads>(k + plan::keys * D, a.v, part, a.kv_stride);
    cp_async_commit();
}

template <int D, bool DROP>
__global__ void __launch_bounds__(queries_plan<D, DROP>::threads)
    attention_mma_queries(struct attention a, const struct attention_row *rows)
{
    typedef queries_plan<D, DROP> plan;
    DYN_SHARED(bf16, q);
    bf16 *dout = q + plan::rows * D, *k = dout + plan::rows * D;
    struct place p = query_place(a, plan::rows);
    int own = warp_of() * 16 * plan::m, row = p.start + own, kv_head = p.head / (a.heads / a.kv_heads);
    int last = attention_sees(a, min(p.start + plan::rows, a.queries) - 1),
        own_last = row < a.queries ? attention_sees(a, min(row + 16 * plan::m, a.queries) - 1) : 0;
    int left = a.queries - p.start;
    tile_load<D, plan::rows, plan::threads>(
        q, a.q, own_part<D, plan::threads>(query_at(a, p.b, p.head, p.start), a.q_stride, left, a.size),
        a.q_stride);
    tile_load<D, plan::rows, plan::threads>(
        dout, a.dout, own_part<D, plan::threads>(out_at(a, p.b, p.head, p.start), a.out_stride, left, a.size),
        a.out_stride);
    part kv_part = own_part<D, plan::threads>(key_at(a, p.b, kv_head, 0), a.kv_stride, a.keys, a.size);
    copy_keys<D, DROP>(a, kv_part, k);
    struct attention_row kept[plan::m][2];
#pragma unroll
    for (int m = 0; m < plan::m; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = row + m * 16 + h * 8 + lane_of() / 4;
            kept[m][h] = {0, 0, 0};
            if (i < a.queries)
                kept[m][h] = rows[(size_t)(p.b * a.heads + p.head) * a.queries + i];
        }
    sums<plan::m, D> dq;
    clear(dq);
    for (int key = 0, stage = 0; key < last; key += plan::keys, stage = 1 - stage) {
        cp_async_wait<0>();
        __syncthreads(); /* this stage is there; nobody reads the other any more */
        kv_part.at += plan::keys * a.kv_stride;
        kv_part.left -= plan::keys;
        if (key + plan::keys < last)
            copy_keys<D, DROP>(a, kv_part, k + (1 - stage) * plan::stage);
        if (key < own_last)
            add_keys<D, DROP>(a, q + own * D, dout + own * D, k + stage * plan::stage, kept, row, key, dq);
    }
    cp_async_wait<0>();
    store_gradient(a.dq, a.dq_sum, query_at(a, p.b, p.head, row), a.q_stride, a.queries - row, a.size, dq,
                   a.scale);
}

template <int D, bool DROP> static void backward(const struct attention *a, const struct attention_row *rows)
{
    typedef keys_plan<D, DROP> by_keys;
    typedef queries_plan<D, DROP> by_queries;
    static bool ready = allow_shared((const void *)attention_mma_keys<D, DROP>, by_keys::shared) &&
                        allow_shared((const void *)attention_mma_queries<D, DROP>, by_queries::shared);
    (void)ready;
    if (a->keys > 0)
        LAUNCH((attention_mma_keys<D, DROP>), key_places(a, by_keys::keys), by_keys::threads, by_keys::shared,
               device_stream(), *a, rows);
    if (a->queries > 0)
        LAUNCH((attention_mma_queries<D, DROP>), query_places(a, by_queries::rows), by_queries::threads,
               by_queries::shared, device_stream(), *a, rows);
}

template <int D> static void backward(const struct attention *a)
{
    const struct attention_row *rows = attention_rows(a);
    a->threshold ? backward<D, true>(a, rows) : backward<D, false>(a, rows);
}

bool attention_mma_backward(const struct attention *a)
{
    const void *const arrays[] = {a->q,  a->k,  a->v,      a->dout,   a->kept_out, a->dq,
                                  a->dk, a->dv, a->dq_sum, a->dk_sum, a->dv_sum};
    bool fit = tiles_fit(a);
    for (const void *x : arrays)
        fit = fit && in_pieces(x);
    if (fit)
        a->size <= 64 ? backward<64>(a) : backward<128>(a);
    return fit;
}
