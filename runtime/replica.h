/* replica: the arrays of a checkpoint when every rank holds the whole model and its AdamW state. */
#ifndef BELAY_RUNTIME_REPLICA_H
#define BELAY_RUNTIME_REPLICA_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/model/model.h"

/* Parameters under their own names, moments as "adam.m.NAME" and "adam.v.NAME"; of each the rows that rank `rank` of `size` writes (0 of 1: all).
 * A fresh array of *count; free() it. */
struct checkpoint_array *replica_arrays(const struct model_tensor *tensors, size_t n, float *const bases[3],
                                        int rank, int size, size_t *count);

#endif
