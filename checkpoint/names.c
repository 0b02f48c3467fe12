/* names: see names.h. One or two tables a layout: our name to theirs, "#" standing for the number of a layer, "@" for that of an expert. */
#include "checkpoint/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIGHEST_DIGITS 6 /* digits of the number of a layer or expert */

struct row {
    const char *ours, *theirs;
    unsigned how;
};

enum { TRANSPOSED = 1, QUERY = 2, KEY = 4, VALUE = 8, EXPERT = 16, ROTARY = 32 };

static const struct row gpt2[] = {
    {"embed.weight", "wte.weight", 0},
    {"position.weight", "wpe.weight", 0},
    {"layers.#.norm1.weight", "h.#.ln_1.weight", 0},
    {"layers.#.norm1.bias", "h.#.ln_1.bias", 0},
    {"layers.#.attn.q.weight", "h.#.attn.c_attn.weight", TRANSPOSED | QUERY},
    {"layers.#.attn.k.weight", "h.#.attn.c_attn.weight", TRANSPOSED | KEY},
    {"layers.#.attn.v.weight", "h.#.attn.c_attn.weight", TRANSPOSED | VALUE},
    {"layers.#.attn.q.bias", "h.#.attn.c_attn.bias", QUERY},
    {"layers.#.attn.k.bias", "h.#.attn.c_attn.bias", KEY},
    {"layers.#.attn.v.bias", "h.#.attn.c_attn.bias", VALUE},
    {"layers.#.attn.out.weight", "h.#.attn.c_proj.weight", TRANSPOSED},
    {"layers.#.attn.out.bias", "h.#.attn.c_proj.bias", 0},
    {"layers.#.norm2.weight", "h.#.ln_2.weight", 0},
    {"layers.#.norm2.bias", "h.#.ln_2.bias", 0},
    {"layers.#.ffn.up.weight", "h.#.mlp.c_fc.weight", TRANSPOSED},
    {"layers.#.ffn.up.bias", "h.#.mlp.c_fc.bias", 0},
    {"layers.#.ffn.down.weight", "h.#.mlp.c_proj.weight", TRANSPOSED},
    {"layers.#.ffn.down.bias", "h.#.mlp.c_proj.bias", 0},
    {"norm.weight", "ln_f.weight", 0},
    {"norm.bias", "ln_f.bias", 0},
    {"head.weight", "lm_head.weight", 0},
    {NULL, NULL, 0},
};

/* Llama's own layers come first: Mixtral's names differ in the feed-forward part only. */
static const struct row llama[] = {
    {"embed.weight", "model.embed_tokens.weight", 0},
    {"layers.#.norm1.weight", "model.layers.#.input_layernorm.weight", 0},
    {"layers.#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", 0},
    {"layers.#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", 0},
    {"layers.#.attn.v.weight", "model.layers.#.self_attn.v_proj.weight", 0},
    {"layers.#.attn.out.weight", "model.layers.#.self_attn.o_proj.weight", 0},
    {"layers.#.norm2.weight", "model.layers.#.post_attention_layernorm.weight", 0},
    {"norm.weight", "model.norm.weight", 0},
    {"head.weight", "lm_head.weight", 0},
    {NULL, NULL, 0},
};
static const struct row llama_dense[] = {
    {"layers.#.ffn.gate.weight", "model.layers.#.mlp.gate_proj.weight", 0},
    {"layers.#.ffn.up.weight", "model.layers.#.mlp.up_proj.weight", 0},
    {"layers.#.ffn.down.weight", "model.layers.#.mlp.down_proj.weight", 0},
    {NULL, NULL, 0},
};
static const struct row mixtral[] = {
    {"layers.#.router.weight", "model.layers.#.block_sparse_moe.gate.weight", 0},
    {"layers.#.experts.@.gate.weight", "model.layers.#.block_sparse_moe.experts.@.w1.weight", 0},
    {"layers.#.experts.@.up.weight", "model.layers.#.block_sparse_moe.experts.@.w3.weight", 0},
    {"layers.#.experts.@.down.weight", "model.layers.#.block_sparse_moe.experts.@.w2.weight", 0},
    {NULL, NULL, 0},
};

