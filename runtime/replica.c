/* replica: see replica.h. Arrays and their pieces lie in one block of memory. */
#include "runtime/replica.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"

static const char *const prefixes[] = {"", "adam.m.", "adam.v."};
enum { PARTS = sizeof prefixes / sizeof *prefixes };

static void describe(const struct model_tensor *t, float *base, int rank, int size,
                     struct checkpoint_array *a)
{
    size_t columns = t->dims == 2 ? t->shape[1] : 1, from = t->shape[0] * (size_t)rank / (size_t)size,
           to = t->shape[0] * ((size_t)rank + 1) / (size_t)size;
    a->dims = t->dims;
    a->shape[0] = t->shape[0];
    a->shape[1] = t->dims == 2 ? t->shape[1] : 0;
    a->n_pieces = from < to;
    *a->pieces =
        (struct checkpoint_piece){{from, 0}, {to, columns}, base + t->offset + from * columns, columns};
}

struct checkpoint_array *replica_arrays(const struct model_tensor *tensors, size_t n, float *const bases[3],
                                        int rank, int size, size_t *count)
{
    *count = PARTS * n;
    struct checkpoint_array *arrays = mem_zero(*count, sizeof *arrays + sizeof *arrays->pieces);
    struct checkpoint_piece *pieces = (struct checkpoint_piece *)(void *)(arrays + *count);
    for (size_t p = 0; p < PARTS; p++)
        for (size_t i = 0; i < n; i++) {
            struct checkpoint_array *a = &arrays[p * n + i];
            a->pieces = &pieces[p * n + i];
            (void)snprintf(a->name, sizeof a->name, "%s%s", prefixes[p],
                           tensors[i].name); /* 7 + 64 bytes at most */
            describe(&tensors[i], bases[p], rank, size, a);
        }
    return arrays;
}
