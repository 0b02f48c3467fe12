/* tensors: which tensors a model has, under the names and in the shapes that checkpoints keep them. Pure. */
#ifndef BELAY_RUNTIME_TENSORS_H
#define BELAY_RUNTIME_TENSORS_H

#include <stddef.h>

#include "checkpoint/manifest.h"

struct tensor_desc {
    char name[MANIFEST_NAME_SIZE];
    size_t shape[2], dims; /* matrices are (out,in) */
};

struct tensor_list {
    struct tensor_desc *items;
    size_t count;
};

/* Fills *list: embeddings first, then layer by layer, then the last norm and the head. tensors_free when done. The parameters of an expert
 * follow each other, those of all experts of a layer, too: TENSORS_PER_EXPERT apart. */
#define TENSORS_PER_EXPERT 3
void tensors_of_model(const struct manifest_model *model, struct tensor_list *list);
void tensors_free(struct tensor_list *list);

/* Can a model that a file speaks of, with `count` tensors, be listed? Each layer, and each expert of it, has some: when there are far too few,
 * a list as long as the file wants could take all of the memory before the first is missed. 0, or -1 with a sentence. */
int tensors_check_count(const struct manifest_model *model, size_t count, struct err *err);

/* Numbers in all of them. */
size_t tensors_numbers(const struct tensor_list *list);

#endif
