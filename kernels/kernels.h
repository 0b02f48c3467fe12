/* kernels: every arithmetic step of training and inference, behind one table of functions that a backend fills in: kernels/cpu for this
 * host, later others for other devices. Nothing above this line of the program knows where it computes.
 *
 * Two kinds of numbers. `act` is what weights, activations and their gradients are stored in during the passes: float, bf16 (rounded to
 * nearest even; arithmetic inside a kernel is float), or double in the reference build. It is opaque, so that nobody adds to such a
 * pointer without act_at(). `real` is what must not lose bits: float (double in the reference build): weight gradients, master weights,
 * moments, statistics, logits, losses. In fp32 both are float, and an act array may then be used as a real one by act_as_real().
 *
 * What always holds: all arrays are dense, row-major, in memory of the backend's alloc; N is a number of tokens; "+=" means that the
 * function adds to its output, "=" that it overwrites it, whatever was there (NaN too). Results depend only on the arguments and, for
 * matrix products, on the number of threads, bit by bit: no atomics, no order that depends on timing. NaN and Inf in an input reach the
 * output. Functions do not allocate, except small scratch of a call, and cannot fail; sizes of 0 do nothing. Where a device
 * computes on its own, functions return at once and later ones see their results; `sync` waits for all of them. Arrays of plain integers
 * (tokens, positions, indices) are memory of the backend, too. */
#ifndef BELAY_KERNELS_KERNELS_H
#define BELAY_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "kernels/real.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kernel_type {
    KERNEL_FP32,
    KERNEL_BF16
}; /* of act; the reference build has its double under KERNEL_FP32 */

typedef struct act act; /* opaque: struct kernels says how wide an element is */

/* A matrix operand: element (i,j) is at data[i*stride + j], or data[j*stride + i] when transposed. */
struct kernel_matrix {
    const act *data;
    size_t stride;
    bool transposed;
};

/* Dropout (Srivastava et al. 2014) with a mask that is a pure function of what is dropped, not of where it is computed: element (row, column)
 * is kept when hash(key, row id, column) >= floor(rate * 2^32), and then multiplied by 1/(1-rate); what is dropped is multiplied by 0.
 * rate 0 (or a NULL pointer) keeps everything. The hash, in arithmetic modulo 2^64 and 2^32, with >> before ^:
 *   mix(x):  x = (x ^ x>>30) * 0xBF58476D1CE4E5B9;  x = (x ^ x>>27) * 0x94D049BB133111EB;  x ^ x>>31        (the finaliser of SplitMix64)
 *   r = mix(key ^ mix(row id + 0x9E3779B97F4A7C15));  low, high = the halves of r
 *   hash:  x = low + column;  x = (x ^ x>>16) * 0x7FEB352D ^ high;  x = (x ^ x>>15) * 0x846CA68B;  x ^ x>>16
 * Attention drops the probability of query i and key j of head h of sequence b with the key mix(key + (first_head + h + 1) *
 * 0x9E3779B97F4A7C15), row id rows[b] + q_position + i, and column k_position + j. */
struct kernel_dropout {
    double rate;  /* [0,1) */
    uint64_t key; /* of this run, step, layer and place in the layer */
    const uint64_t
        *rows; /* (N) id of each row: the global number of the sample times the context, plus the position */
};

/* Products in fp8 (Micikevicius et al., arXiv 2209.05433): x and weight are rounded to e4m3, dy to e5m2, each with one scale for the whole tensor,
 * from the largest magnitude that it had in the last steps (NVIDIA Transformer Engine calls this delayed scaling); sums are taken in float as
 * ever. What is known of a layer's tensors: for x, weight and dy in turn KERNEL_FP8_ROW reals of backend memory, the largest magnitude in this
 * step so far and in each of the steps before, newest first; 0: not seen. */
#define KERNEL_FP8_ROW   17
#define KERNEL_FP8_STATE ((size_t)3 * KERNEL_FP8_ROW)

/* A linear layer: y = x weight^T + bias. */
struct kernel_linear {
    const act *weight; /* (out, in), as it is stored */
    const act *bias;   /* (out) or NULL */
    size_t in, out;
    real *
        fp8; /* (KERNEL_FP8_STATE) products in fp8 where the sizes allow it (multiples of 16); NULL: in act */
};

