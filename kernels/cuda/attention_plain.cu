/* attention_plain: flash attention (Dao et al., arXiv 2205.14135) for every type, head size and alignment, in float throughout.
 *
 * A block of 16 x 16 threads works on tiles of 64 queries by 64 keys; a thread has 4 x 4 numbers of each product in registers, and
 * operands lie in shared memory with the dimension that is summed over outside: element (k, i) of both at buffer[k * PITCH + i]. Heads are
 * taken PART elements at a time where they are summed over and SIDE at a time where they are the result. Forward: a block takes a tile of
 * queries through all keys. Backward: one kernel takes a tile of keys through all queries of the heads that share it for dk and dv, another a
 * tile of queries through all keys for dq; so each sum has one order, and nothing is added to by two blocks. */
#include "kernels/cuda/attention_place.cuh"

#define SIDE 64 /* queries, and keys, of a tile */
#define PART 32
#define PITCH                                                                                                \
    68 /* SIDE and a little, so that columns lie in several banks; a multiple of 4 for 16-byte reads */

struct square {
    float x[4][4];
};

__device__ __forceinline__ int own_row()
{
    return (int)threadIdx.x / 16 * 4;
}
__device__ __forceinline__ int own_column()
{
    return (int)threadIdx.x % 16 * 4;
}

/* sum += a^T b over `depth` rows of the two buffers */
__device__ __forceinline__ void add_product(struct square *sum, const float *a, const float *b, int depth)
{
#pragma unroll 4
    for (int k = 0; k < depth; k++) {
        pack<float> left = *(const pack<float> *)(a + k * PITCH + own_row()),
                    right = *(const pack<float> *)(b + k * PITCH + own_column());
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                sum->x[i][j] += left.x[i] * right.x[j];
    }
}

/* buffer (PART, SIDE) = elements from .. of the tokens, turned; what is beyond the last or `size` is 0 */
template <class T>
__device__ __forceinline__ void lay_turned(float *buffer, struct tokens<T> x, int from, int size)
{
#pragma unroll 4
    for (int e = (int)threadIdx.x; e < PART * SIDE; e += THREADS) {
        int j = e % PART, i = e / PART;
        buffer[j * PITCH + i] = i < x.count && from + j < size ? to_float(x.x[i * x.stride + from + j]) : 0;
    }
}

/* buffer (SIDE, SIDE) = the same as it lies */
template <class T> __device__ __forceinline__ void lay(float *buffer, struct tokens<T> x, int from, int size)
{
#pragma unroll 4
    for (int e = (int)threadIdx.x; e < SIDE * SIDE; e += THREADS) {
        int j = e % SIDE, i = e / SIDE;
        buffer[i * PITCH + j] = i < x.count && from + j < size ? to_float(x.x[i * x.stride + from + j]) : 0;
    }
}

/* buffer = the square, or its transpose: each thread its own part */
__device__ __forceinline__ void keep(float *buffer, const struct square *s, bool turned)
{
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int row = own_row() + i, column = own_column() + j;
            buffer[turned ? column * PITCH + row : row * PITCH + column] = s->x[i][j];
        }
}

/* a b^T; begins free of barriers and ends with one */
template <class T>
__device__ __forceinline__ struct square score(float *room, struct tokens<T> a, struct tokens<T> b, int size)
{
    struct square s = {};
    float *second = room + PART * PITCH;
    for (int from = 0; from < size; from += PART) {
        lay_turned(room, a, from, size);
        lay_turned(second, b, from, size);
        __syncthreads();
        add_product(&s, room, second, PART);
        __syncthreads();
    }
    return s;
}

/* sums[c] += kept^T (columns c * SIDE .. of x), `kept` as the threads have just left it; ends with a barrier */
template <class T, int PARTS>
__device__ __forceinline__ void gather(struct square *sums, const float *kept, float *room,
                                       struct tokens<T> x, int size)
{
#pragma unroll
    for (int c = 0; c < PARTS; c++)
        if (c * SIDE < size) {
            lay(room, x, c * SIDE, size);
            __syncthreads();
            add_product(&sums[c], kept, room, SIDE);
            __syncthreads();
        }
}

/* Over the 16 threads that share rows. */
__device__ __forceinline__ float row_sum(float x)
{
    for (int d = 8; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}
__device__ __forceinline__ float row_max(float x)
{
    for (int d = 8; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, d));
    return x;
}

/* ---- forward ---- */

/* One row's softmax so far (Milakov, Gimelshein, arXiv 1805.02867), in base 2. */
struct soft {
    float most, sum;
    int seen; /* keys that the row sees; 0 past the last */
    uint64_t hash;
};

__device__ __forceinline__ struct soft soft_begin(const struct attention &a, struct place p, int row)
{
    struct soft s = {-INFINITY, 0, 0, 0};
    if (row >= a.queries)
        return s;
    if (!a.first)
        s.most = a.lse[lse_at(a, p.b, p.head, row)] * LOG2_E;
    s.sum = s.most == -INFINITY ? 0 : 1;
    s.seen = attention_sees(a, row);
    if (a.threshold)
        s.hash = attention_hash(a, p.b, p.head, row);
    return s;
}

