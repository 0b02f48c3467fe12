/* kernels: every arithmetic step of training, one C function each; kernels/cpu implements them for this host.
 *
 * What always holds: all arrays are dense, row-major, of `real`, in memory of kernel_alloc or alike; N is the number of tokens B*T;
 * "+=" means that the function adds to its output, "=" that it overwrites it, whatever was there (NaN too). Results depend only
 * on the arguments and the number of threads, bit by bit: no atomics, no order that depends on timing. NaN and Inf in an input reach
 * the output. Functions do not allocate, except small scratch of a call, and cannot fail after kernel_open; sizes of 0 do nothing. */
#ifndef BELAY_KERNELS_KERNELS_H
#define BELAY_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "kernels/real.h"

/* Loads the matrix library and chooses its code path for this CPU. Before the first kernel_gemm or kernel_attention_*; may be called
 * again. 0, or -1 with a sentence. */
int kernel_open(struct err *err);

/* One line about the backend for logs and measurements, e.g. "OpenBLAS 0.3.21 SkylakeX, 2 threads". After kernel_open. */
void kernel_describe(char *out, size_t size);

/* `count` numbers, all 0, aligned to 64 bytes. NULL when the host has not that much memory. kernel_free takes NULL. */
real *kernel_alloc(size_t count);
void kernel_free(real *x);

/* x (count) = 0 */
void kernel_zero(real *x, size_t count);
/* out (count) = x (count) */
void kernel_copy(real *out, const real *x, size_t count);
/* Sum of x^2 in double. The order of the additions depends on count alone, so that every thread count gives the same bits. */
double kernel_sum_of_squares(const real *x, size_t count);
/* Are all elements finite? */
bool kernel_all_finite(const real *x, size_t count);

/* A matrix operand: element (i,j) is at data[i*stride + j], or data[j*stride + i] when transposed. */
struct kernel_matrix {
    const real *data;
    size_t stride;
    bool transposed;
};

/* c (m,n) = a (m,k) b (k,n), or += when accumulate. c has rows of c_stride elements. m, n, k, strides < 2^31. */
void kernel_gemm(size_t m, size_t n, size_t k, struct kernel_matrix a, struct kernel_matrix b,
                 bool accumulate, real *c, size_t c_stride);

/* out (N,C) = x (N,C) + bias (C) in each row; x may be out, or NULL for 0 (then the bias is only spread). */
void kernel_bias_forward(real *out, const real *x, const real *bias, size_t n, size_t c);
/* dbias (C) += column sums of dout (N,C) */
void kernel_bias_backward(real *dbias, const real *dout, size_t n, size_t c);

/* out (B,T,C) = wte[token] (V,C) + wpe[t] (>=T,C). wpe may be NULL. Every token is in [0,V): the caller has checked. */
void kernel_embedding_forward(real *out, const int32_t *tokens, const real *wte, const real *wpe, size_t b,
                              size_t t, size_t c);
/* dwte (V,C), dwpe (>=T,C) += ; dwpe may be NULL. */
void kernel_embedding_backward(real *dwte, real *dwpe, const real *dout, const int32_t *tokens, size_t b,
                               size_t t, size_t c);

/* Layer normalisation over C (Ba, Kiros, Hinton, arXiv 1607.06450): out = (x - mean) * rstd * weight + bias, with
 * rstd = 1/sqrt(variance + eps). Keeps mean (N) and rstd (N) for the backward pass. */
void kernel_layernorm_forward(real *out, real *mean, real *rstd, const real *x, const real *weight,
                              const real *bias, real eps, size_t n, size_t c);
/* dx (N,C), dweight (C), dbias (C) += */
void kernel_layernorm_backward(real *dx, real *dweight, real *dbias, const real *dout, const real *x,
                               const real *weight, const real *mean, const real *rstd, size_t n, size_t c);

/* RMS normalisation (Zhang, Sennrich, arXiv 1910.07467): out = x * rstd * weight, rstd = 1/sqrt(mean of x^2 + eps). */
void kernel_rmsnorm_forward(real *out, real *rstd, const real *x, const real *weight, real eps, size_t n,
                            size_t c);