/* What is normalised, and where it goes. */
struct kernel_norm {
    const act *weight, *bias; /* (C); no bias: RMSNorm, else LayerNorm */
    real eps;
    act *out;          /* (N,C) */
    real *mean, *rstd; /* (N); mean only for LayerNorm */
};

/* Shape of one call of attention: queries of one block of positions against keys of another. `heads` query heads share `kv_heads`
 * key and value heads (grouped-query attention, arXiv 2305.13245; query head h uses key head h / (heads/kv_heads)). A head's `size`
 * elements are contiguous and its heads follow each other. */
struct kernel_attention {
    size_t batch, queries, keys; /* sequences; tokens of each that are queries, and keys */
    size_t heads, kv_heads, size;
    size_t q_stride,
        q_batch; /* elements from one token to the next, and from one sequence to the next, within q and dq */
    size_t kv_stride, kv_batch;   /* within k, v, dk and dv */
    size_t out_stride, out_batch; /* within out and dout */
    size_t lse_stride; /* within lse (batch, heads, lse_stride): from one head to the next; >= queries */
    bool causal;       /* query i sees keys 0 .. i + keys - queries; false: all */
    const struct kernel_dropout
        *dropout; /* of the probabilities, or NULL; rows (batch): id of each sequence's position 0 */
    size_t q_position,
        k_position;    /* position of the first query and key within the sequence; only dropout asks */
    size_t first_head; /* number of the first query head in the whole model; only dropout asks */
};

struct kernel_adamw {
    double lr, beta1, beta2, eps, weight_decay;
    double gradient_scale; /* each gradient is multiplied by this first: clipping without a pass of its own */
    int64_t step;          /* 1 for the first update */
    /* How weights are rounded to act: false: to nearest even; true: up with the probability that makes the mean right, by hash(key, first + i, 0)
     * of struct kernel_dropout, whose upper bits are compared with the bits that go. */
    bool stochastic;
    uint64_t key, first;
};

/* Bytes of `alloc`: now, and the most there were; what the device has, 0 = not known. */
struct kernel_memory {
    size_t held, peak, device;
};

struct kernels {
    enum kernel_type type;
    size_t act_size; /* bytes of an element of act */
    size_t logits;   /* as many logits as it is worth computing at once */

    /* One line about the backend for logs and measurements, e.g. "OpenBLAS 0.3.21 SkylakeX, 2 threads". */
    void (*describe)(char *out, size_t size);

    /* ---- memory ---- */

    /* `bytes` bytes, all 0, aligned to 64. NULL when the device has not that much. free takes NULL. */
    void *(*alloc)(size_t bytes);
    void (*free)(void *x);
    void (*zero)(void *x, size_t bytes);
    /* `rows` pieces of `bytes` bytes; strides in bytes, too */
    void (*copy_rows)(void *out, size_t out_stride, const void *x, size_t x_stride, size_t rows,
                      size_t bytes);
    void (*copy)(void *out, const void *x, size_t bytes);      /* within the backend's memory; no overlap */
    void (*to_host)(void *out, const void *x, size_t bytes);   /* waits for what computes x */
    void (*from_host)(void *out, const void *x, size_t bytes); /* x may be reused at once */
    void (*sync)(void);
    void (*memory)(struct kernel_memory *out);

    /* What is the same each time it is done under `number`: the same calls of this table with the same arguments (and nothing else that matters: no
     * copies from or to the host, no numbers given back). A backend may keep what it has enqueued for a number and enqueue it at once
     * the next time. `forget` before any of the memory is freed. */
    void (*repeat)(uint64_t number, void (*work)(void *owner), void *owner);
    void (*forget)(void);

    /* For messages about what fails later, while the device computes: `what` is a constant, a format for printf with at most one number, or a tensor's name:
     * "while computing the backward pass of layer 3 in step 120". */
    void (*doing)(const char *what, int64_t number, int64_t step);