/* GPT-2 and Llama name the outer parts alike in GGUF. */
static const struct row gguf_both[] = {
    {"embed.weight", "token_embd.weight", 0},
    {"norm.weight", "output_norm.weight", 0},
    {"head.weight", "output.weight", 0},
    {"layers.#.norm1.weight", "blk.#.attn_norm.weight", 0},
    {"layers.#.attn.out.weight", "blk.#.attn_output.weight", 0},
    {"layers.#.norm2.weight", "blk.#.ffn_norm.weight", 0},
    {"layers.#.ffn.gate.weight", "blk.#.ffn_gate.weight", 0},
    {"layers.#.ffn.up.weight", "blk.#.ffn_up.weight", 0},
    {"layers.#.ffn.down.weight", "blk.#.ffn_down.weight", 0},
    {NULL, NULL, 0},
};
static const struct row gguf_gpt2[] = {
    {"position.weight", "position_embd.weight", 0},
    {"norm.bias", "output_norm.bias", 0},
    {"layers.#.norm1.bias", "blk.#.attn_norm.bias", 0},
    {"layers.#.attn.q.weight", "blk.#.attn_qkv.weight", QUERY},
    {"layers.#.attn.k.weight", "blk.#.attn_qkv.weight", KEY},
    {"layers.#.attn.v.weight", "blk.#.attn_qkv.weight", VALUE},
    {"layers.#.attn.q.bias", "blk.#.attn_qkv.bias", QUERY},
    {"layers.#.attn.k.bias", "blk.#.attn_qkv.bias", KEY},
    {"layers.#.attn.v.bias", "blk.#.attn_qkv.bias", VALUE},
    {"layers.#.attn.out.bias", "blk.#.attn_output.bias", 0},
    {"layers.#.norm2.bias", "blk.#.ffn_norm.bias", 0},
    {"layers.#.ffn.up.bias", "blk.#.ffn_up.bias", 0},
    {"layers.#.ffn.down.bias", "blk.#.ffn_down.bias", 0},
    {NULL, NULL, 0},
};
static const struct row gguf_llama[] = {
    {"layers.#.attn.q.weight", "blk.#.attn_q.weight", ROTARY},
    {"layers.#.attn.k.weight", "blk.#.attn_k.weight", ROTARY},
    {"layers.#.attn.v.weight", "blk.#.attn_v.weight", 0},
    {"layers.#.router.weight", "blk.#.ffn_gate_inp.weight", 0},
    {"layers.#.experts.@.gate.weight", "blk.#.ffn_gate_exps.weight", EXPERT},
    {"layers.#.experts.@.up.weight", "blk.#.ffn_up_exps.weight", EXPERT},
    {"layers.#.experts.@.down.weight", "blk.#.ffn_down_exps.weight", EXPERT},
    {NULL, NULL, 0},
};

static const struct row *const layouts[][2] = {[NAMES_HF_GPT2] = {gpt2, NULL},
                                               [NAMES_HF_LLAMA] = {llama, llama_dense},
                                               [NAMES_HF_MIXTRAL] = {llama, mixtral},
                                               [NAMES_GGUF_GPT2] = {gguf_both, gguf_gpt2},
                                               [NAMES_GGUF_LLAMA] = {gguf_both, gguf_llama}};

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

static void fill_in(const char *pattern, const struct numbers *n, char out[NAMES_SIZE])
{
    size_t used = 0;
    for (; *pattern; pattern++) {
        const char one[2] = {*pattern, 0}, *what = one;
        if (*pattern == '#')
            what = n->layer;
        else if (*pattern == '@')
            what = n->expert;
        used += (size_t)snprintf(out + used, NAMES_SIZE - used, "%s", what); /* the longest has 70 bytes */
    }
}

static void describe(const struct row *r, const struct numbers *n, struct names_place *out)
{
    *out = (struct names_place){.transposed = r->how & TRANSPOSED, .rotary = r->how & ROTARY};
    fill_in(r->theirs, n, out->name);
    if (r->how & (QUERY | KEY | VALUE)) {
        out->kind = NAMES_THIRD;
        out->part = r->how & QUERY ? 0 : (r->how & KEY ? 1 : 2);
    } else if (r->how & EXPERT) {
        out->kind = NAMES_EXPERT;
        out->part = strtoul(n->expert, NULL, 10); /* digits only */
    }
}

bool names_place(enum names_layout layout, const char *name, struct names_place *out)
{
    struct numbers n = {"", ""};
    for (size_t t = 0; t < 2; t++)
        for (const struct row *r = layouts[layout][t]; r && r->ours; r++)
            if (fits(name, r->ours, &n)) {
                describe(r, &n, out);
                return true;
            }
    return false;
}