/* dx (N,C), dweight (C) += */
void kernel_rmsnorm_backward(real *dx, real *dweight, const real *dout, const real *x, const real *weight,
                             const real *rstd, size_t n, size_t c);

/* Shape of one attention: `heads` query heads share `kv_heads` key and value heads (grouped-query attention, arXiv 2305.13245;
 * query head h uses key head h / (heads/kv_heads)). `stride`: elements from one token to the next within q, k and v, which may lie
 * side by side in one buffer (B*T, stride); a head's `size` elements are contiguous and its heads follow each other. */
struct kernel_heads {
    size_t batch, context, heads, kv_heads, size, stride;
};

/* Tables of rotary positions (Su et al., arXiv 2104.09864): cosine, sine (T, size/2) of t * theta^(-2i/size). */
void kernel_rope_tables(real *cosine, real *sine, double theta, size_t t, size_t size);
/* Turns, in place, the pairs (i, i + size/2) of each of `count` heads at x (B*T tokens, `stride` apart) by the angle of its position:
 * the half-split convention of Llama in Hugging Face. `back` turns the other way, which is the backward pass. */
void kernel_rope(real *x, const real *cosine, const real *sine, bool back, size_t count,
                 const struct kernel_heads *shape);

/* Causal attention: out (B*T, heads*size) = softmax(q k^T / sqrt(size)) v over keys at or before the query. lse (B,heads,T) keeps the
 * logarithm of each softmax's denominator. */
void kernel_attention_forward(real *out, real *lse, const real *q, const real *k, const real *v,
                              const struct kernel_heads *shape);
/* dq, dk, dv (strided as q, k, v) =, from dout and out (B*T, heads*size). The probabilities are computed again from lse
 * (Dao et al., arXiv 2205.14135, appendix B.2). */
void kernel_attention_backward(real *dq, real *dk, real *dv, const real *dout, const real *out,
                               const real *lse, const real *q, const real *k, const real *v,
                               const struct kernel_heads *shape);

/* out = gelu(x) in GPT-2's form (Hendrycks, Gimpel, arXiv 1606.08415): x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
void kernel_gelu_forward(real *out, const real *x, size_t count);
/* dx = dout * gelu'(x); dx may be dout. */
void kernel_gelu_backward(real *dx, const real *dout, const real *x, size_t count);

/* out = silu(gate) * up (Shazeer, arXiv 2002.05202), silu(x) = x / (1 + e^-x). */
void kernel_swiglu_forward(real *out, const real *gate, const real *up, size_t count);
/* dgate, dup = ; either may be dout. */
void kernel_swiglu_backward(real *dgate, real *dup, const real *dout, const real *gate, const real *up,
                            size_t count);

/* Cross-entropy in nats of logits (N, stride), of which the first V columns of a row count, against targets (N); a target < 0 is not
 * counted. losses (N) = log sum e^logits - logits[target], or 0; lse (N) = log sum e^logits. Returns the sum of the losses in double. */
double kernel_cross_entropy_forward(real *losses, real *lse, const real *logits, const int32_t *targets,
                                    size_t n, size_t v, size_t stride);
/* In place: logits (N, stride) become scale * (softmax - onehot(target)); rows with target < 0 and the columns from V on become 0. */
void kernel_cross_entropy_backward(real *logits, const real *lse, const int32_t *targets, real scale,
                                   size_t n, size_t v, size_t stride);

struct kernel_adamw {
    double lr, beta1, beta2, eps, weight_decay;
    double gradient_scale; /* each gradient is multiplied by this first: clipping without a pass of its own */
    int64_t step;          /* 1 for the first update */
};
/* AdamW (Loshchilov, Hutter, arXiv 1711.05101, algorithm 2): m, v, parameters (count) are updated in place; the decay is decoupled:
 * p -= lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * p). */
void kernel_adamw(real *parameters, real *m, real *v, const real *gradients, size_t count,
                  const struct kernel_adamw *config);

#endif
