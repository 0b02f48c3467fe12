/* linear: layers of y = x weight^T + bias, each one product where cuBLASLt's epilogues can do the rest, which saves passes over y.
 *
 * What it has no algorithm for (gelu in fp32, odd widths) is a product and the kernels of other files. */
#include <string.h>

#include "kernels/cuda/fill.h"
#include "kernels/cuda/fp8.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/table.h"

#define AUX_STRIDE 8 /* what gelu is taken of has rows of a multiple of this (cublasLt.h: EPILOGUE_AUX_LD) */

static cudaDataType_t data_type(enum kernel_type type)
{
    return type == KERNEL_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* d (n,out) = x weight^T + c */
static struct product forward(enum kernel_type type, act *d, const act *c, const act *x,
                              const struct kernel_linear *l, size_t n)
{
    struct product p;
    memset(&p, 0, sizeof p);
    p.m = n;
    p.n = l->out;
    p.k = l->in;
    p.a.data = x;
    p.a.stride = l->in;
    p.b.data = l->weight;
    p.b.stride = l->in;
    p.b.transposed = true;
    p.in = p.out = data_type(type);
    p.c = c;
    p.d = d;
    p.stride = l->out;
    p.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return p;
}

/* d (n,in) = dy weight + c */
static struct product backward(enum kernel_type type, act *d, const act *c, const act *dy,
                               const struct kernel_linear *l, size_t n)
{
    struct product p = forward(type, d, c, dy, l, n);
    p.n = l->in;
    p.k = l->out;
    p.a.stride = l->out;
    p.b.transposed = false;
    p.stride = l->in;
    return p;
}

static bool empty(const struct product *p)
{
    return p->m == 0 || p->n == 0 || p->k == 0;
}

template <enum kernel_type type>
static void linear_forward(act *y, const act *onto, const act *x, const struct kernel_linear *l, size_t n)
{
    struct product p = forward(type, y, onto, x, l, n);
    if (l->fp8 && fp8_forward(y, onto, x, l, n))
        return;
    if (l->bias && !empty(&p)) {
        p.epilogue = CUBLASLT_EPILOGUE_BIAS;
        p.bias = l->bias;
        if (product_enqueue(&p))
            return;
        p.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
        p.bias = NULL;
    }
    product_plain(&p);
    if (l->bias)
        kernels_cuda(type)->bias_forward(y, y, l->bias, n, l->out);
}

template <enum kernel_type type>
static void linear_gelu_forward(act *y, act *before, const act *x, const struct kernel_linear *l, size_t n)
{
    struct product p = forward(type, y, NULL, x, l, n);
    p.epilogue = l->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    p.bias = l->bias;
    p.aux = before;
    p.aux_stride = l->out;
    if (!l->fp8 && l->out % AUX_STRIDE == 0 && !empty(&p) && product_enqueue(&p))
        return;
    linear_forward<type>(before, NULL, x, l, n);
    kernels_cuda(type)->gelu_forward(y, before, n * l->out);
}

template <enum kernel_type type>
static void linear_backward(act *dx, bool accumulate, const act *dy, const struct kernel_linear *l, size_t n)
{
    struct product p = backward(type, dx, accumulate ? dx : NULL, dy, l, n);
    if (!l->fp8 || !fp8_backward(dx, accumulate, dy, l, n))
        product_plain(&p);
}

template <enum kernel_type type>
static void linear_gelu_backward(act *dbefore, const act *dy, const act *before,
                                 const struct kernel_linear *l, size_t n)
{
    struct product p = backward(type, dbefore, NULL, dy, l, n);
    p.epilogue = CUBLASLT_EPILOGUE_DGELU;
    p.aux = (void *)before; /* which is only read */
    p.aux_stride = l->in;
    if (!l->fp8 && l->in % AUX_STRIDE == 0 && !empty(&p) && product_enqueue(&p))
        return;
    linear_backward<type>(dbefore, false, dy, l, n);
    kernels_cuda(type)->gelu_backward(dbefore, dbefore, before, n * l->in);
}

/* The bias's gradient is a kernel of its own: cuBLASLt's BGRADA overwrites, in the type of the result. */
template <enum kernel_type type>
static void linear_weights(real *dweight, real *dbias, const act *dy, const act *x,
                           const struct kernel_linear *l, size_t n)
{
    struct kernel_matrix a = {dy, l->out, true}, b = {x, l->in, false};
    if (!l->fp8 || !fp8_weights(dweight, dy, x, l, n))
        kernels_cuda(type)->gemm_real(l->out, l->in, n, a, b, true, dweight, l->in);
    if (dbias)
        kernels_cuda(type)->bias_backward(dbias, dy, n, l->out);
}

template <enum kernel_type type> static void fill(struct kernels *table)
{
    table->linear_forward = linear_forward<type>;
    table->linear_gelu_forward = linear_gelu_forward<type>;
    table->linear_backward = linear_backward<type>;
    table->linear_gelu_backward = linear_gelu_backward<type>;
    table->linear_weights = linear_weights<type>;
}

CUDA_FILL(linear)
{
    table->type == KERNEL_BF16 ? fill<KERNEL_BF16>(table) : fill<KERNEL_FP32>(table);
}
