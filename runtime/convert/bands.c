/* bands: see bands.h. */
#include "runtime/convert/bands.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define BAND_NUMBERS (16u << 20) /* 64 MiB */

/* Rows [from,to) of one of our tensors, side by side. */
static int read_rows(const struct weights *w, const struct tensor_desc *t, size_t from, size_t to, float *out,
                     struct err *err)
{
    struct checkpoint_piece piece = {{from, 0}, {to, t->shape[1]}, out, t->shape[1]};
    struct checkpoint_array a = {
        .shape = {t->shape[0], t->shape[1]}, .dims = t->dims, .pieces = &piece, .n_pieces = 1};
    memcpy(a.name, t->name, sizeof a.name);
    return weights_load(w, &a, 1, err);
}

/* Rows 0 1 2 … D-1 of each head become 0 D/2 1 D/2+1 …: the two of a rotated pair side by side. */
static void pair_rows(const float *in, float *out, size_t rows, size_t columns, size_t head)
{
    for (size_t r = 0; r < rows; r++) {
        size_t within = r % head, from = r - within + within % 2 * (head / 2) + within / 2;
        memcpy(out + r * columns, in + from * columns, columns * sizeof *out);
    }
}

/* One part as it lies in our layout, or with the rows of its heads in pairs. */
static int stream_part(const struct weights *w, const struct tensor_desc *t, size_t pairs,
                       const struct bands_sink *sink, struct err *err)
{
    size_t unit = pairs > 0 ? pairs : 1, columns = t->shape[1],
           rows = (BAND_NUMBERS / (unit * columns) + 1) * unit;
    rows = rows < t->shape[0] ? rows : t->shape[0];
    float *band = mem_grow(NULL, rows * columns, 2 * sizeof *band), *paired = band + rows * columns;
    int rc = 0;
    for (size_t from = 0; rc == 0 && from < t->shape[0]; from += rows) {
        size_t to = t->shape[0] - from < rows ? t->shape[0] : from + rows;
        rc = read_rows(w, t, from, to, band, err);
        if (rc == 0 && pairs > 0)
            pair_rows(band, paired, to - from, columns, pairs);
        if (rc == 0)
            rc = sink->put(sink->to, pairs > 0 ? paired : band, (to - from) * columns);
    }
    free(band);
    return rc;
}

/* Our (out,in) parts become columns of one (in,out) matrix. */
static int stream_transposed(const struct weights *w, const struct mapping_tensor *t,
                             const struct bands_sink *sink, struct err *err)
{
    size_t in = t->shape[0], out = t->shape[1], at = 0;
    float *whole = mem_grow(NULL, in * out, sizeof *whole), *part = mem_grow(NULL, in * out, sizeof *part);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < t->parts; i++) {
        const struct tensor_desc *p = &t->first[i * t->step];
        rc = read_rows(w, p, 0, p->shape[0], part, err);
        for (size_t r = 0; rc == 0 && r < p->shape[0]; r++)
            for (size_t c = 0; c < in; c++)
                whole[c * out + at + r] = part[r * in + c];
        at += p->shape[0];
    }
    if (rc == 0)
        rc = sink->put(sink->to, whole, in * out);
    free(part);
    free(whole);
    return rc;
}

int bands_put(const struct weights *weights, const struct mapping_tensor *t, const struct bands_sink *sink,
              struct err *err)
{
    if (t->transposed)
        return stream_transposed(weights, t, sink, err);
    for (size_t i = 0; i < t->parts; i++)
        if (stream_part(weights, &t->first[i * t->step], t->pairs, sink, err) != 0)
            return -1;
    return 0;
}
