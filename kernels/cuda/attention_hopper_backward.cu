/* attention_hopper_backward: the gradients of attention on wgmma. The probabilities are computed again from lse (Dao et al., arXiv 2205.14135, appendix B.2).
 *
 * Two kernels, so that nobody adds to what another block adds to: one keeps 128 keys and lets the queries of all heads of their group pass by, in
 * order, for dk and dv; one keeps 128 queries and lets the keys pass by, for dq. Both are the same program: with `own` the tiles that stay
 * and `passing` those that pass (keys and values; queries and dout), a warpgroup makes the scores own[0] passing[0]^T and the
 * gradients of the probabilities own[1] passing[1]^T, turned or not, in its registers, and multiplies what they become with the passing tiles. So
 * nothing but loads by TMA is ever written to shared memory. */
#include "kernels/cuda/attention_hopper.cuh"

#define PASSING 64 /* rows of a passing tile */
#define STAGES  3  /* of passing tiles */

template <int SIZE> struct backward_room {
    unsigned char own[2][PARTS(SIZE)][TILE(ROWS)];
    unsigned char passing[STAGES][2][PARTS(SIZE)][TILE(PASSING)];
    struct attention_row rows[STAGES][PASSING]; /* of passing queries */
    struct signals own_signals, passing_signals[STAGES];
};

struct maps {
    tensor_map own[2], passing[2];
};

/* What passes by a block: the tiles first .. first+count-1 of each of `heads` heads. */
struct work {
    struct place at;
    int head, heads, first, count;
};

template <bool OF_KEYS> __device__ static struct work work_of(const struct attention &a)
{
    if (OF_KEYS) {
        struct place at = key_place(a, ROWS);
        int group = a.heads / a.kv_heads, first = attention_first_query(a, at.start) / PASSING,
            end = (a.queries + PASSING - 1) / PASSING;
        return {at, at.head * group, group, first, max(end - first, 0)};
    }
    struct place at = query_place(a, ROWS);
    int seen = attention_sees(a, min(at.start + ROWS, a.queries) - 1);
    return {at, at.head / (a.heads / a.kv_heads), 1, 0, (seen + PASSING - 1) / PASSING};
}

/* Of step n: its head, and its first row. */
__device__ __forceinline__ int head_at(const struct work &w, int n)
{
    return w.head + n / w.count;
}
__device__ __forceinline__ int start_at(const struct work &w, int n)
{
    return (w.first + n % w.count) * PASSING;
}

/* ---- loading ---- */

template <int SIZE, bool OF_KEYS>
__device__ static void load_step(const struct attention &a, const struct work &w, const struct maps &maps,
                                 const struct attention_row *rows, struct backward_room<SIZE> *room, int n)
{
    int stage = n % STAGES, head = head_at(w, n), start = start_at(w, n);
    uint32_t row_bytes =
        OF_KEYS ? min(PASSING, a.queries - start) * (uint32_t)sizeof(struct attention_row) : 0;
    struct signals *s = &room->passing_signals[stage];
    wait_empty(s, n / STAGES);
    mbarrier_expect(&s->full, 2 * PARTS(SIZE) * TILE(PASSING) + row_bytes);
    for (int i = 0; i < 2; i++)
        load_tile<SIZE>(room->passing[stage][i], &maps.passing[i], &s->full, w.at.b, start, head);
    if (OF_KEYS)
        bulk_load(room->rows[stage], rows + ((size_t)w.at.b * a.heads + head) * a.queries + start, row_bytes,
                  &s->full);
}

template <int SIZE, bool OF_KEYS>
__device__ static void load_all(const struct attention &a, const struct work &w, const struct maps &maps,
                                const struct attention_row *rows, struct backward_room<SIZE> *room)
{
    struct signals *s = &room->own_signals;
    mbarrier_expect(&s->full, 2 * PARTS(SIZE) * TILE(ROWS));
    for (int i = 0; i < 2; i++)
        load_tile<SIZE>(room->own[i], &maps.own[i], &s->full, w.at.b, w.at.start, w.at.head);
    for (int n = 0; n < w.heads * w.count; n++)
        load_step<SIZE, OF_KEYS>(a, w, maps, rows, room, n);
}

/* ---- computing ---- */

/* What a thread holds, in the layout of wgmma: rows are own ones, columns passing ones. */
template <int SIZE> struct sums {
    float d[SIZE / 2], dv[SIZE / 2];                  /* d: dk or dq, before its scale */
    float score[PASSING / 2], dp[PASSING / 2];        /* then probabilities and the scores' gradients */
    uint32_t p[PASSING / 16][4], ds[PASSING / 16][4]; /* those as operands */
    float lse[2], delta[2];                           /* of own queries */
};

