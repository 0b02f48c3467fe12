/* names: where a tensor of the runtime is found in the layouts of others. Pure.
 *
 * Hugging Face's: GPT2LMHeadModel, LlamaForCausalLM and MixtralForCausalLM (github.com/huggingface/transformers, src/transformers/models). The
 * runtime's matrices are (out,in) like those of Llama; GPT-2's Conv1D keeps (in,out), with query, key and value side by side in c_attn.
 * GGUF's: the architectures gpt2 and llama (github.com/ggml-org/llama.cpp, gguf-py/gguf/constants.py); matrices are (out,in), GPT-2's query, key
 * and value one below the other in attn_qkv, experts one behind the other in one tensor. */
#ifndef BELAY_CHECKPOINT_NAMES_H
#define BELAY_CHECKPOINT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum names_layout { NAMES_HF_GPT2, NAMES_HF_LLAMA, NAMES_HF_MIXTRAL, NAMES_GGUF_GPT2, NAMES_GGUF_LLAMA };

#define NAMES_SIZE 128

/* What a tensor of ours is in theirs. */
enum names_kind {
    NAMES_WHOLE,
    NAMES_THIRD, /* part `part` of three: query, key, value, one behind the other by their rows */
    NAMES_EXPERT /* part `part` of as many as there are experts */
};
struct names_place {
    char name[NAMES_SIZE];
    bool transposed; /* element (r,c) of ours is (c, r + rows of the parts before) of theirs */
    bool
        rotary; /* Llama's query and key: rows of a head are paired (0,1), (2,3), … in GGUF and (0,D/2), (1,D/2+1), … in ours */
    enum names_kind kind;
    size_t part;
};

/* Where "layers.3.attn.q.weight" is, e.g.; GPT-2's names as in the files of the original release, without "transformer.". False when the
 * layout has no such tensor. */
bool names_place(enum names_layout layout, const char *name, struct names_place *out);

#endif
