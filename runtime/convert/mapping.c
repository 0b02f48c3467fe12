/* mapping: see mapping.h. A tensor of ours begins a new one of theirs, or is a further part of one that an earlier part has begun. */
#include "runtime/convert/mapping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/convert/hf_config.h"

/* How many parts a tensor of theirs has, how far apart in our list, and its shape. */
static void shape(struct mapping_tensor *t, const struct names_place *p, const struct manifest_model *m)
{
    size_t rows = 0, columns = t->first->shape[1];
    t->parts = p->kind == NAMES_THIRD ? 3 : (p->kind == NAMES_EXPERT ? (size_t)m->experts : 1);
    t->step = p->kind == NAMES_EXPERT ? TENSORS_PER_EXPERT : 1;
    for (size_t i = 0; i < t->parts; i++)
        rows += t->first[i * t->step].shape[0];
    t->dims = t->first->dims;
    t->shape[0] = p->transposed ? columns : rows;
    t->shape[1] = p->transposed ? rows : columns;
    if (p->kind == NAMES_EXPERT) {
        t->dims = 3;
        t->shape[0] = t->parts;
        t->shape[1] = t->first->shape[0];
        t->shape[2] = columns;
    }
}

static void add(struct mapping *mapping, const struct manifest_model *m, const struct tensor_desc *ours,
                const struct names_place *p)
{
    struct mapping_tensor *t = &mapping->tensors[mapping->count++];
    *t = (struct mapping_tensor){.first = ours, .transposed = p->transposed};
    memcpy(t->name, p->name, sizeof t->name);
    shape(t, p, m);
    if (p->rotary)
        t->pairs = (size_t)(m->hidden / m->heads);
}

static void make(const struct manifest_model *m, const struct tensor_list *list, enum names_layout names,
                 struct mapping *out)
{
    struct names_place p;
    *out = (struct mapping){.tensors = mem_zero(list->count, sizeof *out->tensors)};
    for (size_t i = 0; i < list->count; i++)
        if (names_place(names, list->items[i].name, &p) && p.part == 0)
            add(out, m, &list->items[i], &p);
}

/* What transformers writes for GPT-2 has a prefix before all but the head. */
static void prefix(struct mapping_tensor *t)
{
    char name[NAMES_SIZE];
    if (strcmp(t->name, "lm_head.weight") == 0)
        return;
    (void)snprintf(name, sizeof name, "transformer.%.100s", t->name); /* names are shorter than that */
    memcpy(t->name, name, sizeof name);
}

void mapping_hf(const struct manifest_model *model, const struct tensor_list *list, enum dtype type,
                struct mapping *out)
{
    enum names_layout names = hf_layout(model);
    make(model, list, names, out);
    for (size_t i = 0; i < out->count; i++) {
        out->tensors[i].type = type;
        if (names == NAMES_HF_GPT2)
            prefix(&out->tensors[i]);
    }
}

static bool stays_float(const struct mapping_tensor *t)
{
    return t->dims == 1 || strcmp(t->name, "position_embd.weight") == 0 || strstr(t->name, ".ffn_gate_inp.");
}

void mapping_gguf(const struct manifest_model *model, const struct tensor_list *list, enum dtype type,
                  struct mapping *out)
{
    bool gpt2 = strcmp(model->arch, "gpt2") == 0;
    make(model, list, gpt2 ? NAMES_GGUF_GPT2 : NAMES_GGUF_LLAMA, out);
    for (size_t i = 0; i < out->count; i++)
        out->tensors[i].type = stays_float(&out->tensors[i]) ? DTYPE_F32 : type;
}

void mapping_free(struct mapping *mapping)
{
    free(mapping->tensors);
    *mapping = (struct mapping){0};
}

size_t mapping_bytes(const struct mapping_tensor *t)
{
    size_t bytes = dtype_bytes(t->type);
    for (size_t i = 0; i < t->dims; i++)
        bytes *= t->shape[i];
    return bytes;
}
