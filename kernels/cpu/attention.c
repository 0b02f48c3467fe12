/* attention: in tiles of ROWS queries by KEYS keys, so that scratch is small and fixed whatever the context.
 *
 * A tile of keys is laid out once for many queries: as rows, or turned, so that a block of scores is a product of what lies side by side
 * (tile.h). Forward: the softmax of a row is built up tile by tile (Milakov, Gimelshein, arXiv 1805.02867): `most` and `sum` hold the
 * largest score so far and the sum of e^(score - most), and what is already in `out` is scaled down when a larger score comes. A later
 * block of keys goes on from what out and lse hold. A task is one key head and some hundred queries. Backward: a task is one key head with
 * all its queries, tile of keys by tile of keys, so that dk, dv and dq are each added up in one order. Tasks write disjoint outputs, hence
 * who takes which does not matter. */
#include <math.h>

#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/hash.h"
#include "kernels/cpu/room.h"
#include "kernels/cpu/tile.h"

#define ROWS 64
#define KEYS 256
/* queries that share the layout of a tile of keys */
#define SHARE 512
/* From one row of scores to the next: not a power of 2, which would put the elements of a column into few sets of the cache. */
#define SCORES (KEYS + VEC_LANES)
/* tokens, and bytes that come with one access to memory */
#define AHEAD 8
#define LINE  64
/* With so few queries (generation) a tile is read once, and laying it out would cost more than it gains. */
#define FEW 3

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

/* rows of a tile are worked on TILE_ROWS at a time: the last group is filled up with rows of zeros */
struct tile {
    size_t row, rows, key, keys, groups;
    size_t limit[ROWS / 4]; /* (groups) keys of the tile that the group's last row sees */
};

