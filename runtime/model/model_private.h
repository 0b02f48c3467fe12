/* model_private: what the files of the model share. Not for others. */
#ifndef BELAY_RUNTIME_MODEL_PRIVATE_H
#define BELAY_RUNTIME_MODEL_PRIVATE_H

#include "runtime/model/model.h"

/* What one layer's forward pass keeps for its backward pass. */
struct layer_acts {
    act *in;              /* (R,C) residual stream */
    act *norm1;           /* (R,C) */
    real *mean1, *rstd1;  /* (R); mean only for LayerNorm */
    act *qkv;             /* (N, qkv) this rank's heads: queries, keys, values */
    act *attention;       /* (N, queries) */
    real *lse;            /* (B, heads, T/CP) */
    act *mid;             /* (R,C) residual stream after attention */
    act *norm2;           /* (R,C) */
    real *mean2, *rstd2;  /* (R) */
    act *wide;            /* (N, wide): before the activation function; Llama: gate and up */
    act *active;          /* (N,F) after it */
    struct moe_acts *moe; /* instead of wide and active, with experts */
};

/* Gradients that the weight pass needs, beside the above. */
struct layer_grads {
    act *dout;  /* (R,C) of what the second block adds to the stream (after dropout) */
    act *dwide; /* (N, wide) */
    act *dmid;  /* (R,C) of what attention adds */
    act *dqkv;  /* (N, qkv) */
};

/* A micro-batch in flight in one chunk. */
struct slot {
    struct layer_acts *layers; /* as many as the largest chunk has */
    struct layer_grads *grads; /* with split_weights one for each layer, else all the same */
    act *out;                  /* (R,C) stream after the last layer, where the model ends */
    real *mean, *rstd;         /* (R) of the last norm */
    act *dnorm;                /* (R,C) gradient of the last norm's output */
    int32_t *tokens, *targets; /* (N) backend memory */
    uint64_t *rows;            /* (N) ids of tokens for dropout */
    uint64_t *row_starts;      /* (B) ids of position 0 of each sequence */
};

struct scratch {
    act *full;    /* (N,C): gathered over TP */
    act *partial; /* (N,C): to be summed over TP */
    act *narrow;  /* (R,C) */
    act *queries; /* (N, queries): gradient of attention's output */
    act *active;  /* (N,F), Llama: gradient of it */
    real *out;    /* (N, queries): attention before rounding; in fp32 and for whole sequences not needed */
    real *dqkv;   /* (N, qkv): sums of attention's gradients; likewise */
    real *logits; /* (rows of a piece, vocab) */
    real *statistics, *losses; /* (2 or 2 TP, N); (N) */
    double *loss;              /* sum of the losses since they were last asked for */
    act *head;                 /* (N,C) gathered output of the last norm */
    act *dhead;                /* (N,C) its gradient, partial over TP */
    act *kv[2];                /* (N, 2 keys) for ring attention: being used, being received */
    real *dkv[2];
};

/* Keys and values of the tokens so far, and what a pass adds to them (decode.c). */
struct cache;

#define MODEL_SEEN 16

struct model {
    struct model_request r;
    struct job_model config;
    const struct kernels *k;
    const struct mesh *mesh;
    const struct layout *layout;
    size_t batch, tokens, n, rows;   /* B, T/CP, N, R */
    size_t hidden, ffn, wide, vocab; /* ffn, wide, vocab: of this rank */
    size_t heads, kv_heads, size;    /* of this rank; size of one head */
    size_t queries, keys, qkv;       /* heads*size, kv_heads*size, queries + 2 keys */
    size_t max_layers;               /* of a chunk */
    bool sequence;                   /* really: TP > 1 */
    int32_t *positions;              /* (N) backend memory */
    int32_t *host_positions;         /* (T/CP) */
    real *cosine, *sine;             /* (T, size/2), Llama */
    struct slot *slots;
    struct scratch s;
    struct moe_scratch *moe;
    real *fp8;                /* (layers of the whole model, LINEARS, KERNEL_FP8_STATE), or NULL */
    struct cache *cache;      /* NULL: a pass is of whole sequences */
    struct layer_acts shared; /* what is computed again */
    struct layer_grads grads; /* when not split */
    void **blocks;            /* everything allocated */
    size_t n_blocks, bytes;
    double router;   /* losses since they were last asked for */
    bool strange;    /* there was a token outside of the vocabulary since then */
    uint64_t number; /* of this model among those of the process */
    const act
        *seen[MODEL_SEEN]; /* arrays of the caller that passes were given, for telling repetitions apart */
    size_t short_of;       /* bytes of the allocations that failed */
};

