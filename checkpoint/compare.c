/* compare: see compare.h. A band is loaded like any part of a checkpoint, by checkpoint_load_from: so format 1 is read under today's names, too. */
#include "checkpoint/compare.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "common/mem.h"

#define BAND_NUMBERS ((size_t)1 << 20) /* 4 MiB a side */

struct comparison {
    const struct compare_side *sides;
    void (*each)(void *arg, const struct compare_tensor *t);
    void *arg;
    const struct digest_watch *watch;
    float *bands[2]; /* (BAND_NUMBERS) */
};

/* ---- numbers ---------------------------------------------------------------------------------------------------------- */

static bool same_bits(float a, float b)
{
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

/* Of two numbers with other bits. */
static double difference(float a, float b)
{
    if (isfinite(a) && isfinite(b))
        return fabs((double)a - (double)b);
    return INFINITY;
}

/* n numbers more. norm[] holds sums of squares so far. */
static void add_numbers(struct compare_tensor *t, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i];
        t->norm[0] += x * x;
        t->norm[1] += y * y;
        if (isfinite(x) && fabs(x) > t->magnitude)
            t->magnitude = fabs(x);
        if (isfinite(y) && fabs(y) > t->magnitude)
            t->magnitude = fabs(y);
        if (same_bits(a[i], b[i]))
            continue;
        double d = difference(a[i], b[i]);
        t->unequal++;
        t->largest = d > t->largest ? d : t->largest;
    }
    t->numbers += n;
}

/* ---- bands ------------------------------------------------------------------------------------------------------------ */

/* Reads a box of the tensor on one side. */
static int read_band(const struct compare_side *side, const struct compare_tensor *t, size_t dims,
                     const size_t shape[2], const struct box *box, float *out, struct err *err)
{
    struct checkpoint_piece piece = {
        {box->from[0], box->from[1]}, {box->to[0], box->to[1]}, out, box->to[1] - box->from[1]};
    struct checkpoint_array array = {
        .shape = {shape[0], shape[1]}, .dims = dims, .pieces = &piece, .n_pieces = 1};
    memcpy(array.name, t->name, sizeof array.name);
    return checkpoint_load_from(side->folder, side->manifest, &array, 1, err) == CHECKPOINT_OK ? 0 : -1;
}

static int compare_band(const struct comparison *c, struct compare_tensor *t, size_t dims,
                        const struct box *box, struct err *err)
{
    size_t n = box_count(box);
    for (int i = 0; i < 2; i++) {
        if (read_band(&c->sides[i], t, dims, t->shape[i], box, c->bands[i], err) != 0)
            return -1;
        if (c->watch)
            c->watch->seen(c->watch->arg, n * sizeof(float));
    }
    add_numbers(t, c->bands[0], c->bands[1], n);
    return 0;
}

/* Whole rows where a row fits into a band, else parts of one. */
static int compare_numbers(const struct comparison *c, struct compare_tensor *t, size_t dims, struct err *err)
{
    size_t rows = t->shape[0][0], columns = dims == 2 ? t->shape[0][1] : 1;
    size_t width = columns < BAND_NUMBERS ? columns : BAND_NUMBERS, height = BAND_NUMBERS / width;
    for (size_t r = 0; r < rows; r += height)
        for (size_t k = 0; k < columns; k += width) {
            struct box box = {
                {r, k}, {rows - r < height ? rows : r + height, columns - k < width ? columns : k + width}};
            if (compare_band(c, t, dims, &box, err) != 0)
                return -1;
        }
    for (int i = 0; i < 2; i++)
        t->norm[i] = sqrt(t->norm[i]);
    return 0;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------------- */

static bool has(const struct compare_side *side, const struct manifest_tensor *t)
{
    struct checkpoint_array array = {.shape = {t->shape[0], t->shape[1]}, .dims = t->dims};
    memcpy(array.name, t->name, sizeof array.name);
    /* without pieces nothing is read: only names and shapes are compared */
    return checkpoint_load_from(side->folder, side->manifest, &array, 1, NULL) == CHECKPOINT_OK;
}

static void keep_shape(struct compare_tensor *out, int side, const struct manifest_tensor *t)
{
    out->shape[side][0] = t->shape[0];
    out->shape[side][1] = t->dims == 2 ? t->shape[1] : 0;
}

/* A tensor that side `of` has under this name. */
static int compare_tensor(const struct comparison *c, int of, const struct manifest_tensor *t,
                          struct err *err)
{
    int other = 1 - of, rc = 0;
    const struct manifest_tensor *twin = manifest_find(c->sides[other].manifest, t->name);
    struct compare_tensor out = {.kind = of == 0 ? COMPARE_ONLY_FIRST : COMPARE_ONLY_SECOND};
    memcpy(out.name, t->name, sizeof out.name);
    keep_shape(&out, of, t);
    if (has(&c->sides[other], t)) {
        out.kind = COMPARE_BOTH;
        keep_shape(&out, other, t);
        rc = compare_numbers(c, &out, t->dims, err);
    } else if (twin) {
        out.kind = COMPARE_SHAPES;
        keep_shape(&out, other, twin);
    }
    if (rc == 0)
        c->each(c->arg, &out);
    return rc;
}

/* Both lists are in the order of names: the first of both comes next. */
static int compare_lists(const struct comparison *c, struct err *err)
{
    const struct manifest *a = c->sides[0].manifest, *b = c->sides[1].manifest;
    size_t i = 0, k = 0;
    int rc = 0;
    while (rc == 0 && (i < a->n_tensors || k < b->n_tensors)) {
        int order = i == a->n_tensors   ? 1
                    : k == b->n_tensors ? -1
                                        : strcmp(a->tensors[i].name, b->tensors[k].name);
        rc = order <= 0 ? compare_tensor(c, 0, &a->tensors[i], err)
                        : compare_tensor(c, 1, &b->tensors[k], err);
        i += order <= 0;
        k += order >= 0;
    }
    return rc;
}

/* One side is of format 1: its names are of another layout, so what the other has is asked of it. */
static int compare_one_list(const struct comparison *c, int of, struct err *err)
{
    const struct manifest *m = c->sides[of].manifest;
    for (size_t i = 0; i < m->n_tensors; i++)
        if (compare_tensor(c, of, &m->tensors[i], err) != 0)
            return -1;
    return 0;
}

int compare_checkpoints(const struct compare_side sides[2],
                        void (*each)(void *arg, const struct compare_tensor *t), void *arg,
                        const struct digest_watch *watch, struct err *err)
{
    bool same_names = (sides[0].manifest->format == 1) == (sides[1].manifest->format == 1);
    struct comparison c = {sides, each, arg, watch, {NULL, NULL}};
    for (int i = 0; i < 2; i++)
        c.bands[i] = mem_grow(NULL, BAND_NUMBERS, sizeof(float));
    int rc = same_names ? compare_lists(&c, err)
                        : compare_one_list(&c, sides[0].manifest->format == 1 ? 1 : 0, err);
    free(c.bands[0]);
    free(c.bands[1]);
    return rc;
}
