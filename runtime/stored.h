/* stored: what a rank's store holds, as the arrays of a checkpoint. */
#ifndef BELAY_RUNTIME_STORED_H
#define BELAY_RUNTIME_STORED_H

#include <stdbool.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/engine/store.h"

/* Parameters under their own names (fp32 master copy), moments as "adam.m.NAME" and "adam.v.NAME": what this rank writes (over all ranks each
 * element once), or all that it owns, which it wants to read. Padding is left out. A fresh array of *count; free() it. */
struct checkpoint_array *stored_arrays(struct store *store, const struct layout *layout, bool written,
                                       size_t *count);
/* Only the parameters. */
struct checkpoint_array *stored_parameters(struct store *store, const struct layout *layout, size_t *count);

#endif