static inline bool model_gpt2(const struct model *m)
{
    return m->config.arch == ARCH_GPT2;
}

/* Are act and real the same numbers? */
static inline bool model_wide(const struct model *m)
{
    return m->k->act_size == sizeof(real);
}

/* Does attention need no sums beside its result? Where a rank has whole sequences and the backend a way for them. */
static inline bool model_whole(const struct model *m)
{
    return m->mesh->size.cp == 1 && m->k->attention_whole;
}

/* Allocation that model_free undoes; NULL when memory is short. */
void *model_alloc(struct model *m, size_t bytes);
act *model_alloc_act(struct model *m, size_t count);
real *model_alloc_real(struct model *m, size_t count);

/* ---- numbers of a unit ---- */
const act *model_weight(const struct model *m, size_t unit, const char *suffix);
real *model_gradient(const struct model *m, size_t unit, const char *suffix);
/* The same of a bias; NULL where the architecture has none. */
const act *model_bias(const struct model *m, size_t unit, const char *suffix);
real *model_bias_gradient(const struct model *m, size_t unit, const char *suffix);
size_t model_unit_of(const struct model *m, enum layout_unit_kind kind, size_t layer);
void model_need(const struct model *m, size_t unit, bool gradients);
void model_gradients_in(const struct model *m, size_t unit);
void model_done(const struct model *m, size_t unit);
void model_idle(const struct model *m);

/* ---- the residual stream and tensor parallelism ---- */

/* x (R,C) of every TP rank together: (N,C); x itself without sequence parallelism, else `full`. */
const act *stream_gather(const struct model *m, const act *x, act *full);
/* The sum of partial (N,C) over TP, this rank's rows (R,C) of it: in `own` under sequence parallelism, else in `partial`; returns which. */
act *stream_reduce(const struct model *m, act *partial, act *own);

/* Where in a layer something is dropped. */
enum place { PLACE_EMBEDDING, PLACE_ATTENTION, PLACE_FFN, PLACE_PROBABILITIES, PLACES };
uint64_t dropout_key(const struct model *m, uint64_t step, size_t layer, enum place place);
/* Of this rank's rows of the stream; rate 0 when nothing is dropped. */
struct kernel_dropout stream_dropout(const struct model *m, const struct model_batch *b,
                                     const struct slot *slot, size_t layer, enum place place);

/* A norm by the names of its weight and bias within the unit. What it writes is the caller's to fill in. */
struct kernel_norm norm_of(const struct model *m, size_t unit, const char *weight, const char *bias);
/* of `rows` rows of x */
void norm_forward(const struct model *m, const struct kernel_norm *norm, const act *x, size_t rows);
/* dx (R,C), dweight, dbias += ; from what the forward pass left in mean and rstd */
void norm_backward(const struct model *m, const struct kernel_norm *norm, real *dweight, real *dbias,
                   const act *dout, const act *x, act *dx);

