/* model_layout: which tensors a configuration has, under which names, and where they lie in the flat buffers.
 *
 * The tables below are the one place that knows; order and names are Hugging Face's, with GPT-2's matrices as its Conv1D keeps them,
 * (in,out), and Llama's (out,in). The numbers of the enumerations in model_private.h are the rows of these tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/model/model_private.h"

enum size_name { NO_SIZE, HIDDEN, QKV, KV, FFN, VOCAB, CONTEXT };

struct row {
    const char *name; /* below "h.N." or "model.layers.N." for the rows of a layer */
    enum size_name shape[2];
    enum model_fill fill;
    bool decay;
};

static const struct row gpt2_front[] = {{"wte.weight", {VOCAB, HIDDEN}, FILL_NORMAL, true},
                                        {"wpe.weight", {CONTEXT, HIDDEN}, FILL_NORMAL, false}};
static const struct row gpt2_layer[] = {{"ln_1.weight", {HIDDEN}, FILL_ONE, false},
                                        {"ln_1.bias", {HIDDEN}, FILL_ZERO, false},
                                        {"attn.c_attn.weight", {HIDDEN, QKV}, FILL_NORMAL, true},
                                        {"attn.c_attn.bias", {QKV}, FILL_ZERO, false},
                                        {"attn.c_proj.weight", {HIDDEN, HIDDEN}, FILL_RESIDUAL, true},
                                        {"attn.c_proj.bias", {HIDDEN}, FILL_ZERO, false},
                                        {"ln_2.weight", {HIDDEN}, FILL_ONE, false},
                                        {"ln_2.bias", {HIDDEN}, FILL_ZERO, false},
                                        {"mlp.c_fc.weight", {HIDDEN, FFN}, FILL_NORMAL, true},
                                        {"mlp.c_fc.bias", {FFN}, FILL_ZERO, false},
                                        {"mlp.c_proj.weight", {FFN, HIDDEN}, FILL_RESIDUAL, true},
                                        {"mlp.c_proj.bias", {HIDDEN}, FILL_ZERO, false}};
static const struct row gpt2_tail[] = {{"ln_f.weight", {HIDDEN}, FILL_ONE, false},
                                       {"ln_f.bias", {HIDDEN}, FILL_ZERO, false}};

static const struct row llama_front[] = {{"model.embed_tokens.weight", {VOCAB, HIDDEN}, FILL_NORMAL, true}};
static const struct row llama_layer[] = {{"input_layernorm.weight", {HIDDEN}, FILL_ONE, false},
                                         {"self_attn.q_proj.weight", {HIDDEN, HIDDEN}, FILL_NORMAL, true},
                                         {"self_attn.k_proj.weight", {KV, HIDDEN}, FILL_NORMAL, true},
                                         {"self_attn.v_proj.weight", {KV, HIDDEN}, FILL_NORMAL, true},
                                         {"self_attn.o_proj.weight", {HIDDEN, HIDDEN}, FILL_RESIDUAL, true},
                                         {"post_attention_layernorm.weight", {HIDDEN}, FILL_ONE, false},
                                         {"mlp.gate_proj.weight", {FFN, HIDDEN}, FILL_NORMAL, true},
                                         {"mlp.up_proj.weight", {FFN, HIDDEN}, FILL_NORMAL, true},
                                         {"mlp.down_proj.weight", {HIDDEN, FFN}, FILL_RESIDUAL, true}};
static const struct row llama_tail[] = {{"model.norm.weight", {HIDDEN}, FILL_ONE, false},
                                        {"lm_head.weight", {VOCAB, HIDDEN}, FILL_NORMAL, true}};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
_Static_assert(COUNT(gpt2_layer) == GPT2_PER_LAYER && COUNT(gpt2_front) == GPT2_LAYER,
               "rows and numbers agree");
_Static_assert(COUNT(llama_layer) == LLAMA_PER_LAYER && COUNT(llama_front) == LLAMA_LAYER,
               "rows and numbers agree");

static size_t size_of(enum size_name name, const struct job_model *c)
{
    size_t kv = (size_t)(c->hidden / c->heads * c->kv_heads);
    switch (name) {
    case HIDDEN:
        return (size_t)c->hidden;
    case QKV:
        return (size_t)c->hidden + 2 * kv;
    case KV:
        return kv;
    case FFN:
        return (size_t)c->ffn;
    case VOCAB:
        return (size_t)c->vocab;
    case CONTEXT:
        return (size_t)c->context;
    case NO_SIZE:
        break;
    }
    return 1;
}

size_t model_vocab_padded(const struct job_model *config)
{
    return ((size_t)config->vocab + MODEL_VOCAB_MULTIPLE - 1) / MODEL_VOCAB_MULTIPLE * MODEL_VOCAB_MULTIPLE;
}

static void add_row(struct model_layout *layout, const struct row *row, const char *prefix,
                    const struct job_model *c)
{
    layout->tensors = mem_grow(layout->tensors, layout->count + 1, sizeof *layout->tensors);
    layout->fills = mem_grow(layout->fills, layout->count + 1, sizeof *layout->fills);
    struct model_tensor *t = &layout->tensors[layout->count];
    layout->fills[layout->count++] = row->fill;
    *t = (struct model_tensor){
        .dims = row->shape[1] == NO_SIZE ? 1 : 2, .offset = layout->elements, .decay = row->decay};
    snprintf(t->name, sizeof t->name, "%s%s", prefix, row->name);
    for (size_t i = 0; i < t->dims; i++)
        t->shape[i] = size_of(row->shape[i], c);
    t->count = size_of(row->shape[0], c) * size_of(row->shape[1], c);
    size_t room = row->shape[0] == VOCAB ? model_vocab_padded(c) * (size_t)c->hidden : t->count;
    layout->elements += (room + 15) / 16 * 16;
}

static void add_rows(struct model_layout *layout, const struct row *rows, size_t count, const char *prefix,
                     const struct job_model *c)
{
    for (size_t i = 0; i < count; i++)
        add_row(layout, &rows[i], prefix, c);
}

static void add_layers(struct model_layout *layout, const struct row *rows, size_t count, const char *prefix,
                       const struct job_model *c)
{
    for (int64_t l = 0; l < c->layers; l++) {
        char name[40];
        snprintf(name, sizeof name, "%s.%lld.", prefix, (long long)l);
        add_rows(layout, rows, count, name, c);
    }
}

void model_layout_make(struct model_layout *layout, const struct job_model *config)
{
    *layout = (struct model_layout){0};
    if (config->arch == ARCH_GPT2) {
        add_rows(layout, gpt2_front, COUNT(gpt2_front), "", config);
        add_layers(layout, gpt2_layer, COUNT(gpt2_layer), "h", config);
        add_rows(layout, gpt2_tail, COUNT(gpt2_tail), "", config);
    } else {
        add_rows(layout, llama_front, COUNT(llama_front), "", config);
        add_layers(layout, llama_layer, COUNT(llama_layer), "model.layers", config);
        add_rows(layout, llama_tail, COUNT(llama_tail), "", config);
    }
}

void model_layout_free(struct model_layout *layout)
{
    free(layout->tensors);
    free(layout->fills);
    *layout = (struct model_layout){0};
}
