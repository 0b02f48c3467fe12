/* attention: causal, in tiles of query rows by keys, so that scratch is small and fixed whatever the context.
 *
 * Forward: the softmax of a row is built up tile by tile (Milakov, Gimelshein, arXiv 1805.02867): `most` and `sum` hold the largest score
 * so far and the sum of e^(score - most), and what is already in `out` is scaled down when a larger score comes. Every block of query
 * rows is a task of its own. Backward: one task per key head goes through its query heads and tiles in order, so that dk and dv are
 * added up in one order. Tasks write disjoint outputs, hence who takes which does not matter. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/vmath.h"
#include "kernels/kernels.h"

#define ROWS 64
#define KEYS 256
/* A tile never begins beyond the first row's own position: every row sees at least one key of each tile it meets. */
static_assert(KEYS % ROWS == 0, "key tiles begin where row tiles do");

/* A call's arrays, and after head_at one query head's, each at its first token. Forward writes out and lse; backward reads them as
 * kept_out and kept_lse. */
struct head {
    const real *q, *k, *v, *dout, *kept_out, *kept_lse;
    real *dq, *dk, *dv, *out, *lse;
    real scale; /* 1/sqrt(size) */
    size_t context, size, stride, out_stride;
};

struct tile {
    size_t row, rows, key, keys;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* keys of the tile that row r of it may see */
static size_t visible(const struct tile *t, size_t r)
{
    return smaller(t->keys, t->row + r + 1 - t->key);
}

static struct kernel_matrix matrix(const real *data, size_t stride)
{
    return (struct kernel_matrix){data, stride, false};
}

static struct kernel_matrix transposed(const real *data, size_t stride)
{
    return (struct kernel_matrix){data, stride, true};
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

/* Turns one row of scores into weights relative to the running maximum. */
static void soften_row(real *score, size_t seen, size_t keys, real scale, real *most, real *sum, real *out,
                       size_t size)
{
    real before = *most, top = largest(score, seen) * scale;
    *most = top > before ? top : before;
    real factor = real_exp(before - *most);
    *sum = *sum * factor + exponentials(score, seen, scale, *most);
    scale_row(out, size, factor);
    for (size_t j = seen; j < keys; j++)
        score[j] = 0;
}

static void forward_tile(const struct head *h, const struct tile *t, real *most, real *sum)
{
    real score[ROWS * KEYS];
    real *out = h->out + t->row * h->out_stride;
    kernel_gemm(t->rows, t->keys, h->size, matrix(h->q + t->row * h->stride, h->stride),
                transposed(h->k + t->key * h->stride, h->stride), false, score, KEYS);
    for (size_t r = 0; r < t->rows; r++)
        soften_row(score + r * KEYS, visible(t, r), t->keys, h->scale, &most[r], &sum[r],
                   out + r * h->out_stride, h->size);
    kernel_gemm(t->rows, h->size, t->keys, matrix(score, KEYS), matrix(h->v + t->key * h->stride, h->stride),
                true, out, h->out_stride);
}

static void forward_rows(const struct head *h, size_t row)
{
    size_t rows = smaller(ROWS, h->context - row);
    real most[ROWS], sum[ROWS];
    for (size_t r = 0; r < rows; r++) {
        most[r] = -INFINITY;
        sum[r] = 0;
        memset(h->out + (row + r) * h->out_stride, 0, h->size * sizeof(real));
    }
    for (size_t key = 0; key < row + rows; key += KEYS) {
        struct tile t = {row, rows, key, smaller(KEYS, row + rows - key)};
        forward_tile(h, &t, most, sum);
    }
    for (size_t r = 0; r < rows; r++) {
        scale_row(h->out + (row + r) * h->out_stride, h->size, 1 / sum[r]);
        h->lse[row + r] = most[r] + (real)log((double)sum[r]);
    }
}

static struct head head_of(const struct kernel_heads *s)
{
    return (struct head){.scale = 1 / real_sqrt((real)s->size),
                         .context = s->context,
                         .size = s->size,
                         .stride = s->stride,
                         .out_stride = s->heads * s->size};
}

/* Moves the arrays of a call to query head `head` of sequence b, and its key head. */
static struct head head_at(struct head h, const struct kernel_heads *s, size_t b, size_t head)
{
    size_t q = b * s->context * s->stride + head * s->size;
    size_t kv = b * s->context * s->stride + head / (s->heads / s->kv_heads) * s->size;
    size_t out = b * s->context * h.out_stride + head * s->size, lse = (b * s->heads + head) * s->context;
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

void kernel_attention_forward(real *out, real *lse, const real *q, const real *k, const real *v,
                              const struct kernel_heads *shape)
{
    struct head call = head_of(shape);
    call.out = out;
    call.lse = lse;
    call.q = q;
    call.k = k;
    call.v = v;
    size_t blocks = (shape->context + ROWS - 1) / ROWS;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < shape->batch * shape->heads * blocks; i++) {
        struct head h = head_at(call, shape, i / blocks / shape->heads, i / blocks % shape->heads);
        forward_rows(&h, i % blocks * ROWS);
    }
}

/* score and dscore (rows, KEYS) become the probabilities p and ds = p * (dp - delta) * scale, delta the sum of dout * out. */
static void backward_scores(const struct head *h, const struct tile *t, const real *delta, real *score,
                            real *dscore)
{
    for (size_t r = 0; r < t->rows; r++) {
        size_t seen = visible(t, r);
        real *p = score + r * KEYS, *ds = dscore + r * KEYS;
        exponentials(p, seen, h->scale, h->kept_lse[t->row + r]);
#pragma omp simd
        for (size_t j = 0; j < seen; j++)
            ds[j] = p[j] * (ds[j] - delta[r]) * h->scale;
        for (size_t j = seen; j < t->keys; j++)
            p[j] = ds[j] = 0;
    }
}

static void backward_tile(const struct head *h, const struct tile *t, const real *delta)
{
    real score[ROWS * KEYS], dscore[ROWS * KEYS];
    struct kernel_matrix q = matrix(h->q + t->row * h->stride, h->stride),
                         k = matrix(h->k + t->key * h->stride, h->stride);
    struct kernel_matrix dout = matrix(h->dout + t->row * h->out_stride, h->out_stride);
    kernel_gemm(t->rows, t->keys, h->size, q, transposed(k.data, h->stride), false, score, KEYS);
    kernel_gemm(t->rows, t->keys, h->size, dout, transposed(h->v + t->key * h->stride, h->stride), false,
                dscore, KEYS);
    backward_scores(h, t, delta, score, dscore);
    kernel_gemm(t->keys, h->size, t->rows, transposed(score, KEYS), dout, true, h->dv + t->key * h->stride,
                h->stride);
    kernel_gemm(t->keys, h->size, t->rows, transposed(dscore, KEYS), q, true, h->dk + t->key * h->stride,
                h->stride);
    kernel_gemm(t->rows, h->size, t->keys, matrix(dscore, KEYS), k, true, h->dq + t->row * h->stride,
                h->stride);
}

static real dot(const real *a, const real *b, size_t n)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; j++)
        sum += a[j] * b[j];
    return sum;
}

