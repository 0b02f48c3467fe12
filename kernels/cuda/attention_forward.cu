/* attention_forward: flash attention on the tensor cores (Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691) for bf16 in aligned rows.
 *
 * A block has four warps of 32 queries each, which share tiles of keys and values. K and V have one buffer each: the next K is copied while V
 * is used and the next V while K is, which takes half the shared memory of two buffers each, so that two blocks or more fit an SM. Scores, the
 * softmax and the result stay in registers. Sums are float; p is rounded to bf16 for its product with V, but not for lse. Masks are looked at
 * only in tiles that the causal border or the last key crosses, and a warp leaves out tiles of which its rows see nothing. */
#include "kernels/cuda/attention_tile.cuh"

template <int D, bool DROP> struct forward_plan {
    static const int m = 2, warps = 4, threads = warps * WARP, rows = 16 * m * warps;
    static const int keys = D > 64 && DROP ? 32 : 64; /* as the registers allow */
    static const size_t shared = (rows + 2 * keys) * D * sizeof(bf16);
};

/* The softmax so far of a lane's rows 16 m + 8 h (Milakov, Gimelshein, arXiv 1805.02867), in base 2. `sum` is of the lane's own columns. */
template <int M> struct soft {
    float most[M][2], sum[M][2];
    uint64_t hash[M][2];
};

/* Where a row stands before its first tile: at nothing, or after the blocks of keys before this one. */
template <int D, bool DROP, int M>
__device__ __forceinline__ void begin(const struct attention &a, struct place p, int row, soft<M> &soft,
                                      sums<M, D> &out)
{
    clear(out);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = row + m * 16 + h * 8 + lane_of() / 4, t = lane_of() % 4;
            bool there = i < a.queries;
            soft.most[m][h] = !a.first && there ? a.lse[lse_at(a, p.b, p.head, i)] * LOG2_E : -INFINITY;
            soft.sum[m][h] = t == 0 && soft.most[m][h] != -INFINITY;
            soft.hash[m][h] = DROP && there ? attention_hash(a, p.b, p.head, i) : 0;
            if (a.first || !there)
                continue;
            const float *from = a.out_sum + out_at(a, p.b, p.head, i) + 2 * t;
#pragma unroll
            for (int n = 0; n < D / 8; n++)
                if (n * 8 < a.size) {
                    two_floats two = *(const two_floats *)(from + n * 8);
                    out.x[m][n][2 * h] = two.x[0];
                    out.x[m][n][2 * h + 1] = two.x[1];
                }
        }
}

template <int N> __device__ __forceinline__ void hide(float (&s)[N][4], int h, int key, int seen)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            if (key + n * 8 + e >= seen)
                s[n][2 * h + e] = -INFINITY;
}

/* Largest score of a row; NaN is passed over and comes out of the exponentials. */
template <int N> __device__ __forceinline__ float largest(const float (&s)[N][4], int h)
{
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < N; n++)
        top = fmaxf(top, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
    top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 1));
    return fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 2));
}

/* A row's scores become p = 2^(score * scale - base); returns their sum. */
template <int N>
__device__ __forceinline__ float exponentials(float (&s)[N][4], int h, float scale, float base)
{
    float sum = 0;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float p = exp2_fast(fmaf(s[n][2 * h + e], scale, -base));
            s[n][2 * h + e] = p;
            sum += p;
        }
    return sum;
}

template <int N>
__device__ __forceinline__ void drop(const struct attention &a, float (&s)[N][4], int h, uint64_t hash,
                                     int key)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            s[n][2 * h + e] = attention_drop(a, s[n][2 * h + e], hash, key + n * 8 + e);
}

/* 16 rows' scores become what multiplies V. Returns whether a larger score came in any, so that what is in out is to be multiplied by factor. */
template <bool DROP, int N>
__device__ __forceinline__ bool soften(const struct attention &a, int row, int key, bool masked,
                                       float (&s)[N][4], float (&most)[2], float (&sum)[2],
                                       const uint64_t (&hash)[2], float *factor)
{
    float scale = a.scale * LOG2_E;
    bool larger = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int seen = attention_sees(a, row + h * 8 + lane_of() / 4), column = key + 2 * (lane_of() % 4);
        if (masked)
            hide(s, h, column, seen);
        float before = most[h], top = fmaxf(before, largest(s, h) * scale);
        float base = top == -INFINITY && seen == 0 ? 0 : top; /* a row that sees nothing */
        most[h] = top;
        factor[h] = exp2_fast(before - base);
        sum[h] = sum[h] * factor[h] + exponentials(s, h, scale, base);
        larger |= factor[h] != 1;
        if (DROP)
            drop(a, s, h, hash[h], column);
    }
    return __any_sync(ALL_LANES, larger);
}

