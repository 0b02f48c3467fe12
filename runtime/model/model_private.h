/* model_private: what the files of the model share. Not for others. */
#ifndef BELAY_RUNTIME_MODEL_PRIVATE_H
#define BELAY_RUNTIME_MODEL_PRIVATE_H

#include "kernels/kernels.h"
#include "runtime/model/model.h"

#define MODEL_NORM_EPS   1e-5    /* GPT-2 and Llama 2 */
#define MODEL_ROPE_THETA 10000.0 /* Llama 1 and 2 */
#define MODEL_INIT_STD   0.02
/* The vocabulary is filled up to a multiple of this with rows that are always 0: whole vectors and cache lines in the largest product. */
#define MODEL_VOCAB_MULTIPLE 64

enum model_fill { FILL_NORMAL, FILL_RESIDUAL, FILL_ONE, FILL_ZERO };

/* The tensors of a configuration, in their order in the flat buffers; each begins at a multiple of 16 elements. */
struct model_layout {
    struct model_tensor *tensors;
    enum model_fill *fills;
    size_t count;
    size_t elements; /* of the flat buffers */
};
/* Never fails for a checked configuration. */
void model_layout_make(struct model_layout *layout, const struct job_model *config);
void model_layout_free(struct model_layout *layout);
size_t model_vocab_padded(const struct job_model *config);

/* What one layer's forward pass keeps for its backward pass. GPT-2 uses mean1, mean2; Llama uses up. */
struct model_layer {
    real *in;                    /* (N,C) residual stream */
    real *norm1, *mean1, *rstd1; /* (N,C), (N), (N) */
    real *qkv;                   /* (N, (heads + 2 kv_heads) * size) */
    real *attention, *lse;       /* (N,C), (B,heads,T) */
    real *mid;                   /* (N,C) residual stream after attention */
    real *norm2, *mean2, *rstd2;
    real *wide, *up, *act; /* (N,F): before the activation function, second input of SwiGLU, after it */
};

/* Gradients of the same, for the layer at hand. */
struct model_scratch {
    real *d;      /* (N,C) residual stream */
    real *narrow; /* (N,C) */
    real *qkv;
    real *wide, *up; /* (N,F) */
};

struct model {
    struct job_model config;
    size_t batch, context, n; /* B, T, N = B*T */
    size_t hidden, ffn, layers, vocab, vocab_padded;
    struct kernel_heads heads; /* of qkv */
    struct model_layout layout;
    real *parameters, *gradients;

    real *arena;               /* everything below lies in it */
    struct model_layer *layer; /* layers of them */
    struct model_scratch scratch;
    real *cosine, *sine;         /* (T, size/2), Llama */
    real *out;                   /* (N,C) residual stream after the last layer */
    real *norm, *mean, *rstd;    /* of it */
    real *logits, *lse, *losses; /* (N, vocab_padded), (N), (N) */
    int32_t *tokens, *targets;   /* (N), a copy for the backward pass */
    bool ready;                  /* model_forward has run on good tokens, model_backward has not */
};

/* A layer's tensors follow each other: tensor `which` of layer `l`, in its architecture's enumeration. */
real *model_parameter(const struct model *model, size_t tensor);
real *model_gradient(const struct model *model, size_t tensor);

/* A linear layer. Conv1D (GPT-2) stores its weight (in,out), others (out,in). bias: tensor number, or MODEL_NONE. */
#define MODEL_NONE SIZE_MAX
struct model_linear {
    size_t weight, bias;
    size_t in, out;
    bool conv1d;
};
/* y (N,out; rows `stride` apart) = x (N,in) W + bias (+ add (N,out), which may be NULL; stride is then out). */
void model_linear_forward(const struct model *model, const struct model_linear *linear, const real *x,
                          const real *add, real *y, size_t stride);
/* dW, dbias += ; dx (N,in) = or, when accumulate, +=. */
void model_linear_backward(const struct model *model, const struct model_linear *linear, const real *x,
                           const real *dy, size_t stride, bool accumulate, real *dx);

/* One layer of each architecture: in of `layer` -> out (N,C); and back, in place, scratch.d from d(out) to d(in). */
void model_gpt2_forward(const struct model *model, size_t l, real *out);
void model_gpt2_backward(const struct model *model, size_t l);
void model_llama_forward(const struct model *model, size_t l, real *out);
void model_llama_backward(const struct model *model, size_t l);

/* Tensor numbers; a layer's begin at MODEL_*_LAYER + l * MODEL_*_PER_LAYER, the tail's after the last layer. */
enum { GPT2_WTE, GPT2_WPE, GPT2_LAYER };
enum {
    GPT2_LN1_WEIGHT,
    GPT2_LN1_BIAS,
    GPT2_ATTN_WEIGHT,
    GPT2_ATTN_BIAS,
    GPT2_ATTN_PROJ_WEIGHT,
    GPT2_ATTN_PROJ_BIAS,
    GPT2_LN2_WEIGHT,
    GPT2_LN2_BIAS,
    GPT2_FC_WEIGHT,
    GPT2_FC_BIAS,
    GPT2_PROJ_WEIGHT,
    GPT2_PROJ_BIAS,
    GPT2_PER_LAYER
};
enum { GPT2_LNF_WEIGHT, GPT2_LNF_BIAS };
enum { LLAMA_EMBED, LLAMA_LAYER };
enum {
    LLAMA_NORM1,
    LLAMA_Q,
    LLAMA_K,
    LLAMA_V,
    LLAMA_O,
    LLAMA_NORM2,
    LLAMA_GATE,
    LLAMA_UP,
    LLAMA_DOWN,
    LLAMA_PER_LAYER
};
enum { LLAMA_NORM, LLAMA_HEAD };

#endif
