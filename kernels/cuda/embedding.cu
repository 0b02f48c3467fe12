/* embedding: rows of a table by token, plus rows of a table by position.
 *
 * Backward, many tokens may add to one row of the table, and some rows get a large part of all. The tokens are sorted by row, so that those of one
 * row follow each other in their order, and that list is cut into pieces of equal length, whatever rows they belong to. A block adds up the
 * tokens of its piece row by row. A row whose tokens all lie in the piece is added to the table at once; what belongs to a row that goes on
 * in another piece is kept, at most two sums a piece, and a second kernel adds those up, one after another piece. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/sort.h"
#include "kernels/cuda/wide.cuh"

/* The part of the table that is here. */
struct table_part {
    int32_t first;
    uint32_t rows;
};

/* The token's row in this part, or `rows`. In 64 bits: no token, not even a broken one, wraps into the part. */
__device__ __forceinline__ uint32_t row_of(int32_t token, const struct table_part &part)
{
    int64_t row = (int64_t)token - part.first;
    return row >= 0 && row < part.rows ? (uint32_t)row : part.rows;
}

template <int W, class T>
__global__ void rows_each(T *out, const int32_t *tokens, const T *table, struct table_part part, size_t count,
                          size_t c)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    if (n == 0)
        return;
    struct place p = place_of(at, c);
    uint32_t row = row_of(tokens[p.row], part);
    T v[W]; /* to the bit */
    load_wide<W>(v, table + row * c + p.column, row < part.rows ? n : 0);
    store_wide<W>(out + at, v, n);
}

template <class T>
static void embedding_forward(act *out, const int32_t *tokens, const act *table, int32_t first, size_t rows,
                              size_t n, size_t c)
{
    T *to = elements<T>(out);
    const T *from = elements<T>(table);
    struct table_part part = {first, (uint32_t)rows};
    if (n * c > 0)
        LAUNCH_EACH(rows_each, T, aligned16(to, c) && aligned16(from, c), n * c, device_stream(), to, tokens,
                    from, part, n * c, c);
}

template <int W, class T>
__global__ void add_rows_each(T *x, const T *table, const int32_t *positions, size_t count, size_t c)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    if (n == 0)
        return;
    struct place p = place_of(at, c);
    float sum[W], v[W];
    load_wide<W>(sum, x + at, n);
    load_wide<W>(v, table + (size_t)positions[p.row] * c + p.column, n);
#pragma unroll
    for (int i = 0; i < W; i++)
        sum[i] += v[i];
    store_wide<W>(x + at, sum, n);
}

template <class T>
static void position_forward(act *x, const act *table, const int32_t *positions, size_t n, size_t c)
{
    T *to = elements<T>(x);
    const T *from = elements<T>(table);
    if (n * c > 0)
        LAUNCH_EACH(add_rows_each, T, aligned16(to, c) && aligned16(from, c), n * c, device_stream(), to,
                    from, positions, n * c, c);
}

/* ---- backward ---- */

#define PIECE         32  /* tokens */
#define PIECE_THREADS 128 /* each for W columns */
#define AHEAD         4   /* rows of dout under way */
#define NO_ROW        0xffffffffu

static __global__ void enter_tokens(uint64_t *entries, const int32_t *tokens, struct table_part part,
                                    size_t n)
{
    size_t i = thread_number();
    if (i < n)
        entries[i] = (uint64_t)row_of(tokens[i], part) << 32 | i;
}

__device__ __forceinline__ uint32_t entry_row(const uint64_t *entries, size_t i)
{
    return (uint32_t)(entries[i] >> 32);
}

/* to (W) = sum, or +=; sum becomes 0. */
template <int W> __device__ __forceinline__ void give_sum(float *to, bool accumulate, float *sum)
{
    float before[W];
    if (accumulate) {
        load_wide<W>(before, to, W);
#pragma unroll
        for (int i = 0; i < W; i++)
            sum[i] += before[i];
    }
    store_wide<W>(to, sum, W);
#pragma unroll
    for (int i = 0; i < W; i++)
        sum[i] = 0;
}

/* dtable (rows,c) += the sums of rows that lie in one piece. Of the others sums (pieces,2,c) get what is in the piece: [.][0] of a row that began
 * before it, [.][1] of one that begins in it and goes on behind. Entries of no row are the last ones. */
template <int W, class T>
__global__ void sum_pieces(float *dtable, float *sums, const T *dout, const uint64_t *entries, uint32_t rows,
                           size_t n, size_t c)
{
    size_t piece = blockIdx.x, begin = piece * PIECE, end = begin + PIECE < n ? begin + PIECE : n;
    size_t column = ((size_t)blockIdx.y * PIECE_THREADS + threadIdx.x) * W;
    if (column >= c)
        return;
    uint32_t row_before = begin > 0 ? entry_row(entries, begin - 1) : NO_ROW;
    uint32_t row_behind = end < n ? entry_row(entries, end) : NO_ROW;
    float sum[W] = {0};
    for (size_t i = begin; i < end; i += AHEAD) {
        float v[AHEAD][W];
        uint32_t row[AHEAD + 1];
#pragma unroll
        for (int k = 0; k <= AHEAD; k++)
            row[k] = i + k < end ? entry_row(entries, i + k) : NO_ROW;
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            bool counts = row[k] < rows;
            size_t token = counts ? (uint32_t)entries[i + k] : 0;
            load_wide<W>(v[k], dout + token * c + column, counts ? W : 0);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (row[k] >= rows)
                return;
#pragma unroll
            for (int j = 0; j < W; j++)
                sum[j] += v[k][j];
            if (row[k] == row[k + 1])
                continue;
            bool head = row[k] == row_before;
            bool tail = !head && row[k] == row_behind;
            float *to = head || tail ? sums + (2 * piece + tail) * c : dtable + row[k] * c;
            give_sum<W>(to + column, !head && !tail, sum);
        }
    }
}