template <int D> __device__ __forceinline__ void rescale(float (&out)[D][4], const float *factor)
{
#pragma unroll
    for (int n = 0; n < D; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[n][i] *= factor[i / 2];
}

/* row: the warp's first; key: the tile's */
template <int D, bool DROP, int M, int N>
__device__ __forceinline__ void soften(const struct attention &a, int row, int key, soft<M> &soft,
                                       sums<M, N> &s, operand<M, N> &weights, sums<M, D> &out)
{
    bool masked = attention_sees(a, row) < key + N;
#pragma unroll
    for (int m = 0; m < M; m++) {
        float factor[2];
        if (soften<DROP>(a, row + m * 16, key, masked, s.x[m], soft.most[m], soft.sum[m], soft.hash[m],
                         factor))
            rescale(out.x[m], factor); /* seldom after the first few tiles */
        to_operand(weights, s, m);
    }
}

template <int D, int M>
__device__ __forceinline__ void end(const struct attention &a, struct place p, int row, const soft<M> &soft,
                                    const sums<M, D> &out)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = row + m * 16 + h * 8 + lane_of() / 4;
            float sum = soft.sum[m][h];
            sum += __shfl_xor_sync(ALL_LANES, sum, 1);
            sum += __shfl_xor_sync(ALL_LANES, sum, 2);
            float factor = sum == 0 ? 0 : 1 / sum;
            bool there = i < a.queries;
            size_t at = out_at(a, p.b, p.head, i);
            if (a.out)
                store_act((bf16 *)(void *)a.out + at, out, m, h, factor, there, a.size);
            else if (there)
                store_real(a.out_sum + at, out, m, h, factor, false, a.size);
            if (there && lane_of() % 4 == 0 && (a.first || attention_sees(a, i) > 0))
                a.lse[lse_at(a, p.b, p.head, i)] =
                    sum == 0 ? -INFINITY : (soft.most[m][h] + log2f(sum)) * LN_2;
        }
}

template <int D, bool DROP>
__global__ void __launch_bounds__(forward_plan<D, DROP>::threads) attention_mma_rows(struct attention a)
{
    typedef forward_plan<D, DROP> plan;
    DYN_SHARED(bf16, q);
    bf16 *k = q + plan::rows * D, *v = k + plan::keys * D, *own_q = q + warp_of() * 16 * plan::m * D;
    struct place p = query_place(a, plan::rows);
    int kv_head = p.head / (a.heads / a.kv_heads), row = p.start + warp_of() * 16 * plan::m;
    int last = attention_sees(a, min(p.start + plan::rows, a.queries) - 1),
        own_last = row < a.queries ? attention_sees(a, min(row + 16 * plan::m, a.queries) - 1) : 0;
    part q_part = own_part<D, plan::threads>(query_at(a, p.b, p.head, p.start), a.q_stride,
                                             a.queries - p.start, a.size),
         kv_part = own_part<D, plan::threads>(key_at(a, p.b, kv_head, 0), a.kv_stride, a.keys, a.size);
    tile_load<D, plan::rows, plan::threads>(q, a.q, q_part, a.q_stride);
    tile_load<D, plan::keys, plan::threads>(k, a.k, kv_part, a.kv_stride);
    cp_async_commit();
    soft<plan::m> soft;
    sums<plan::m, D> out;
    begin<D, DROP>(a, p, row, soft, out);
    for (int key = 0; key < last; key += plan::keys) {
        operand<plan::m, plan::keys> weights;
        cp_async_wait<0>();
        __syncthreads(); /* K is there; nobody reads the V before */
        tile_load<D, plan::keys, plan::threads>(v, a.v, kv_part, a.kv_stride);
        cp_async_commit();
        if (key < own_last) {
            sums<plan::m, plan::keys> s;
            clear(s);
            add_scores<D, 2>(s, own_q, k);
            soften<D, DROP>(a, row, key, soft, s, weights, out);
        }
        cp_async_wait<0>();
        __syncthreads(); /* V is there; nobody reads K any more */
        kv_part.at += plan::keys * a.kv_stride;
        kv_part.left -= plan::keys;
        if (key + plan::keys < last) {
            tile_load<D, plan::keys, plan::threads>(k, a.k, kv_part, a.kv_stride);
            cp_async_commit();
        }
        if (key < own_last)
            add_weighed<D>(out, weights, v);
    }
    cp_async_wait<0>();
    end(a, p, row, soft, out);
}

template <int D, bool DROP> static void forward(const struct attention *a)
{
    typedef forward_plan<D, DROP> plan;
    static bool ready = allow_shared((const void *)attention_mma_rows<D, DROP>, plan::shared);
    (void)ready;
    LAUNCH((attention_mma_rows<D, DROP>), query_places(a, plan::rows), plan::threads, plan::shared,
           device_stream(), *a);
}

template <int D> static void forward(const struct attention *a)
{
    a->threshold ? forward<D, true>(a) : forward<D, false>(a);
}

bool attention_mma_forward(const struct attention *a)
{
    if (!tiles_fit(a) || !in_pieces(a->q) || !in_pieces(a->k) || !in_pieces(a->v) || !in_pieces(a->out) ||
        !in_pieces(a->out_sum))
        return false;
    if (a->queries > 0)
        a->size <= 64 ? forward<64>(a) : forward<128>(a);
    return true;
}
