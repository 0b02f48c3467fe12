/* linear: layers y = x weight^T + bias, of the table's own products, biases and activation functions, one after the other. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"

static const struct kernels *k; /* the table that these are part of */

static struct kernel_matrix plain(const act *x, size_t stride)
{
    return (struct kernel_matrix){x, stride, false};
}

static struct kernel_matrix turned(const act *x, size_t stride)
{
    return (struct kernel_matrix){x, stride, true};
}

static void linear_forward(act *y, const act *onto, const act *x, const struct kernel_linear *l, size_t n)
{
    if (l->bias)
        k->bias_forward(y, onto, l->bias, n, l->out);
    else if (onto && onto != y)
        k->copy(y, onto, n * l->out * sizeof(elem));
    k->gemm(n, l->out, l->in, plain(x, l->in), turned(l->weight, l->in), onto || l->bias, y, l->out);
}

static void linear_gelu_forward(act *y, act *before, const act *x, const struct kernel_linear *l, size_t n)
{
    linear_forward(before, NULL, x, l, n);
    k->gelu_forward(y, before, n * l->out);
}

static void linear_backward(act *dx, bool accumulate, const act *dy, const struct kernel_linear *l, size_t n)
{
    k->gemm(n, l->in, l->out, plain(dy, l->out), plain(l->weight, l->in), accumulate, dx, l->in);
}

static void linear_gelu_backward(act *dbefore, const act *dy, const act *before,
                                 const struct kernel_linear *l, size_t n)
{
    linear_backward(dbefore, false, dy, l, n);
    k->gelu_backward(dbefore, dbefore, before, n * l->in);
}

static void linear_weights(real *dweight, real *dbias, const act *dy, const act *x,
                           const struct kernel_linear *l, size_t n)
{
    k->gemm_real(l->out, l->in, n, turned(dy, l->out), plain(x, l->in), true, dweight, l->in);
    if (dbias)
        k->bias_backward(dbias, dy, n, l->out);
}

void FILL(linear)(struct kernels *table)
{
    k = table;
    table->linear_forward = linear_forward;
    table->linear_gelu_forward = linear_gelu_forward;
    table->linear_backward = linear_backward;
    table->linear_gelu_backward = linear_gelu_backward;
    table->linear_weights = linear_weights;
}
