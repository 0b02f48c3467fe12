/* hfnames: where a tensor of the runtime is found among those of Hugging Face's layout. Pure.
 *
 * The layout of GPT2LMHeadModel, LlamaForCausalLM and MixtralForCausalLM (github.com/huggingface/transformers, src/transformers/models). The
 * runtime's matrices are (out,in) like those of Llama; GPT-2's Conv1D keeps (in,out), with query, key and value side by side in c_attn. */
#ifndef BELAY_RUNTIME_HFNAMES_H
#define BELAY_RUNTIME_HFNAMES_H

#include <stdbool.h>
#include <stddef.h>

enum hf_layout { HF_GPT2, HF_LLAMA, HF_MIXTRAL };

#define HF_NAME_SIZE 128

/* Element (r,c) of ours is element (r+first,c) of theirs, or (c,r+first) when transposed; the other way round, theirs is filled by the
 * `parts` of ours that have this name, one behind the other. */
struct hf_place {
    char name[HF_NAME_SIZE];
    bool transposed;
    int part, parts; /* 0 of 1; query, key, value of c_attn are 0, 1, 2 of 3 */
};

/* Where "layers.3.attn.q.weight" is, e.g.; GPT-2's names as in the files of the original release, without "transformer.". False when the
 * layout has no such tensor. */
bool hf_place(enum hf_layout layout, const char *name, struct hf_place *out);

/* The first row of part `part` of 3 in a fused tensor of `all` rows, when our part has `rows`: query first, value last. */
size_t hf_first_row(int part, int parts, size_t all, size_t rows);

#endif