/* dtable += the rows that lie in several pieces: of the block's row, which begins in its piece, the tail there and the heads of those behind. */
template <int W>
static __global__ void add_pieces(float *dtable, const float *sums, const uint64_t *entries, uint32_t rows,
                                  size_t n, size_t c)
{
    SHARED(float, room, THREADS *W);
    size_t piece = blockIdx.x, begin = piece * PIECE, end = begin + PIECE;
    uint32_t row = entry_row(entries, end - 1);
    if (row >= rows || entry_row(entries, end) != row)
        return;
    if (begin > 0 && entry_row(entries, begin - 1) == row)
        return;
    size_t low = piece + 1, high = (n + PIECE - 1) / PIECE;
    while (high - low > 1) { /* the last piece that begins with the row */
        size_t middle = low + (high - low) / 2;
        if (entry_row(entries, middle * PIECE) == row)
            low = middle;
        else
            high = middle;
    }
    int lane = threadIdx.x % WARP, team = threadIdx.x / WARP;
    size_t column = ((size_t)blockIdx.y * WARP + lane) * W;
    float sum[W] = {0};
    if (column < c) {
        if (team == 0)
            columns_rows_added<W, 1>(sum, sums + (2 * piece + 1) * c + column, 0);
        columns_team_rows<W>(sum, sums + column, 2 * c, piece + 1, low + 1);
    }
    float all = columns_over_teams<W>(sum, room);
    if (team < W && column + team < c)
        dtable[row * c + column + team] += all;
}

template <int W, class T>
static void add_sorted(float *dtable, const T *dout, const uint64_t *entries, size_t rows, size_t n, size_t c)
{
    size_t pieces = (n + PIECE - 1) / PIECE, width = (size_t)PIECE_THREADS * W;
    float *sums = (float *)arena_scratch(SCRATCH_SUMS, 2 * pieces * c * sizeof *sums);
    dim3 grid((unsigned)pieces, (unsigned)((c + width - 1) / width));
    LAUNCH((sum_pieces<W, T>), grid, PIECE_THREADS, 0, device_stream(), dtable, sums, dout, entries,
           (uint32_t)rows, n, c);
    if (pieces == 1)
        return;
    const int wide = W > 1 ? 4 : 1;
    dim3 borders((unsigned)(pieces - 1), (unsigned)((c + WARP * wide - 1) / (WARP * wide)));
    LAUNCH((add_pieces<wide>), borders, THREADS, 0, device_stream(), dtable, sums, entries, (uint32_t)rows, n,
           c);
}

static int bits_of(size_t x)
{
    int bits = 0;
    while (x >> bits)
        bits++;
    return bits;
}

/* The numbers of the n tokens, sorted by row: in SCRATCH_SORT. */
static const uint64_t *sort_tokens(const int32_t *tokens, int32_t first, size_t rows, size_t n)
{
    size_t bytes = 2 * n * sizeof(uint64_t) + sort_counts(n) * sizeof(uint32_t);
    uint64_t *entries = (uint64_t *)arena_scratch(SCRATCH_SORT, bytes);
    struct sort_room room = {entries, entries + n, (uint32_t *)(void *)(entries + 2 * n)};
    struct table_part part = {first, (uint32_t)rows};
    LAUNCH(enter_tokens, blocks_each(n, 1), THREADS, 0, device_stream(), entries, tokens, part, n);
    return sort_entries(&room, n, bits_of(rows));
}

template <class T>
static void embedding_backward(real *dtable, const act *dout, const int32_t *tokens, int32_t first,
                               size_t rows, size_t n, size_t c)
{
    const T *from = elements<T>(dout);
    if (n * c == 0)
        return;
    const uint64_t *entries = sort_tokens(tokens, first, rows, n);
    if (aligned16(from, c) && aligned16(dtable, c))
        add_sorted<pack<T>::size>(dtable, from, entries, rows, n, c);
    else
        add_sorted<1>(dtable, from, entries, rows, n, c);
}

template <class T>
static void position_backward(real *dtable, const act *dout, const int32_t *positions, size_t rows, size_t n,
                              size_t c)
{
    embedding_backward<T>(dtable, dout, positions, 0, rows, n, c);
}

template <class T> static void fill(struct kernels *table)
{
    table->embedding_forward = embedding_forward<T>;
    table->embedding_backward = embedding_backward<T>;
    table->position_forward = position_forward<T>;
    table->position_backward = position_backward<T>;
}

CUDA_FILL(embedding)
{
    table->type == KERNEL_BF16 ? fill<bf16>(table) : fill<float>(table);
}
