/* hfnames: see hfnames.h. One table a layout: our name to theirs, "#" standing for the number of a layer, "@" for that of an expert. */
#include "runtime/checkpoint/hfnames.h"

#include <stdio.h>
#include <string.h>

#define HIGHEST_DIGITS 6 /* digits of the number of a layer or expert */

struct row {
    const char *ours, *theirs;
    bool transposed;
    int part, parts;
};

static const struct row gpt2[] = {
    {"embed.weight", "wte.weight", false, 0, 1},
    {"position.weight", "wpe.weight", false, 0, 1},
    {"layers.#.norm1.weight", "h.#.ln_1.weight", false, 0, 1},
    {"layers.#.norm1.bias", "h.#.ln_1.bias", false, 0, 1},
    {"layers.#.attn.q.weight", "h.#.attn.c_attn.weight", true, 0, 3},
    {"layers.#.attn.k.weight", "h.#.attn.c_attn.weight", true, 1, 3},
    {"layers.#.attn.v.weight", "h.#.attn.c_attn.weight", true, 2, 3},
    {"layers.#.attn.q.bias", "h.#.attn.c_attn.bias", false, 0, 3},
    {"layers.#.attn.k.bias", "h.#.attn.c_attn.bias", false, 1, 3},
    {"layers.#.attn.v.bias", "h.#.attn.c_attn.bias", false, 2, 3},
    {"layers.#.attn.out.weight", "h.#.attn.c_proj.weight", true, 0, 1},
    {"layers.#.attn.out.bias", "h.#.attn.c_proj.bias", false, 0, 1},
    {"layers.#.norm2.weight", "h.#.ln_2.weight", false, 0, 1},
    {"layers.#.norm2.bias", "h.#.ln_2.bias", false, 0, 1},
    {"layers.#.ffn.up.weight", "h.#.mlp.c_fc.weight", true, 0, 1},
    {"layers.#.ffn.up.bias", "h.#.mlp.c_fc.bias", false, 0, 1},
    {"layers.#.ffn.down.weight", "h.#.mlp.c_proj.weight", true, 0, 1},
    {"layers.#.ffn.down.bias", "h.#.mlp.c_proj.bias", false, 0, 1},
    {"norm.weight", "ln_f.weight", false, 0, 1},
    {"norm.bias", "ln_f.bias", false, 0, 1},
    {"head.weight", "lm_head.weight", false, 0, 1},
    {NULL, NULL, false, 0, 0},
};

/* Llama's own layers come first: Mixtral's names differ in the feed-forward part only. */
static const struct row llama[] = {
    {"embed.weight", "model.embed_tokens.weight", false, 0, 1},
    {"layers.#.norm1.weight", "model.layers.#.input_layernorm.weight", false, 0, 1},
    {"layers.#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", false, 0, 1},
    {"layers.#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", false, 0, 1},
    {"layers.#.attn.v.weight", "model.layers.#.self_attn.v_proj.weight", false, 0, 1},
    {"layers.#.attn.out.weight", "model.layers.#.self_attn.o_proj.weight", false, 0, 1},
    {"layers.#.norm2.weight", "model.layers.#.post_attention_layernorm.weight", false, 0, 1},
    {"norm.weight", "model.norm.weight", false, 0, 1},
    {"head.weight", "lm_head.weight", false, 0, 1},
    {NULL, NULL, false, 0, 0},
};
static const struct row llama_dense[] = {
    {"layers.#.ffn.gate.weight", "model.layers.#.mlp.gate_proj.weight", false, 0, 1},
    {"layers.#.ffn.up.weight", "model.layers.#.mlp.up_proj.weight", false, 0, 1},
    {"layers.#.ffn.down.weight", "model.layers.#.mlp.down_proj.weight", false, 0, 1},
    {NULL, NULL, false, 0, 0},
};
static const struct row mixtral[] = {
    {"layers.#.router.weight", "model.layers.#.block_sparse_moe.gate.weight", false, 0, 1},
    {"layers.#.experts.@.gate.weight", "model.layers.#.block_sparse_moe.experts.@.w1.weight", false, 0, 1},
    {"layers.#.experts.@.up.weight", "model.layers.#.block_sparse_moe.experts.@.w3.weight", false, 0, 1},
    {"layers.#.experts.@.down.weight", "model.layers.#.block_sparse_moe.experts.@.w2.weight", false, 0, 1},
    {NULL, NULL, false, 0, 0},
};

static const struct row *const layouts[][2] = {
    [HF_GPT2] = {gpt2, NULL}, [HF_LLAMA] = {llama, llama_dense}, [HF_MIXTRAL] = {llama, mixtral}};

struct numbers {
    char layer[HIGHEST_DIGITS + 1], expert[HIGHEST_DIGITS + 1];
};

/* Does the name fit the pattern? Keeps the digits that stand for # and @. */
static bool fits(const char *name, const char *pattern, struct numbers *n)
{
    for (; *pattern; pattern++) {
        if (*pattern != '#' && *pattern != '@') {
            if (*name++ != *pattern)
                return false;
            continue;
        }
        size_t digits = strspn(name, "0123456789");
        char *to = *pattern == '#' ? n->layer : n->expert;
        if (digits == 0 || digits > HIGHEST_DIGITS)
            return false;
        memcpy(to, name, digits);
        to[digits] = 0;
        name += digits;
    }
    return !*name;
}

static void fill_in(const char *pattern, const struct numbers *n, char out[HF_NAME_SIZE])
{
    size_t used = 0;
    for (; *pattern; pattern++) {
        const char one[2] = {*pattern, 0}, *what = one;
        if (*pattern == '#')
            what = n->layer;
        else if (*pattern == '@')
            what = n->expert;
        used += (size_t)snprintf(out + used, HF_NAME_SIZE - used, "%s", what); /* the longest has 70 bytes */
    }
}

bool hf_place(enum hf_layout layout, const char *name, struct hf_place *out)
{
    struct numbers n = {"", ""};
    for (size_t t = 0; t < 2; t++)
        for (const struct row *r = layouts[layout][t]; r && r->ours; r++)
            if (fits(name, r->ours, &n)) {
                fill_in(r->theirs, &n, out->name);
                out->transposed = r->transposed;
                out->part = r->part;
                out->parts = r->parts;
                return true;
            }
    return false;
}

size_t hf_first_row(int part, int parts, size_t all, size_t rows)
{
    if (parts == 1 || part == 0)
        return 0;
    return part == 1 ? all - 2 * rows : all - rows;
}
