/* stored: what a rank's store holds, as the arrays of a checkpoint. */
#ifndef BELAY_RUNTIME_STORED_H
#define BELAY_RUNTIME_STORED_H

#include <stdbool.h>

#include "checkpoint/checkpoint.h"
#include "runtime/engine/engine.h"

/* Parameters under their own names (fp32 master copy), moments as "adam.m.NAME" and "adam.v.NAME": what this rank writes (over all ranks each
 * element once), or all that it owns, which it wants to read. Padding is left out. A fresh array of *count; free() it. */
struct checkpoint_array *stored_arrays(struct store *store, const struct layout *layout, bool written,
                                       size_t *count);
/* Adds to what this rank writes (which has room for it) what it knows of the operands of products in fp8, as its row of the tensor
 * "fp8.largest"; nothing without fp8. */
void stored_add_fp8(struct engine *engine, int rank, int size, struct checkpoint_array *arrays,
                    size_t *count);
/* Reads that row again from a verified checkpoint of the same mesh (folder NULL: it is of another); where it is not there: 0, which is nothing known, and
 * false. */
bool stored_load_fp8(struct engine *engine, int rank, int size, const char *folder);
/* Only the parameters. */
struct checkpoint_array *stored_parameters(struct store *store, const struct layout *layout, size_t *count);

#endif