/* ---- the blocks of layer `l` (of the whole model), which is number i of the chunk ---- */
struct layer {
    size_t l;
    size_t unit, experts; /* of the layout; experts LAYOUT_NONE when dense */
    struct layer_acts *a;
    struct layer_grads *g;
    const struct model_batch *b;
    const struct slot *slot;
};
struct kernel_norm norm2_of(const struct model *m, const struct layer *y); /* between the two blocks */
void norm2_backward(const struct model *m, const struct layer *y, const act *dout, act *d);
void attention_forward(struct model *m, const struct layer *y);          /* in -> mid, norm2 */
void attention_recompute(struct model *m, const struct layer *y);        /* norm1, attention, lse again */
void attention_backward(struct model *m, const struct layer *y, act *d); /* d: of mid -> of in */
void attention_weights(struct model *m, const struct layer *y);
void ffn_forward(struct model *m, const struct layer *y,
                 act *out); /* mid, norm2 -> out; out NULL: only what is kept */
void ffn_recompute(struct model *m, const struct layer *y); /* norm2, active */
void ffn_backward(struct model *m, const struct layer *y, act *d);
void ffn_weights(struct model *m, const struct layer *y);
double moe_forward(struct model *m, const struct layer *y, act *out); /* returns the router losses */
void moe_backward(struct model *m, const struct layer *y, act *d);
void moe_weights(struct model *m, const struct layer *y);
void moe_recompute(struct model *m, const struct layer *y);
void moe_scratch_new(struct model *m);
void moe_scratch_free(const struct model *m);
struct moe_acts *moe_acts_new(struct model *m);
void moe_acts_free(const struct model *m, struct moe_acts *a);

/* A block's last matrix: out (R,C) = in (R,C) + dropout(x (N,in) W^T summed over TP + bias), and norm (or NULL) of it. */
void projection_forward(const struct model *m, const struct layer *y, const struct kernel_linear *l,
                        enum place place, const act *x, const act *in, act *out,
                        const struct kernel_norm *norm);
/* The same from partial (N,C) = x W^T on. */
void projection_join(const struct model *m, const struct layer *y, const act *bias, enum place place,
                     act *partial, const act *in, act *out, const struct kernel_norm *norm);
/* The gradient (R,C) of what the block added, from d of the stream behind it: d itself, or in `kept` when it was dropped or must last. */
const act *projection_gradient(const struct model *m, const struct layer *y, enum place place, const act *d,
                               act *kept);

/* The matrices of a dense layer. */
enum linear { LINEAR_QKV, LINEAR_OUT, LINEAR_UP, LINEAR_DOWN, LINEARS };
/* What is known for products of this one in fp8; NULL where they are in act. Evaluation leaves it alone. */
real *model_fp8_of(const struct model *m, const struct layer *y, enum linear which);

/* ---- the ends ---- */
/* Rows of logits computed at a time. */
size_t head_piece(const struct model *m);
void embed_forward(struct model *m, const struct model_batch *b, const struct slot *slot, act *out);
void embed_backward(struct model *m, const struct model_batch *b, const struct slot *slot, act *d);
/* Logits (count, vocab), in host memory, of rows index[] of slot->out. One TP rank. */
void head_logits(struct model *m, const struct slot *slot, const int32_t *index, size_t count, real *logits);
void head_loss(struct model *m, const struct model_batch *b,
               const struct slot *slot); /* with gradients when training */
void head_backward(struct model *m, const struct slot *slot, act *d);

/* ---- the way through ---- */
/* The layers of a chunk, the first of which has its input: out gets what comes after the last. */
void layers_forward(struct model *m, const struct model_batch *b, act *out);
/* Of a model in one chunk: the tokens that the slot holds -> slot->out. */
void stream_forward(struct model *m, const struct model_batch *b);

/* ---- attention over what is kept of each sequence ---- */
/* Keeps the keys and values in qkv; attention (N, queries) of each row over those of its sequence up to it. */
void cache_forward(struct model *m, const struct layer *y);
/* m->cache, for model_new; what model_alloc gave is freed with the model. */
void cache_new(struct model *m);
void cache_free(struct cache *cache);

/* ---- attention over the CP group ---- */
/* attention (N, queries), lse from qkv */
void ring_forward(struct model *m, const struct layer *y);
/* dqkv (N, qkv) from dattention (N, queries) */
void ring_backward(struct model *m, const struct layer *y, const act *dattention, act *dqkv);

#endif