/* The thread's four scores of a row become what multiplies v. Returns what the sums before are multiplied by. */
__device__ __forceinline__ float soften(const struct attention &a, struct soft *s, float *x, int key)
{
    for (int j = 0; j < 4; j++)
        if (key + j >= s->seen)
            x[j] = -INFINITY;
    float top = row_max(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]))), scale = a.scale * LOG2_E;
    top = fmaxf(s->most, top * scale);
    float base = s->seen > 0 ? top : 0, factor = exp2f(s->most - base), sum = 0;
    for (int j = 0; j < 4; j++) {
        x[j] = exp2f(x[j] * scale - base);
        sum += x[j];
        if (a.threshold)
            x[j] = attention_drop(a, x[j], s->hash, key + j);
    }
    s->most = top;
    s->sum = s->sum * factor + row_sum(sum);
    return factor;
}

template <class T>
__device__ __forceinline__ void row_begin(const struct attention &a, struct place p, int row, int column,
                                          float *out)
{
    for (int j = 0; j < 4; j++)
        out[j] = !a.first && row < a.queries && column + j < a.size
                     ? a.out_sum[out_at(a, p.b, p.head, row) + column + j]
                     : 0;
}

/* Four elements of a row from `column` on. */
template <class T>
__device__ __forceinline__ void row_end(const struct attention &a, struct place p, int row, int column,
                                        const struct soft *s, const float *out)
{
    float factor = s->sum == 0 ? 0 : 1 / s->sum;
    size_t at = out_at(a, p.b, p.head, row) + column;
    for (int j = 0; j < 4 && column + j < a.size; j++)
        if (a.out)
            ((T *)(void *)a.out)[at + j] = from_float<T>(out[j] * factor);
        else
            a.out_sum[at + j] = out[j] * factor;
    if (column == 0)
        a.lse[lse_at(a, p.b, p.head, row)] = s->sum == 0 ? -INFINITY : (s->most + log2f(s->sum)) * LN_2;
}

template <class T, int PARTS>
__global__ void __launch_bounds__(THREADS) attention_plain_rows(struct attention a)
{
    SHARED(float, room, SIDE *PITCH);
    SHARED(float, kept, SIDE *PITCH);
    struct place p = query_place(a, SIDE);
    int kv_head = p.head / (a.heads / a.kv_heads), row = p.start + own_row();
    struct square out[PARTS];
    struct soft soft[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        soft[i] = soft_begin(a, p, row + i);
#pragma unroll
        for (int c = 0; c < PARTS; c++)
            row_begin<T>(a, p, row + i, c * SIDE + own_column(), out[c].x[i]);
    }
    int end = attention_sees(a, min(p.start + SIDE, a.queries) - 1);
    for (int key = 0; key < end; key += SIDE) {
        struct square s = score(room, queries_from<T>(a, a.q, p.b, p.head, p.start),
                                keys_from<T>(a, a.k, p.b, kv_head, key), a.size);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float factor = soften(a, &soft[i], s.x[i], key + own_column());
#pragma unroll
            for (int c = 0; c < PARTS; c++)
                for (int j = 0; j < 4; j++)
                    out[c].x[i][j] *= factor;
        }
        keep(kept, &s, true);
        gather<T, PARTS>(out, kept, room, keys_from<T>(a, a.v, p.b, kv_head, key), a.size);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int c = 0; c < PARTS; c++)
            if (row + i < a.queries && (a.first || soft[i].seen > 0))
                row_end<T>(a, p, row + i, c * SIDE + own_column(), &soft[i], out[c].x[i]);
}

/* ---- backward ---- */

/* Scores of a tile become the probabilities that multiply dout, and dp, the products of dout and v, what multiplies q and k. */
__device__ __forceinline__ void weigh(const struct attention &a, const struct attention_row *rows, int row,
                                      int key, struct square *s, struct square *dp)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        bool there = row + i < a.queries;
        struct attention_row r = {0, 0, 0};
        if (there)
            r = rows[row + i];
        int seen = there ? attention_sees(a, row + i) - key : 0;
        for (int j = 0; j < 4; j++) {
            float x = j < seen ? exp2f(s->x[i][j] * (a.scale * LOG2_E) - r.lse) : 0, y = dp->x[i][j];
            s->x[i][j] = a.threshold ? attention_drop(a, x, r.hash, key + j) : x;
            if (a.threshold)
                y = attention_drop(a, y, r.hash, key + j);
            dp->x[i][j] = j < seen ? x * (y - r.delta) * a.scale : 0;
        }
    }
}

/* Four elements of a gradient from `column` of its head on. */
template <class T>
__device__ __forceinline__ void row_store(act *whole, real *sum, size_t at, int column, int size,
                                          const float *x)
{
    for (int j = 0; j < 4 && column + j < size; j++)
        if (whole)
            ((T *)(void *)whole)[at + column + j] = from_float<T>(x[j]);
        else
            sum[at + column + j] += x[j];
}

