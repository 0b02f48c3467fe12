/* attention: in tiles of query rows by keys, so that scratch is small and fixed whatever the context.
 *
 * Forward: the softmax of a row is built up tile by tile (Milakov, Gimelshein, arXiv 1805.02867): `most` and `sum` hold the largest score
 * so far and the sum of e^(score - most), and what is already in `out` is scaled down when a larger score comes. A later block of keys
 * goes on from what out and lse hold. Every block of query rows is a task of its own. Backward: one task per key head goes through its
 * query heads and tiles in order, so that dk and dv are added up in one order. Tasks write disjoint outputs, hence who takes which does
 * not matter. */
#include <math.h>
#include <stdlib.h>

#include "common/mem.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/hash.h"
#include "kernels/cpu/vmath.h"

#define ROWS 64
#define KEYS 256

/* A call's arrays, and after head_at one query head's, each at its first token. Forward writes out and lse; backward reads them as
 * kept_out and kept_lse. */
struct head {
    const struct kernel_attention *shape;
    const elem *q, *k, *v, *dout, *kept_out;
    const real *kept_lse;
    real *dq, *dk, *dv, *out, *lse;
    real scale; /* 1/sqrt(size) */
    bool first;
    /* dropout: row id of query 0 and the key of this head; threshold 0 keeps everything */
    uint64_t key, row_id;
    uint32_t threshold;
};

struct tile {
    size_t row, rows, key, keys;
};

/* What a task works in: tiles of scores, and of operands where they have to become reals first. */
struct room {
    real score[ROWS * KEYS], dscore[ROWS * KEYS];
    real operands[]; /* q (ROWS,size), dout (ROWS,size), k (KEYS,size), v (KEYS,size) */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct room *room_new(size_t size)
{
    struct room *room = malloc(sizeof *room + (ELEM_IS_REAL ? 0 : 2 * (ROWS + KEYS) * size * sizeof(real)));
    return room ? room : mem_zero(SIZE_MAX, 1);
}

/* keys that query `row` may see, of all */
static size_t sees(const struct head *h, size_t row)
{
    const struct kernel_attention *s = h->shape;
    if (!s->causal)
        return s->keys;
    size_t end = row + 1 + s->keys;
    return end > s->queries ? smaller(s->keys, end - s->queries) : 0;
}

/* keys of the tile that row r of it may see */
static size_t visible(const struct head *h, const struct tile *t, size_t r)
{
    size_t seen = sees(h, t->row + r);
    return seen > t->key ? smaller(t->keys, seen - t->key) : 0;
}

/* x (rows, size), tokens `stride` apart, as reals: itself, or a copy in `room`. */
static struct blas_matrix operand(const elem *x, size_t stride, size_t rows, size_t size, real *room)
{
#if ELEM_IS_REAL
    (void)room;
    (void)rows;
    (void)size;
    return (struct blas_matrix){x, stride, false};
#else
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < size; j++)
            room[i * size + j] = elem_load(x[i * stride + j]);
    }
    return (struct blas_matrix){room, size, false};
#endif
}

static struct blas_matrix matrix(const real *data)
{
    return (struct blas_matrix){data, KEYS, false};
}

static struct blas_matrix turned(struct blas_matrix x)
{
    x.transposed = !x.transposed;
    return x;
}

static real largest(const real *x, size_t n)
{
    real most = x[0];
#pragma omp simd reduction(max : most)
    for (size_t j = 0; j < n; j++)
        most = x[j] > most ? x[j] : most;
    return most;
}

/* x (n) = e^(x*scale - most); returns their sum */
static real exponentials(real *x, size_t n, real scale, real most)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; j++) {
        x[j] = real_exp(x[j] * scale - most);
        sum += x[j];
    }
    return sum;
}

static void scale_row(real *x, size_t n, real factor)
{
#pragma omp simd
    for (size_t j = 0; j < n; j++)
        x[j] *= factor;
}

/* Turns one row of scores, of which it may see `seen`, into weights relative to the running maximum. */
static void soften_row(real *score, size_t seen, size_t keys, real scale, real *most, real *sum, real *out,
                       size_t size)
{
    for (size_t j = seen; j < keys; j++)
        score[j] = 0;
    if (seen == 0)
        return;
    real before = *most, top = largest(score, seen) * scale;
    *most = top > before ? top : before;
    real factor = real_exp(before - *most);
    *sum = *sum * factor + exponentials(score, seen, scale, *most);
    scale_row(out, size, factor);
}