/* score becomes the probabilities. passing: rows of passing queries, or NULL */
template <int SIZE>
__device__ __forceinline__ void soften(struct sums<SIZE> *x, const struct attention_row *passing, float scale)
{
#pragma unroll
    for (int i = 0; i < PASSING / 2; i++) {
        int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        x->score[i] = exp2_fast(x->score[i] * scale - (passing ? passing[column].lse : x->lse[i / 2 % 2]));
    }
}

/* Probabilities of what is not seen become 0: of each row all but the columns from..end-1. */
__device__ __forceinline__ void hide(float (&p)[PASSING / 2], const int (&from)[2], const int (&end)[2])
{
#pragma unroll
    for (int i = 0; i < PASSING / 2; i++) {
        int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, r = i / 2 % 2;
        if (column < from[r] || column >= end[r])
            p[i] = 0;
    }
}

template <bool OF_KEYS>
__device__ __forceinline__ void hide_step(float (&p)[PASSING / 2], const struct attention &a, int row,
                                          int start)
{
    int from[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        from[r] = OF_KEYS ? attention_first_query(a, row + 8 * r) - start : 0;
        end[r] = (OF_KEYS ? a.queries : attention_sees(a, row + 8 * r)) - start;
    }
    bool all = from[1] <= 0 && end[0] >= PASSING; /* of both rows: the limits grow with the row */
    if (!all)
        hide(p, from, end);
}

/* dp becomes the scores' gradients. Where p is 0 they are 0, whatever stands in the rows of queries that are none. */
template <int SIZE>
__device__ __forceinline__ void score_gradients(struct sums<SIZE> *x, const struct attention_row *passing)
{
#pragma unroll
    for (int i = 0; i < PASSING / 2; i++) {
        int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        float delta = passing ? passing[column].delta : x->delta[i / 2 % 2], p = x->score[i];
        x->dp[i] = p == 0 ? 0 : p * (x->dp[i] - delta);
    }
}

template <int SIZE>
__device__ __forceinline__ void issue_both_scores(struct sums<SIZE> *x,
                                                  const struct backward_room<SIZE> *room, int stage)
{
    int row = TILE(GROUP_ROWS) * my_group();
    settle(x->score);
    settle(x->dp);
    wgmma_fence();
    issue_scores<SIZE>(x->score, shared_address(&room->own[0][0][row]), TILE(ROWS),
                       shared_address(room->passing[stage][0][0]), TILE(PASSING));
    issue_scores<SIZE>(x->dp, shared_address(&room->own[1][0][row]), TILE(ROWS),
                       shared_address(room->passing[stage][1][0]), TILE(PASSING));
}

/* Issues d (64,SIZE) += p times passing tile i. */
template <int SIZE>
__device__ __forceinline__ void issue_sums(float (&d)[SIZE / 2], uint32_t (&p)[PASSING / 16][4],
                                           const struct backward_room<SIZE> *room, int stage, int i)
{
    settle(d);
    settle(p);
    wgmma_fence();
    issue_weighing(d, p, shared_address(room->passing[stage][i][0]), TILE(PASSING));
}

template <int SIZE, bool OF_KEYS>
__device__ __forceinline__ void step(struct sums<SIZE> *x, const struct attention &a, const struct work &w,
                                     struct backward_room<SIZE> *room, int n)
{
    int stage = n % STAGES;
    const struct attention_row *passing = OF_KEYS ? room->rows[stage] : NULL;
    wait_full(&room->passing_signals[stage], n / STAGES);
    issue_both_scores<SIZE>(x, room, stage);
    wgmma_wait<1>();
    settle(x->score);
    soften<SIZE>(x, passing, a.scale * LOG2_E);
    hide_step<OF_KEYS>(x->score, a, w.at.start + my_row(), start_at(w, n));
    if (OF_KEYS) {
        to_operands(x->p, x->score);
        issue_sums<SIZE>(x->dv, x->p, room, stage, 1);
        wgmma_wait<1>();
    } else {
        wgmma_wait<0>();
    }
    settle(x->dp);
    score_gradients<SIZE>(x, passing);
    to_operands(x->ds, x->dp);
    issue_sums<SIZE>(x->d, x->ds, room, stage, 0);
    wgmma_wait<0>();
    settle(x->d);
    if (OF_KEYS)
        settle(x->dv);
    give_empty(&room->passing_signals[stage]);
}

/* Row r, times factor, to whole (overwritten, rounded) or sum (added to): arrays that are not NULL. All lanes call. */
template <int D>
__device__ __forceinline__ void finish_row(act *whole, real *sum, size_t at, const float (&x)[D], int r,
                                           float factor, bool there)
{
    if (whole)
        write_row((bf16 *)(void *)whole + at, x, r, factor, there);
    else if (there)
        merge_row(sum + at, x, r, 1, factor);
}