    /* out (count) = x, rounded to the other type */
    void (*act_from_real)(act *out, const real *x, size_t count);
    void (*real_from_act)(real *out, const act *x, size_t count);
    /* out (count) += x */
    void (*add)(act *out, const act *x, size_t count);
    void (*add_real)(real *out, const real *x, size_t count);
    void (*scale_real)(real *x, real factor, size_t count);
    /* *sum (memory of the backend) += the sum of x^2 in double. The order of the additions depends on count alone, so that every thread count gives
     * the same bits. */
    void (*sum_of_squares)(double *sum, const real *x, size_t count);
    /* These two wait. Is there neither NaN nor Inf? A hash of the bytes: the sum modulo 2^64 over 8-byte words w[i] (the last filled up with 0) of
     * mix(w[i] ^ mix(i + 0x9E3779B97F4A7C15)), mix as in struct kernel_dropout. For comparing replicas. */
    bool (*all_finite)(const real *x, size_t count);
    uint64_t (*hash)(const void *x, size_t bytes);

    /* ---- matrix products ---- */

    /* c (m,n) = a (m,k) b (k,n), or += when accumulate; c has rows of c_stride elements. Sums are taken in float whatever act is. m, n, k,
     * strides < 2^31. The second form keeps its result in real: weight gradients, logits. */
    void (*gemm)(size_t m, size_t n, size_t k, struct kernel_matrix a, struct kernel_matrix b,
                 bool accumulate, act *c, size_t c_stride);
    void (*gemm_real)(size_t m, size_t n, size_t k, struct kernel_matrix a, struct kernel_matrix b,
                      bool accumulate, real *c, size_t c_stride);

    /* ---- linear layers ---- */

    /* y (N,out) = x (N,in) weight^T + bias, plus onto (N,out) when that is not NULL; onto may be y. */
    void (*linear_forward)(act *y, const act *onto, const act *x, const struct kernel_linear *l, size_t n);
    /* before (N,out) = x weight^T + bias; y (N,out) = gelu(before) */
    void (*linear_gelu_forward)(act *y, act *before, const act *x, const struct kernel_linear *l, size_t n);
    /* dx (N,in) = dy (N,out) weight, or += when accumulate */
    void (*linear_backward)(act *dx, bool accumulate, const act *dy, const struct kernel_linear *l, size_t n);
    /* dbefore (N,in) = (dy weight) * gelu'(before), of the layer behind linear_gelu_forward */
    void (*linear_gelu_backward)(act *dbefore, const act *dy, const act *before,
                                 const struct kernel_linear *l, size_t n);
    /* dweight (out,in) += dy^T x; dbias (out) += column sums of dy, when it is not NULL */
    void (*linear_weights)(real *dweight, real *dbias, const act *dy, const act *x,
                           const struct kernel_linear *l, size_t n);

    /* A new step begins for `layers` layers whose states (layers, KERNEL_FP8_STATE) follow each other. NULL where there are no products in fp8. */
    void (*fp8_step)(real *states, size_t layers);

    /* sum (N,C) = in + dropped (x + bias), and norm (or NULL) of it: how what a block gives joins the residual stream. bias and dropout may be
     * NULL; sum may be in or x. */
    void (*residual_forward)(act *sum, const act *in, const act *x, const act *bias,
                             const struct kernel_dropout *dropout, const struct kernel_norm *norm, size_t n,
                             size_t c);

    /* out (N,C) = x (N,C) + bias (C) in each row; x may be out, or NULL for 0 (then the bias is only spread). */
    void (*bias_forward)(act *out, const act *x, const act *bias, size_t n, size_t c);
    /* dbias (C) += column sums of dout (N,C) */
    void (*bias_backward)(real *dbias, const act *dout, size_t n, size_t c);

    /* ---- embeddings ---- */

    /* out (N,C) = table[token - first] for tokens in [first, first+rows), 0 for others: one rank's part of a table that is cut by rows. */
    void (*embedding_forward)(act *out, const int32_t *tokens, const act *table, int32_t first, size_t rows,
                              size_t n, size_t c);
    /* dtable (rows,C) += */
    void (*embedding_backward)(real *dtable, const act *dout, const int32_t *tokens, int32_t first,
                               size_t rows, size_t n, size_t c);
    /* x (N,C) += table[positions[i]] in row i; and dtable (rows,C) += for the backward pass. */
    void (*position_forward)(act *x, const act *table, const int32_t *positions, size_t n, size_t c);
    void (*position_backward)(real *dtable, const act *dout, const int32_t *positions, size_t rows, size_t n,
                              size_t c);

    /* ---- norms ---- */