/* p (seen) = 0 where dropped, else p/(1-rate): columns of the tile from its first key */
static void drop_row(const struct head *h, const struct tile *t, size_t r, real *p, size_t seen)
{
    if (h->threshold == 0)
        return;
    uint64_t row = hash_row(h->key, h->row_id + t->row + r);
    uint32_t low = (uint32_t)row, high = (uint32_t)(row >> 32),
             column = (uint32_t)(h->shape->k_position + t->key);
    real scale = (real)(1 / (1 - h->shape->dropout->rate));
#pragma omp simd
    for (size_t j = 0; j < seen; j++)
        p[j] *= hash_column(low, high, column + (uint32_t)j) >= h->threshold ? scale : 0;
}

static void forward_tile(const struct head *h, const struct tile *t, struct blas_matrix q, struct room *room,
                         real *most, real *sum)
{
    const struct kernel_attention *s = h->shape;
    real *score = room->score, *out = h->out + t->row * s->out_stride,
         *keys = room->operands + 2 * ROWS * s->size;
    struct blas_matrix k = operand(h->k + t->key * s->kv_stride, s->kv_stride, t->keys, s->size, keys);
    blas_gemm(t->rows, t->keys, s->size, q, turned(k), false, score, KEYS);
    for (size_t r = 0; r < t->rows; r++) {
        size_t seen = visible(h, t, r);
        soften_row(score + r * KEYS, seen, t->keys, h->scale, &most[r], &sum[r], out + r * s->out_stride,
                   s->size);
        drop_row(h, t, r, score + r * KEYS, seen);
    }
    struct blas_matrix v = operand(h->v + t->key * s->kv_stride, s->kv_stride, t->keys, s->size, keys);
    blas_gemm(t->rows, s->size, t->keys, matrix(score), v, true, out, s->out_stride);
}

/* Where a row stands before its first tile: at nothing, or after the blocks of keys before this one. */
static void begin_row(const struct head *h, size_t row, real *most, real *sum)
{
    const struct kernel_attention *s = h->shape;
    *most = h->first ? -INFINITY : h->lse[row];
    *sum = *most == -INFINITY ? 0 : 1;
    if (h->first)
        memset(h->out + row * s->out_stride, 0, s->size * sizeof(real));
}

static void end_row(const struct head *h, size_t row, real most, real sum)
{
    if (sum != 0)
        scale_row(h->out + row * h->shape->out_stride, h->shape->size, 1 / sum);
    h->lse[row] = sum != 0 ? most + (real)log((double)sum) : -INFINITY;
}

static void forward_rows(const struct head *h, size_t row)
{
    const struct kernel_attention *s = h->shape;
    size_t rows = smaller(ROWS, s->queries - row), end = sees(h, row + rows - 1);
    real most[ROWS], sum[ROWS];
    struct room *room = room_new(s->size);
    struct blas_matrix q = operand(h->q + row * s->q_stride, s->q_stride, rows, s->size, room->operands);
    for (size_t r = 0; r < rows; r++)
        begin_row(h, row + r, &most[r], &sum[r]);
    for (size_t key = 0; key < end; key += KEYS) {
        struct tile t = {row, rows, key, smaller(KEYS, end - key)};
        forward_tile(h, &t, q, room, most, sum);
    }
    for (size_t r = 0; r < rows; r++)
        end_row(h, row + r, most[r], sum[r]);
    free(room);
}

static struct head call_of(const struct kernel_attention *s)
{
    return (struct head){
        .shape = s,
        .scale = 1 / real_sqrt((real)s->size),
        .threshold = s->dropout ? hash_threshold(s->dropout->rate) : 0,
    };
}

/* Moves the arrays of a call to query head `head` of sequence b, and its key head. */
static struct head head_at(struct head h, size_t b, size_t head)
{
    const struct kernel_attention *s = h.shape;
    size_t q = b * s->q_batch + head * s->size;
    size_t kv = b * s->kv_batch + head / (s->heads / s->kv_heads) * s->size;
    size_t out = b * s->out_batch + head * s->size, lse = (b * s->heads + head) * s->lse_stride;
    if (h.threshold) {
        h.key = hash_head(s->dropout->key, s->first_head + head);
        h.row_id = s->dropout->rows[b] + s->q_position;
    }
    h.q += q;
    h.k += kv;
    h.v += kv;
    if (h.out) {
        h.out += out;
        h.lse += lse;
        return h;
    }
    h.dq += q;
    h.dk += kv;
    h.dv += kv;
    h.dout += out;
    h.kept_out += out;
    h.kept_lse += lse;
    return h;
}

static void attention_forward(real *out, real *lse, bool first, const act *q, const act *k, const act *v,
                              const struct kernel_attention *shape)
{
    struct head call = call_of(shape);
    call.first = first;
    call.out = out;
    call.lse = lse;
    call.q = elems_in(q);
    call.k = elems_in(k);
    call.v = elems_in(v);
    size_t blocks = (shape->queries + ROWS - 1) / ROWS;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < shape->batch * shape->heads * blocks; i++) {
        struct head h = head_at(call, i / blocks / shape->heads, i / blocks % shape->heads);
        forward_rows(&h, i % blocks * ROWS);
    }
}