template <int SIZE, bool OF_KEYS>
__device__ __forceinline__ void finish(const struct sums<SIZE> *x, const struct attention &a,
                                       const struct work &w)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int row = w.at.start + my_row() + 8 * r;
        bool there = row < (OF_KEYS ? a.keys : a.queries);
        size_t at = OF_KEYS ? key_at(a, w.at.b, w.at.head, row) : query_at(a, w.at.b, w.at.head, row);
        finish_row(OF_KEYS ? a.dk : a.dq, OF_KEYS ? a.dk_sum : a.dq_sum, at, x->d, r, a.scale, there);
        if (OF_KEYS)
            finish_row(a.dv, a.dv_sum, at, x->dv, r, 1, there);
    }
}

template <int SIZE, bool OF_KEYS>
__device__ __forceinline__ void compute_all(const struct attention &a, const struct work &w,
                                            const struct attention_row *rows,
                                            struct backward_room<SIZE> *room)
{
    struct sums<SIZE> x;
    set_zero(x.d);
    if (OF_KEYS)
        set_zero(x.dv);
#pragma unroll
    for (int r = 0; !OF_KEYS && r < 2; r++) {
        int row = w.at.start + my_row() + 8 * r;
        const struct attention_row *own = rows + ((size_t)w.at.b * a.heads + w.at.head) * a.queries + row;
        x.lse[r] = row < a.queries ? own->lse : 0;
        x.delta[r] = row < a.queries ? own->delta : 0;
    }
    wait_full(&room->own_signals, 0);
    for (int n = 0; n < w.heads * w.count; n++)
        step<SIZE, OF_KEYS>(&x, a, w, room, n);
    finish<SIZE, OF_KEYS>(&x, a, w);
}

template <int SIZE, bool OF_KEYS>
__global__ void __launch_bounds__(BLOCK, 1)
    attention_wgmma_backward(const struct attention a, const struct attention_row *rows,
                             const __grid_constant__ struct maps maps)
{
    DYN_SHARED(unsigned char, dynamic);
    struct backward_room<SIZE> *room = (struct backward_room<SIZE> *)tile_start(dynamic);
    if (threadIdx.x == 0) {
        signals_init(&room->own_signals);
        for (int i = 0; i < STAGES; i++)
            signals_init(&room->passing_signals[i]);
        mbarrier_init_fence();
    }
    __syncthreads();
    struct work w = work_of<OF_KEYS>(a);
    if (threadIdx.x >= WARPGROUP) { /* first, for ptxas: see attention_hopper.cu */
        registers_take<COMPUTE_REGISTERS>();
        compute_all<SIZE, OF_KEYS>(a, w, rows, room);
    } else {
        registers_give<LOADER_REGISTERS>();
        if (threadIdx.x == 0)
            load_all<SIZE, OF_KEYS>(a, w, maps, rows, room);
    }
}

/* ---- host ---- */

template <int SIZE, bool OF_KEYS>
static void run(const struct attention *a, const struct attention_row *rows, const struct maps &maps)
{
    auto kernel = attention_wgmma_backward<SIZE, OF_KEYS>;
    size_t shared = sizeof(struct backward_room<SIZE>) + SWIZZLE_UNIT;
    static bool prepared;
    if (!prepared)
        CHECK(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)shared));
    prepared = true;
    LAUNCH(kernel, OF_KEYS ? key_places(a, ROWS) : query_places(a, ROWS), BLOCK, shared, device_stream(), *a,
           rows, maps);
}

/* Keys and values, and queries and dout, as tiles of `keys` and `queries` rows. */
static bool map_both(tensor_map *keys, int key_rows, tensor_map *queries, int query_rows,
                     const struct attention *a)
{
    return attention_map_keys(&keys[0], a->k, a, key_rows) &&
           attention_map_keys(&keys[1], a->v, a, key_rows) &&
           attention_map_queries(&queries[0], a->q, a, query_rows) &&
           attention_map_outs(&queries[1], a->dout, a, query_rows);
}

bool attention_hopper_backward(const struct attention *a)
{
    struct maps of_keys, of_queries;
    if (!attention_hopper_takes(a) || !attention_rows_aligned(a->dq, a->dq_sum, a->q_stride, a->q_batch) ||
        !attention_rows_aligned(a->dk, a->dk_sum, a->kv_stride, a->kv_batch) ||
        !attention_rows_aligned(a->dv, a->dv_sum, a->kv_stride, a->kv_batch) ||
        !map_both(of_keys.own, ROWS, of_keys.passing, PASSING, a) ||
        !map_both(of_queries.passing, PASSING, of_queries.own, ROWS, a))
        return false;
    const struct attention_row *rows = attention_rows(a);
    if (a->size == 64) {
        run<64, true>(a, rows, of_keys);
        run<64, false>(a, rows, of_queries);
    } else {
        run<128, true>(a, rows, of_keys);
        run<128, false>(a, rows, of_queries);
    }
    return true;
}