    /* Layer normalisation over C (Ba, Kiros, Hinton, arXiv 1607.06450): out = (x - mean) * rstd * weight + bias, with
     * rstd = 1/sqrt(variance + eps). Keeps mean (N) and rstd (N) for the backward pass. */
    void (*layernorm_forward)(act *out, real *mean, real *rstd, const act *x, const act *weight,
                              const act *bias, real eps, size_t n, size_t c);
    /* dx (N,C), dweight (C), dbias (C) += */
    void (*layernorm_backward)(act *dx, real *dweight, real *dbias, const act *dout, const act *x,
                               const act *weight, const real *mean, const real *rstd, size_t n, size_t c);
    /* RMS normalisation (Zhang, Sennrich, arXiv 1910.07467): out = x * rstd * weight, rstd = 1/sqrt(mean of x^2 + eps). */
    void (*rmsnorm_forward)(act *out, real *rstd, const act *x, const act *weight, real eps, size_t n,
                            size_t c);
    /* dx (N,C), dweight (C) += */
    void (*rmsnorm_backward)(act *dx, real *dweight, const act *dout, const act *x, const act *weight,
                             const real *rstd, size_t n, size_t c);

    /* ---- attention ---- */

    /* Turns, in place, the pairs (i, i + size/2) of each of `count` heads of each of N tokens at x (rows `stride` apart) by the angle of its
     * position (N): the half-split convention of Llama in Hugging Face. cosine, sine (>= largest position + 1, size/2): kernel_rope_tables.
     * `back` turns the other way, which is the backward pass. */
    void (*rope)(act *x, const real *cosine, const real *sine, const int32_t *positions, bool back,
                 size_t count, size_t size, size_t stride, size_t n);

    /* out = softmax(q k^T / sqrt(size)) v, for one block of keys after another: `first` starts out (real, strided) and lse (logarithm of each
     * softmax's denominator so far); later blocks are merged into both. Never holds queries x keys numbers: tiles, softmax online
     * (Milakov, Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135). A query that has seen no key has out 0 and lse -Inf. */
    void (*attention_forward)(real *out, real *lse, bool first, const act *q, const act *k, const act *v,
                              const struct kernel_attention *shape);
    /* dq, dk, dv (strided as q, k, v) += for one block of keys, from the finished out and lse of all blocks, and dout. The probabilities
     * are computed again from lse (arXiv 2205.14135, appendix B.2). */
    void (*attention_backward)(real *dq, real *dk, real *dv, const act *dout, const act *out, const real *lse,
                               const act *q, const act *k, const act *v,
                               const struct kernel_attention *shape);

    /* The same for whole sequences in one block: out is overwritten with the result, rounded once, and dq, dk, dv with the gradients, strided as q, k, v.
     * NULL where the backend has no shorter way than the two above. */
    void (*attention_whole)(act *out, real *lse, const act *q, const act *k, const act *v,
                            const struct kernel_attention *shape);
    void (*attention_whole_backward)(act *dq, act *dk, act *dv, const act *dout, const act *out,
                                     const real *lse, const act *q, const act *k, const act *v,
                                     const struct kernel_attention *shape);

    /* ---- activation functions and dropout ---- */

    /* out = gelu(x) in GPT-2's form (Hendrycks, Gimpel, arXiv 1606.08415): x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
    void (*gelu_forward)(act *out, const act *x, size_t count);
    /* dx = dout * gelu'(x); dx may be dout. */
    void (*gelu_backward)(act *dx, const act *dout, const act *x, size_t count);
    /* wide (N,2F) holds gate (F) and up (F) side by side in each row: out (N,F) = silu(gate) * up (Shazeer, arXiv 2002.05202). */
    void (*swiglu_forward)(act *out, const act *wide, size_t n, size_t f);
    /* dwide (N,2F) = from dout (N,F) */
    void (*swiglu_backward)(act *dwide, const act *dout, const act *wide, size_t n, size_t f);
    /* out (N,C) = dropped x (N,C); out may be x. The backward pass is the same function of the gradient. */
    void (*dropout)(act *out, const act *x, const struct kernel_dropout *dropout, size_t n, size_t c);

    /* ---- loss, over a vocabulary that may be cut over ranks ---- */