/* What a task works in. A row of `size` elements takes `stride`: whole columns of blocks, and a little to spread the sets of the cache. */
struct room {
    size_t size, columns, stride;
    real *score, *dscore;         /* (ROWS, SCORES) */
    real *q, *dout, *product;     /* (ROWS, stride) */
    real *q_turned, *dout_turned; /* (ROWS / TILE_ROWS, size, TILE_ROWS) */
    real *k, *v, *dk, *dv;        /* (KEYS, stride) */
    real *k_turned, *v_turned;    /* (KEYS / TILE_COLUMNS, size, TILE_COLUMNS) */
    real *most, *sum;             /* forward: (queries of the task, for each of its heads) */
    real *delta;                  /* backward: the same */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_up(size_t x, size_t unit)
{
    return (x + unit - 1) / unit * unit;
}

static real *take(real **room, size_t count)
{
    real *x = *room;
    *room += round_up(count, VEC_LANES);
    return x;
}

static struct room room_of(size_t size, size_t queries)
{
    size_t columns = round_up(size, TILE_COLUMNS), stride = columns + VEC_LANES;
    real *x = room_take(2 * ROWS * SCORES + 3 * ROWS * stride + 4 * KEYS * stride + 2 * (ROWS + KEYS) * size +
                        2 * (queries + VEC_LANES));
    struct room r = {.size = size, .columns = columns, .stride = stride};
    real **const parts[] = {&r.score, &r.dscore, &r.q, &r.dout, &r.product, &r.k, &r.v, &r.dk, &r.dv};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *parts[i] = take(&x, i < 2 ? ROWS * SCORES : (i < 5 ? ROWS : KEYS) * stride);
    r.q_turned = take(&x, ROWS * size);
    r.dout_turned = take(&x, ROWS * size);
    r.k_turned = take(&x, KEYS * size);
    r.v_turned = take(&x, KEYS * size);
    r.most = take(&x, queries);
    r.sum = take(&x, queries);
    r.delta = r.most;
    return r;
}

/* Asks for the row that is AHEAD of x: tokens lie too far apart for the processor to guess where the next one is. */
static inline void ask_ahead(const elem *x, size_t x_stride, size_t size)
{
    const char *next = (const char *)(x + AHEAD * x_stride);
    for (size_t j = 0; j < size * sizeof *x; j += LINE)
        __builtin_prefetch(next + j);
}

/* out (padded, stride) = x (rows, size), tokens x_stride apart; what is beyond x is 0 */
static void lay_rows(const struct room *room, real *out, size_t padded, const elem *x, size_t x_stride,
                     size_t rows)
{
    for (size_t i = 0; i < padded; i++) {
        real *to = out + i * room->stride;
        size_t size = i < rows ? room->size : 0;
        const elem *from = x + i * x_stride;
        ask_ahead(from, x_stride, size);
        for (size_t j = 0; j < size; j++)
            to[j] = elem_load(from[j]);
        for (size_t j = size; j < room->columns; j++)
            to[j] = 0;
    }
}

/* out: blocks (size, unit), each the transpose of `unit` of the rows (padded, stride) */
static void turn(const struct room *room, real *restrict out, size_t unit, const real *restrict rows,
                 size_t padded)
{
    for (size_t i = 0; i < padded; i++) {
        real *to = out + i / unit * unit * room->size + i % unit;
        for (size_t j = 0; j < room->size; j++)
            to[j * unit] = rows[i * room->stride + j];
    }
}

/* x (keys, size), as rows and turned */
static void lay_keys(const struct room *room, real *rows, real *turned, const elem *x, size_t x_stride,
                     size_t keys)
{
    size_t padded = round_up(keys, TILE_COLUMNS);
    lay_rows(room, rows, padded, x, x_stride, keys);
    turn(room, turned, TILE_COLUMNS, rows, padded);
}

/* keys that query `row` may see, of all */
static size_t sees(const struct kernel_attention *s, size_t row)
{
    if (!s->causal)
        return s->keys;
    size_t end = row + 1 + s->keys;
    return end > s->queries ? smaller(s->keys, end - s->queries) : 0;
}

/* the first query that sees key `key` */
static size_t first_query(const struct kernel_attention *s, size_t key)
{
    return s->causal && key + s->queries > s->keys ? key + s->queries - s->keys : 0;
}

/* keys of the tile that row r of it may see */
static size_t visible(const struct kernel_attention *s, const struct tile *t, size_t r)
{
    size_t seen = sees(s, t->row + r);
    return seen > t->key ? smaller(t->keys, seen - t->key) : 0;
}

static struct tile tile_at(const struct kernel_attention *s, size_t row, size_t rows, size_t key)
{
    struct tile t = {row, rows, key, smaller(KEYS, s->keys - key), round_up(rows, TILE_ROWS) / TILE_ROWS,
                     {0}};
    for (size_t g = 0; g < t.groups; g++)
        t.limit[g] = visible(s, &t, smaller((g + 1) * TILE_ROWS, rows) - 1);
    return t;
}

/* score (rows, keys) = rows that lie turned times keys that do: only blocks of which something is seen */
static void score_tile(const struct room *room, const struct tile *t, real *score, const real *rows,
                       const real *keys)
{
    for (size_t j = 0; j < t->keys; j += TILE_COLUMNS) {
        for (size_t g = 0; g < t->groups; g++) {
            if (t->limit[g] > j)
                tile_block(score + g * TILE_ROWS * SCORES + j, SCORES, false,
                           rows + g * TILE_ROWS * room->size, 1, TILE_ROWS, keys + j * room->size,
                           TILE_COLUMNS, room->size);
        }
    }
}

/* product (rows, size) = score (rows, keys) times the rows of keys b (keys, size) */
static void weigh_tile(const struct room *room, const struct tile *t, const real *score, const real *b)
{
    for (size_t j = 0; j < room->columns; j += TILE_COLUMNS) {
        for (size_t g = 0; g < t->groups; g++)
            tile_block(room->product + g * TILE_ROWS * room->stride + j, room->stride, false,
                       score + g * TILE_ROWS * SCORES, SCORES, 1, b + j, room->stride, t->limit[g]);
    }
}

/* out (keys, size) += the transpose of score (rows, keys) times b (rows, size); rows that see none of a block of keys are left out */
static void gather_tile(const struct room *room, const struct tile *t, real *out, const real *score,
                        const real *b)
{
    for (size_t j = 0; j < room->columns; j += TILE_COLUMNS) {
        for (size_t i = 0, g = 0; i < t->limit[t->groups - 1]; i += TILE_ROWS) {
            while (t->limit[g] <= i)
                g++;
            size_t row = g * TILE_ROWS;
            tile_block(out + i * room->stride + j, room->stride, true, score + row * SCORES + i, 1, SCORES,
                       b + row * room->stride + j, room->stride, (t->groups - g) * TILE_ROWS);
        }
    }
}

/* Elements of row r of the scores that later products read. */
static size_t width_of(const struct tile *t, size_t r)
{
    return round_up(t->limit[r / TILE_ROWS], TILE_COLUMNS);
}

static void hide(real *score, size_t seen, size_t width, real with)
{
    for (size_t j = seen; j < width; j++)
        score[j] = with;
}

static real largest(const real *x, size_t width)
{
    vec most = vec_load(x);
    for (size_t j = VEC_LANES; j < width; j += VEC_LANES)
        most = vec_larger(vec_load(x + j), most);
    return vec_most(most);
}

/* x (width) = e^(x*scale - most); returns their sum */
static real exponentials(real *x, size_t width, real scale, real most)
{
    vec sum = vec_all(0);
    for (size_t j = 0; j < width; j += VEC_LANES) {
        vec y = vec_exp(vec_load(x + j) * scale - most);
        vec_store(x + j, y);
        sum += y;
    }
    return vec_sum(sum);
}

/* Turns a row of scores, of which it may see `seen`, into weights relative to the running maximum; the others become 0. Returns what the
 * sums before it are to be multiplied by. */
static real soften_row(real *score, size_t seen, size_t width, real scale, real *most, real *sum)
{
    hide(score, seen, width, seen ? -INFINITY : 0);
    if (seen == 0)
        return 1;
    real before = *most, top = largest(score, width) * scale;
    *most = top > before ? top : before;
    real factor = real_exp(before - *most);
    *sum = *sum * factor + exponentials(score, width, scale, *most);
    return factor;
}

/* p (seen) = 0 where dropped, else p/(1-rate): columns of the tile from its first key */
static void drop_row(const struct head *h, const struct tile *t, size_t r, real *p, size_t seen)
{
    if (h->threshold == 0)
        return;
    uint64_t row = hash_row(h->key, h->row_id + t->row + r);
    uint32_t low = (uint32_t)row, high = (uint32_t)(row >> 32),
             column = (uint32_t)(h->shape->k_position + t->key), threshold = h->threshold;
    real scale = (real)(1 / (1 - h->shape->dropout->rate));
#pragma omp simd
    for (size_t j = 0; j < seen; j++)
        p[j] *= hash_column(low, high, column + (uint32_t)j) >= threshold ? scale : 0;
}

static real dot(const real *a, const elem *b, size_t n)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; j++)
        sum += a[j] * elem_load(b[j]);
    return sum;
}