/* Both tiles' scores and dp, weighed. */
template <class T>
__device__ __forceinline__ void score_both(const struct attention &a, const struct attention_row *rows,
                                           float *room, struct place p, int head, int row, int kv_head,
                                           int key, struct square *s, struct square *dp)
{
    *s =
        score(room, queries_from<T>(a, a.q, p.b, head, row), keys_from<T>(a, a.k, p.b, kv_head, key), a.size);
    *dp =
        score(room, outs_from<T>(a, a.dout, p.b, head, row), keys_from<T>(a, a.v, p.b, kv_head, key), a.size);
    weigh(a, rows + (size_t)(p.b * a.heads + head) * a.queries, row + own_row(), key + own_column(), s, dp);
}

template <class T, int PARTS>
__global__ void __launch_bounds__(THREADS)
    attention_plain_keys(struct attention a, const struct attention_row *rows)
{
    SHARED(float, room, SIDE *PITCH);
    SHARED(float, kept, SIDE *PITCH);
    struct place p = key_place(a, SIDE);
    struct square dk[PARTS] = {}, dv[PARTS] = {}, s, dp;
    int group = a.heads / a.kv_heads;
    for (int head = p.head * group; head < (p.head + 1) * group; head++)
        for (int row = attention_first_query(a, p.start); row < a.queries; row += SIDE) {
            score_both<T>(a, rows, room, p, head, row, p.head, p.start, &s, &dp);
            keep(kept, &s, false);
            gather<T, PARTS>(dv, kept, room, outs_from<T>(a, a.dout, p.b, head, row), a.size);
            keep(kept, &dp, false);
            gather<T, PARTS>(dk, kept, room, queries_from<T>(a, a.q, p.b, head, row), a.size);
        }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int key = p.start + own_row() + i;
        size_t at = key_at(a, p.b, p.head, key);
#pragma unroll
        for (int c = 0; c < PARTS; c++)
            if (key < a.keys) {
                row_store<T>(a.dk, a.dk_sum, at, c * SIDE + own_column(), a.size, dk[c].x[i]);
                row_store<T>(a.dv, a.dv_sum, at, c * SIDE + own_column(), a.size, dv[c].x[i]);
            }
    }
}

template <class T, int PARTS>
__global__ void __launch_bounds__(THREADS)
    attention_plain_queries(struct attention a, const struct attention_row *rows)
{
    SHARED(float, room, SIDE *PITCH);
    SHARED(float, kept, SIDE *PITCH);
    struct place p = query_place(a, SIDE);
    struct square dq[PARTS] = {}, s, dp;
    int kv_head = p.head / (a.heads / a.kv_heads);
    int end = attention_sees(a, min(p.start + SIDE, a.queries) - 1);
    for (int key = 0; key < end; key += SIDE) {
        score_both<T>(a, rows, room, p, p.head, p.start, kv_head, key, &s, &dp);
        keep(kept, &dp, true);
        gather<T, PARTS>(dq, kept, room, keys_from<T>(a, a.k, p.b, kv_head, key), a.size);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = p.start + own_row() + i;
#pragma unroll
        for (int c = 0; c < PARTS; c++)
            if (row < a.queries)
                row_store<T>(a.dq, a.dq_sum, query_at(a, p.b, p.head, row), c * SIDE + own_column(), a.size,
                             dq[c].x[i]);
    }
}

template <class T, int PARTS> static void forward(const struct attention *a)
{
    if (a->queries > 0)
        LAUNCH((attention_plain_rows<T, PARTS>), query_places(a, SIDE), THREADS, 0, device_stream(), *a);
}

template <class T, int PARTS> static void backward(const struct attention *a)
{
    const struct attention_row *rows = attention_rows(a);
    if (a->keys > 0)
        LAUNCH((attention_plain_keys<T, PARTS>), key_places(a, SIDE), THREADS, 0, device_stream(), *a, rows);
    if (a->queries > 0)
        LAUNCH((attention_plain_queries<T, PARTS>), query_places(a, SIDE), THREADS, 0, device_stream(), *a,
               rows);
}

/* The accumulators lie in registers, so their number is fixed for a kernel. */
template <class T, int PARTS> static void sized(const struct attention *a, bool back)
{
    back ? backward<T, PARTS>(a) : forward<T, PARTS>(a);
}

static void choose(const struct attention *a, bool back)
{
    if (a->size > ATTENTION_SIZE)
        device_fail("attention",
                    "heads of more than 256 elements do not fit its tiles; train such a model on CPUs, or "
                    "give it more heads");
    if (a->half) /* seldom: head sizes and strides that the path on mma does not take */
        sized<bf16, 4>(a, back);
    else if (a->size <= SIDE)
        sized<float, 1>(a, back);
    else if (a->size <= 2 * SIDE)
        sized<float, 2>(a, back);
    else
        sized<float, 4>(a, back);
}

void attention_plain_forward(const struct attention *a)
{
    choose(a, false);
}

void attention_plain_backward(const struct attention *a)
{
    choose(a, true);
}