static void zero_head(real *x, const struct head *h)
{
    for (size_t t = 0; t < h->context; t++)
        memset(x + t * h->stride, 0, h->size * sizeof *x);
}

static void backward_head(const struct head *h)
{
    zero_head(h->dq, h);
    for (size_t row = 0; row < h->context; row += ROWS) {
        size_t rows = smaller(ROWS, h->context - row);
        real delta[ROWS];
        for (size_t r = 0; r < rows; r++)
            delta[r] =
                dot(h->dout + (row + r) * h->out_stride, h->kept_out + (row + r) * h->out_stride, h->size);
        for (size_t key = 0; key < row + rows; key += KEYS) {
            struct tile t = {row, rows, key, smaller(KEYS, row + rows - key)};
            backward_tile(h, &t, delta);
        }
    }
}

/* All query heads of one key head of sequence b */
static void backward_group(const struct head *call, const struct kernel_heads *shape, size_t b,
                           size_t kv_head)
{
    size_t group = shape->heads / shape->kv_heads;
    struct head first = head_at(*call, shape, b, kv_head * group);
    zero_head(first.dk, &first);
    zero_head(first.dv, &first);
    for (size_t i = 0; i < group; i++) {
        struct head h = head_at(*call, shape, b, kv_head * group + i);
        backward_head(&h);
    }
}

void kernel_attention_backward(real *dq, real *dk, real *dv, const real *dout, const real *out,
                               const real *lse, const real *q, const real *k, const real *v,
                               const struct kernel_heads *shape)
{
    struct head call = head_of(shape);
    call.q = q;
    call.k = k;
    call.v = v;
    call.dout = dout;
    call.kept_out = out;
    call.kept_lse = lse;
    call.dq = dq;
    call.dk = dk;
    call.dv = dv;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < shape->batch * shape->kv_heads; i++)
        backward_group(&call, shape, i / shape->kv_heads, i % shape->kv_heads);
}