/* One row: score becomes what multiplies v (dropped probabilities), dscore the gradient of the score. With p the probabilities and m the
 * dropout's mask and scale: ds = p * (m * dp - delta) * scale, delta the sum of dout * out. */
static void backward_row(const struct head *h, const struct tile *t, size_t r, real delta, real *p, real *ds)
{
    size_t seen = visible(h, t, r);
    drop_row(h, t, r, ds, seen);
    exponentials(p, seen, h->scale, h->kept_lse[t->row + r]);
#pragma omp simd
    for (size_t j = 0; j < seen; j++)
        ds[j] = p[j] * (ds[j] - delta) * h->scale;
    drop_row(h, t, r, p, seen);
    for (size_t j = seen; j < t->keys; j++)
        p[j] = ds[j] = 0;
}

/* q and dout (rows,size) of the tile's rows */
struct queries {
    struct blas_matrix q, dout;
    real delta[ROWS];
};

static void backward_tile(const struct head *h, const struct tile *t, const struct queries *y,
                          struct room *room)
{
    const struct kernel_attention *s = h->shape;
    size_t at = t->key * s->kv_stride;
    real *score = room->score, *dscore = room->dscore, *keys = room->operands + 2 * ROWS * s->size;
    struct blas_matrix k = operand(h->k + at, s->kv_stride, t->keys, s->size, keys);
    struct blas_matrix v = operand(h->v + at, s->kv_stride, t->keys, s->size, keys + KEYS * s->size);
    blas_gemm(t->rows, t->keys, s->size, y->q, turned(k), false, score, KEYS);
    blas_gemm(t->rows, t->keys, s->size, y->dout, turned(v), false, dscore, KEYS);
    for (size_t r = 0; r < t->rows; r++)
        backward_row(h, t, r, y->delta[r], score + r * KEYS, dscore + r * KEYS);
    blas_gemm(t->keys, s->size, t->rows, turned(matrix(score)), y->dout, true, h->dv + at, s->kv_stride);
    blas_gemm(t->keys, s->size, t->rows, turned(matrix(dscore)), y->q, true, h->dk + at, s->kv_stride);
    blas_gemm(t->rows, s->size, t->keys, matrix(dscore), k, true, h->dq + t->row * s->q_stride, s->q_stride);
}

static real dot(const elem *a, const elem *b, size_t n)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; j++)
        sum += elem_load(a[j]) * elem_load(b[j]);
    return sum;
}

static void backward_rows(const struct head *h, size_t row, struct room *room)
{
    const struct kernel_attention *s = h->shape;
    size_t rows = smaller(ROWS, s->queries - row), end = sees(h, row + rows - 1);
    const elem *dout = h->dout + row * s->out_stride, *out = h->kept_out + row * s->out_stride;
    struct queries y = {
        .q = operand(h->q + row * s->q_stride, s->q_stride, rows, s->size, room->operands),
        .dout = operand(dout, s->out_stride, rows, s->size, room->operands + ROWS * s->size),
    };
    for (size_t r = 0; r < rows; r++)
        y.delta[r] = dot(dout + r * s->out_stride, out + r * s->out_stride, s->size);
    for (size_t key = 0; key < end; key += KEYS) {
        struct tile t = {row, rows, key, smaller(KEYS, end - key)};
        backward_tile(h, &t, &y, room);
    }
}

/* All query heads of one key head of sequence b */
static void backward_group(const struct head *call, size_t b, size_t kv_head)
{
    const struct kernel_attention *s = call->shape;
    size_t group = s->heads / s->kv_heads;
    struct room *room = room_new(s->size);
    for (size_t i = 0; i < group; i++) {
        struct head h = head_at(*call, b, kv_head * group + i);
        for (size_t row = 0; row < s->queries; row += ROWS)
            backward_rows(&h, row, room);
    }
    free(room);
}

static void attention_backward(real *dq, real *dk, real *dv, const act *dout, const act *out, const real *lse,
                               const act *q, const act *k, const act *v, const struct kernel_attention *shape)
{
    struct head call = call_of(shape);
    call.q = elems_in(q);
    call.k = elems_in(k);
    call.v = elems_in(v);
    call.dout = elems_in(dout);
    call.kept_out = elems_in(out);
    call.kept_lse = lse;
    call.dq = dq;
    call.dk = dk;
    call.dv = dv;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < shape->batch * shape->kv_heads; i++)
        backward_group(&call, i / shape->kv_heads, i % shape->kv_heads);
}

void FILL(attention)(struct kernels *table)
{
    table->attention_forward = attention_forward;
    table->attention_backward = attention_backward;
}
