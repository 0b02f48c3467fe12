/* linear: y = x W^T + b with W stored (out, in), and its gradients. */
#include "runtime/model/model_private.h"

static struct kernel_matrix plain(const act *x, size_t stride)
{
    return (struct kernel_matrix){x, stride, false};
}

static struct kernel_matrix turned(const act *x, size_t stride)
{
    return (struct kernel_matrix){x, stride, true};
}

void linear_forward(const struct model *m, const struct linear *l, const act *x, size_t n, bool accumulate,
                    act *y)
{
    if (l->bias)
        m->k->bias_forward(y, accumulate ? y : NULL, l->bias, n, l->out);
    m->k->gemm(n, l->out, l->in, plain(x, l->in), turned(l->weight, l->in), accumulate || l->bias, y, l->out);
}

void linear_backward(const struct model *m, const struct linear *l, const act *dy, size_t n, bool accumulate,
                     act *dx)
{
    m->k->gemm(n, l->in, l->out, plain(dy, l->out), plain(l->weight, l->in), accumulate, dx, l->in);
}

void linear_weights(const struct model *m, const struct linear *l, const act *x, const act *dy, size_t n,
                    real *dweight, real *dbias)
{
    if (dweight)
        m->k->gemm_real(l->out, l->in, n, turned(dy, l->out), plain(x, l->in), true, dweight, l->in);
    if (dbias)
        m->k->bias_backward(dbias, dy, n, l->out);
}