    /* This rank's columns [first, first+v) of the logits (N, stride): lse (N) = log of the sum of their e^logit (-Inf when v is 0);
     * chosen (N) = the logit of the target when it is one of them, else 0. Targets (N) < 0 are not counted: both become 0. */
    void (*cross_entropy_local)(real *lse, real *chosen, const real *logits, const int32_t *targets,
                                int32_t first, size_t n, size_t v, size_t stride);
    /* From `parts` ranks' lse and chosen, all (parts,2,N) in rank order (lse, then chosen): lse (N) over the whole vocabulary and losses (N) =
     * lse - chosen in nats, 0 where targets < 0. *sum (memory of the backend) += the sum of the losses in double. */
    void (*cross_entropy_combine)(double *sum, real *losses, real *lse, const real *all,
                                  const int32_t *targets, size_t parts, size_t n);
    /* dlogits (N, dstride) = scale * (softmax - onehot(target)) for this rank's columns, from the lse of the whole vocabulary; rows with target
     * < 0 and columns from v on become 0. dlogits may lie on the logits themselves when each of its rows begins where the row of the logits does. */
    void (*cross_entropy_backward)(act *dlogits, size_t dstride, const real *logits, size_t stride,
                                   const real *lse, const int32_t *targets, int32_t first, real scale,
                                   size_t n, size_t v);

    /* ---- mixture of experts ---- */

    /* probabilities (N,E) = softmax of logits (N,E); experts (N,K) = the K largest, largest first, ties to the lower number; weights (N,K) =
     * their probabilities, divided by their sum (Mixtral, arXiv 2401.04088; with K = 1 that is 1, so `normalise` false keeps them as they
     * are: Switch, arXiv 2101.03961); lse (N) of the logits. */
    void (*router_forward)(real *probabilities, real *weights, int32_t *experts, real *lse,
                           const real *logits, bool normalise, size_t n, size_t e, size_t k);
    /* dlogits (N,E) = gradient through the weights (dweights (N,K)), plus what dprobabilities (N,E; or NULL) asks for directly, plus
     * z_scale * 2 * lse * probabilities (router z-loss, arXiv 2202.08906). */
    void (*router_backward)(real *dlogits, const real *dweights, const real *dprobabilities,
                            const real *probabilities, const real *weights, const int32_t *experts,
                            const real *lse, real z_scale, bool normalise, size_t n, size_t e, size_t k);
    /* out (N,C) = x[index[i]] (.,C) in row i; 0 where index < 0 */
    void (*rows_gather)(act *out, const act *x, const int32_t *index, size_t n, size_t c);
    /* out (N,C) = (or += when accumulate) the sum over k of weights[i,k] * rows[slots[i,k]]; slots (N,K) < 0 count as 0; weights NULL: all 1. */
    void (*rows_combine)(act *out, bool accumulate, const act *rows, const int32_t *slots,
                         const real *weights, size_t n, size_t k, size_t c);
    /* drows[slots[i,k]] = weights[i,k] * dout[i]; dweights (N,K) = dout[i] . rows[slots[i,k]], 0 where slots < 0. No slot occurs twice;
     * drows may be rows; weights NULL: all 1; dweights NULL: not wanted. */
    void (*rows_combine_backward)(act *drows, real *dweights, const act *dout, const act *rows,
                                  const int32_t *slots, const real *weights, size_t n, size_t k, size_t c);

    /* ---- optimizer ---- */

    /* AdamW (Loshchilov, Hutter, arXiv 1711.05101, algorithm 2): m, v, parameters (count) are updated in place; the decay is decoupled:
     * p -= lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * p). weights (count), when not NULL, becomes the new parameters rounded to act. */
    void (*adamw)(real *parameters, real *m, real *v, const real *gradients, act *weights, size_t count,
                  const struct kernel_adamw *config);
};

/* The kernels of this host; loads the matrix library and chooses its code path for this CPU the first time. NULL with a sentence. */
const struct kernels *kernels_cpu(enum kernel_type type, struct err *err);

/* Tables of rotary positions (Su et al., arXiv 2104.09864) in host memory: cosine, sine (T, size/2) of t * theta^(-2i/size). */
void kernel_rope_tables(real *cosine, real *sine, double theta, size_t t, size_t size);

#ifdef __cplusplus
}
#endif

/* Element n of an array of act. */
static inline act *act_at(const struct kernels *k, act *x, size_t n)
{
    return (act *)(void *)((char *)x + n * k->act_size);
}
static inline const act *act_in(const struct kernels *k, const act *x, size_t n)
{
    return (const act *)(const void *)((const char *)x + n * k->act_size);
}

#endif
