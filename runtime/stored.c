/* stored: see stored.h. Arrays and their pieces lie in one block of memory. */
#include "runtime/stored.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"

#define PIECES_MAX 3 /* of a range: checkpoint_range */

static const struct {
    const char *prefix;
    enum store_part part;
} parts[] = {{"", STORE_MASTER}, {"adam.m.", STORE_FIRST}, {"adam.v.", STORE_SECOND}};
enum { PARTS = sizeof parts / sizeof *parts };

static void describe(const struct layout_tensor *t, struct store_range range, const char *prefix,
                     struct checkpoint_array *a)
{
    struct box box = {{t->from[0], t->from[1]}, {t->to[0], t->to[1]}};
    size_t elements = (t->to[0] - t->from[0]) * (t->to[1] - t->from[1]);
    size_t end = range.end < elements ? range.end : elements;
    (void)snprintf(a->name, sizeof a->name, "%s%s", prefix, t->name); /* 7 + 64 bytes at most */
    a->dims = t->dims;
    a->shape[0] = t->shape[0];
    a->shape[1] = t->dims == 2 ? t->shape[1] : 0;
    if (range.begin < end)
        a->n_pieces = checkpoint_range(&box, range.begin, end, range.data, a->pieces);
}

/* Where copying to the host is plain copying, arrays lie in the host's memory already. */
static struct checkpoint_memory memory_of(struct store *store)
{
    const struct kernels *k = store_kernels(store);
    if (k->to_host == k->copy)
        return (struct checkpoint_memory){NULL, NULL};
    return (struct checkpoint_memory){k->to_host, k->from_host};
}

static struct checkpoint_array *arrays_of(struct store *store, const struct layout *layout, size_t n_parts,
                                          bool written, size_t *count)
{
    size_t n = layout->n_tensors;
    *count = n_parts * n;
    struct checkpoint_array *arrays =
        mem_zero(*count + 1, sizeof *arrays + PIECES_MAX * sizeof *arrays->pieces); /* one to be added */
    struct checkpoint_piece *pieces = (struct checkpoint_piece *)(void *)(arrays + *count + 1);
    arrays[*count].pieces = pieces + *count * PIECES_MAX;
    for (size_t p = 0; p < n_parts; p++)
        for (size_t t = 0; t < n; t++) {
            struct checkpoint_array *a = &arrays[p * n + t];
            a->pieces = pieces + (p * n + t) * PIECES_MAX;
            a->memory = memory_of(store);
            describe(&layout->tensors[t],
                     written ? store_written(store, t, parts[p].part) : store_owned(store, t, parts[p].part),
                     parts[p].prefix, a);
        }
    return arrays;
}

struct checkpoint_array *stored_arrays(struct store *store, const struct layout *layout, bool written,
                                       size_t *count)
{
    return arrays_of(store, layout, PARTS, written, count);
}

/* This rank's row of all ranks' (size, count). */
static bool describe_fp8(struct engine *engine, int rank, int size, struct checkpoint_array *a)
{
    size_t count, row = (size_t)rank;
    real *data = engine_fp8(engine, &count);
    if (!data)
        return false;
    (void)snprintf(a->name, sizeof a->name, "fp8.largest");
    a->dims = 2;
    a->shape[0] = (size_t)size;
    a->shape[1] = count;
    a->n_pieces = 1;
    a->pieces[0] = (struct checkpoint_piece){{row, 0}, {row + 1, count}, data, count};
    a->memory = memory_of(engine_store(engine));
    return true;
}

void stored_add_fp8(struct engine *engine, int rank, int size, struct checkpoint_array *arrays, size_t *count)
{
    *count += describe_fp8(engine, rank, size, &arrays[*count]);
}

bool stored_load_fp8(struct engine *engine, int rank, int size, const char *folder)
{
    struct checkpoint_piece piece;
    struct checkpoint_array a = {.pieces = &piece};
    if (!describe_fp8(engine, rank, size, &a))
        return true;
    if (folder && checkpoint_load(folder, &a, 1, NULL) == CHECKPOINT_OK)
        return true;
    store_kernels(engine_store(engine))->zero(piece.data, a.shape[1] * sizeof *piece.data);
    return false;
}

struct checkpoint_array *stored_parameters(struct store *store, const struct layout *layout, size_t *count)
{
    return arrays_of(store, layout, 1, false, count);
}