/* score_tile and weigh_tile for few rows, straight from the keys and values */
static void score_few(const struct head *h, const struct tile *t, const struct room *room)
{
    const elem *k = h->k + t->key * h->shape->kv_stride;
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t j = 0; j < t->keys; j++)
            room->score[r * SCORES + j] =
                dot(room->q + r * room->stride, k + j * h->shape->kv_stride, room->size);
    }
}

static void weigh_few(const struct head *h, const struct tile *t, const struct room *room)
{
    const elem *v = h->v + t->key * h->shape->kv_stride;
    for (size_t r = 0; r < t->rows; r++) {
        real *restrict out = room->product + r * room->stride;
        memset(out, 0, room->size * sizeof *out);
        for (size_t j = 0; j < t->limit[r / TILE_ROWS]; j++) {
            const elem *row = v + j * h->shape->kv_stride;
            real weight = room->score[r * SCORES + j];
            for (size_t i = 0; i < room->size; i++)
                out[i] += weight * elem_load(row[i]);
        }
    }
}

/* out = out * factor + what a tile adds */
static void merge_row(real *restrict out, const real *restrict product, real factor, size_t size)
{
    for (size_t j = 0; j < size; j++)
        out[j] = out[j] * factor + product[j];
}

/* most and sum (rows): of the tile's rows */
static void forward_tile(const struct head *h, const struct tile *t, const struct room *room, real *most,
                         real *sum)
{
    const struct kernel_attention *s = h->shape;
    bool few = s->queries <= FEW;
    real factor[ROWS];
    size_t padded = t->groups * TILE_ROWS;
    lay_rows(room, room->q, padded, h->q + t->row * s->q_stride, s->q_stride, t->rows);
    if (few) {
        score_few(h, t, room);
    } else {
        turn(room, room->q_turned, TILE_ROWS, room->q, padded);
        score_tile(room, t, room->score, room->q_turned, room->k_turned);
    }
    for (size_t r = 0; r < t->rows; r++) {
        size_t seen = visible(s, t, r);
        real *score = room->score + r * SCORES;
        factor[r] = soften_row(score, seen, width_of(t, r), h->scale, &most[r], &sum[r]);
        drop_row(h, t, r, score, seen);
    }
    if (few)
        weigh_few(h, t, room);
    else
        weigh_tile(room, t, room->score, room->v);
    for (size_t r = 0; r < t->rows; r++)
        merge_row(h->out + (t->row + r) * s->out_stride, room->product + r * room->stride, factor[r],
                  s->size);
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
    real *out = h->out + row * h->shape->out_stride;
    if (sum == 0) {
        h->lse[row] = -INFINITY;
        return;
    }
    for (size_t j = 0; j < h->shape->size; j++)
        out[j] *= 1 / sum;
    h->lse[row] = most + (real)log((double)sum);
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
static struct head head_at(const struct head *call, size_t b, size_t head)
{
    struct head h = *call;
    const struct kernel_attention *s = h.shape;
    size_t q = b * s->q_batch + head * s->size;
    size_t kv = b * s->kv_batch + head * s->kv_heads / s->heads * s->size;
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

/* A forward task: the query heads first .. first+heads of sequence b, which share a key head, and the queries [row, end). */
struct task {
    size_t b, first, heads, row, end;
};

/* All rows of the task against the keys of one tile. */
static void forward_keys(const struct head *call, const struct task *task, struct room *room, size_t key)
{
    const struct kernel_attention *s = call->shape;
    struct head h = head_at(call, task->b, task->first);
    size_t at = key * s->kv_stride, keys = smaller(KEYS, s->keys - key), rows = task->end - task->row;
    if (s->queries > FEW) {
        lay_keys(room, room->k, room->k_turned, h.k + at, s->kv_stride, keys);
        lay_rows(room, room->v, keys, h.v + at, s->kv_stride, keys);
    }
    for (size_t i = 0; i < task->heads; i++) {
        h = head_at(call, task->b, task->first + i);
        for (size_t row = task->row; row < task->end; row += ROWS) {
            struct tile t = tile_at(s, row, smaller(ROWS, task->end - row), key);
            size_t state = i * rows + row - task->row;
            if (t.limit[t.groups - 1] > 0)
                forward_tile(&h, &t, room, room->most + state, room->sum + state);
        }
    }
}

static void forward_task(const struct head *call, const struct task *task)
{
    const struct kernel_attention *s = call->shape;
    size_t rows = task->end - task->row, end = sees(s, task->end - 1);
    struct room room = room_of(s->size, rows * task->heads);
    for (size_t i = 0; i < rows * task->heads; i++) {
        struct head h = head_at(call, task->b, task->first + i / rows);
        begin_row(&h, task->row + i % rows, &room.most[i], &room.sum[i]);
    }
    for (size_t key = 0; key < end; key += KEYS)
        forward_keys(call, task, &room, key);
    for (size_t i = 0; i < rows * task->heads; i++) {
        struct head h = head_at(call, task->b, task->first + i / rows);
        end_row(&h, task->row + i % rows, room.most[i], room.sum[i]);
    }
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
    size_t group = shape->kv_heads ? shape->heads / shape->kv_heads : 1,
           share = round_up((SHARE + group - 1) / group, ROWS);
    size_t blocks = (shape->queries + share - 1) / share;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < shape->batch * shape->kv_heads * blocks; i++) {
        size_t row = i % blocks * share, head = i / blocks;
        struct task task = {head / shape->kv_heads, head % shape->kv_heads * group, group, row,
                            smaller(row + share, shape->queries)};
        forward_task(&call, &task);
    }
}

/* One row: score becomes what multiplies v (dropped probabilities), dscore the gradient of the score. With p the probabilities and m the
 * dropout's mask and scale: ds = p * (m * dp - delta) * scale, delta the sum of dout * out. */
static void backward_row(const struct head *h, const struct tile *t, size_t r, real delta, real *p, real *ds)
{
    size_t seen = visible(h->shape, t, r), width = width_of(t, r);
    if (seen == 0) {
        hide(p, 0, width, 0);
        hide(ds, 0, width, 0);
        return;
    }
    drop_row(h, t, r, ds, seen);
    hide(p, seen, width, -INFINITY);
    exponentials(p, width, h->scale, h->kept_lse[t->row + r]);
    for (size_t j = 0; j < width; j += VEC_LANES)
        vec_store(ds + j, vec_load(p + j) * (vec_load(ds + j) - delta) * h->scale);
    drop_row(h, t, r, p, seen);
}

/* p and ds of all rows of the tile. Rows that only fill up the last group are products of zeros already. delta (queries): of this head */
static void backward_scores(const struct head *h, const struct tile *t, const struct room *room,
                            const real *delta)
{
    for (size_t r = 0; r < t->rows; r++)
        backward_row(h, t, r, delta[t->row + r], room->score + r * SCORES, room->dscore + r * SCORES);
}

static void backward_tile(const struct head *h, const struct tile *t, const struct room *room,
                          const real *delta)
{
    const struct kernel_attention *s = h->shape;
    size_t padded = t->groups * TILE_ROWS;
    lay_rows(room, room->q, padded, h->q + t->row * s->q_stride, s->q_stride, t->rows);
    lay_rows(room, room->dout, padded, h->dout + t->row * s->out_stride, s->out_stride, t->rows);
    turn(room, room->q_turned, TILE_ROWS, room->q, padded);
    turn(room, room->dout_turned, TILE_ROWS, room->dout, padded);
    score_tile(room, t, room->score, room->q_turned, room->k_turned);
    score_tile(room, t, room->dscore, room->dout_turned, room->v_turned);
    backward_scores(h, t, room, delta);
    gather_tile(room, t, room->dv, room->score, room->dout);
    gather_tile(room, t, room->dk, room->dscore, room->q);
    weigh_tile(room, t, room->dscore, room->k);
    for (size_t r = 0; r < t->rows; r++)
        merge_row(h->dq + (t->row + r) * s->q_stride, room->product + r * room->stride, 1, s->size);
}

/* All query heads of one key head against one tile of keys. */
static void backward_keys(const struct head *call, size_t b, size_t kv_head, struct room *room, size_t key)
{
    const struct kernel_attention *s = call->shape;
    size_t group = s->heads / s->kv_heads, at = key * s->kv_stride, keys = smaller(KEYS, s->keys - key);
    struct head h = head_at(call, b, kv_head * group);
    lay_keys(room, room->k, room->k_turned, h.k + at, s->kv_stride, keys);
    lay_keys(room, room->v, room->v_turned, h.v + at, s->kv_stride, keys);
    memset(room->dk, 0, KEYS * room->stride * sizeof(real));
    memset(room->dv, 0, KEYS * room->stride * sizeof(real));
    for (size_t i = 0; i < group; i++) {
        h = head_at(call, b, kv_head * group + i);
        for (size_t row = first_query(s, key); row < s->queries; row += ROWS) {
            struct tile t = tile_at(s, row, smaller(ROWS, s->queries - row), key);
            backward_tile(&h, &t, room, room->delta + i * s->queries);
        }
    }
    for (size_t j = 0; j < keys; j++) {
        merge_row(h.dk + at + j * s->kv_stride, room->dk + j * room->stride, 1, s->size);
        merge_row(h.dv + at + j * s->kv_stride, room->dv + j * room->stride, 1, s->size);
    }
}

/* delta (queries): of each, the sum of dout * out */
static void deltas(real *delta, const struct head *h)
{
    const struct kernel_attention *s = h->shape;
    for (size_t i = 0; i < s->queries; i++) {
        const elem *a = h->dout + i * s->out_stride, *b = h->kept_out + i * s->out_stride;
        ask_ahead(a, s->out_stride, s->size);
        ask_ahead(b, s->out_stride, s->size);
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t j = 0; j < s->size; j++)
            sum += elem_load(a[j]) * elem_load(b[j]);
        delta[i] = sum;
    }
}

static void backward_task(const struct head *call, size_t b, size_t kv_head)
{
    const struct kernel_attention *s = call->shape;
    size_t group = s->heads / s->kv_heads;
    struct room room = room_of(s->size, s->queries * group);
    for (size_t i = 0; i < group; i++) {
        struct head h = head_at(call, b, kv_head * group + i);
        deltas(room.delta + i * s->queries, &h);
    }
    for (size_t key = 0; key < s->keys; key += KEYS)
        backward_keys(call, b, kv_head, &room, key);
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
        backward_task(&call, i / shape->kv_heads, i % shape->kv_heads);
}

void FILL(attention)(struct kernels *table)
{
    table->attention_forward = attention_forward;
    table->attention_backward = attention_backward;
}
