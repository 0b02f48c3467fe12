/* mapping: the tensors of a model as another program's files have them, and of which of ours each is made. Pure. */
#ifndef BELAY_RUNTIME_MAPPING_H
#define BELAY_RUNTIME_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

#include "checkpoint/dtype.h"
#include "checkpoint/names.h"
#include "runtime/convert/tensors.h"

/* Made of `parts` tensors of ours, first[0], first[step], …: one behind the other by their rows. */
struct mapping_tensor {
    char name[NAMES_SIZE];
    enum dtype type;
    size_t shape[3], dims;
    const struct tensor_desc *first; /* borrowed from the list */
    size_t parts, step;
    bool transposed; /* (in,out): element (c,r) of ours, parts side by side */
    size_t pairs;    /* 0, or: rows of each head of so many are put in GGUF's order, see names_place.rotary */
};

struct mapping {
    struct mapping_tensor *tensors;
    size_t count;
};

/* The tensors of a model in Hugging Face's layout, all of one type; list as tensors_of_model gave it, which must live as long. mapping_free. */
void mapping_hf(const struct manifest_model *model, const struct tensor_list *list, enum dtype type,
                struct mapping *out);
/* In GGUF's. Vectors, positions and routers stay F32, as llama.cpp's own converter has it. */
void mapping_gguf(const struct manifest_model *model, const struct tensor_list *list, enum dtype type,
                  struct mapping *out);
void mapping_free(struct mapping *mapping);

/* Bytes of a tensor in a file. */
size_t mapping_bytes(const struct mapping_tensor *t);

#endif
