/* model_linear: y = x W + b and its gradients, for both ways of storing W. */
#include "runtime/model/model_private.h"

real *model_parameter(const struct model *model, size_t tensor)
{
    return model->parameters + model->layout.tensors[tensor].offset;
}

real *model_gradient(const struct model *model, size_t tensor)
{
    return model->gradients + model->layout.tensors[tensor].offset;
}

void model_linear_forward(const struct model *model, const struct model_linear *linear, const real *x,
                          const real *add, real *y, size_t stride)
{
    size_t weight_stride = linear->conv1d ? linear->out : linear->in;
    struct kernel_matrix a = {x, linear->in, false};
    struct kernel_matrix w = {model_parameter(model, linear->weight), weight_stride, !linear->conv1d};
    bool bias = linear->bias != MODEL_NONE;
    if (bias)
        kernel_bias_forward(y, add, model_parameter(model, linear->bias), model->n, linear->out);
    else if (add)
        kernel_copy(y, add, model->n * linear->out);
    kernel_gemm(model->n, linear->out, linear->in, a, w, bias || add, y, stride);
}

void model_linear_backward(const struct model *model, const struct model_linear *linear, const real *x,
                           const real *dy, size_t stride, bool accumulate, real *dx)
{
    size_t weight_stride = linear->conv1d ? linear->out : linear->in;
    struct kernel_matrix w = {model_parameter(model, linear->weight), weight_stride, linear->conv1d};
    kernel_gemm(model->n, linear->in, linear->out, (struct kernel_matrix){dy, stride, false}, w, accumulate,
                dx, linear->in);
    real *dw = model_gradient(model, linear->weight);
    if (linear->conv1d)
        kernel_gemm(linear->in, linear->out, model->n, (struct kernel_matrix){x, linear->in, true},
                    (struct kernel_matrix){dy, stride, false}, true, dw, weight_stride);
    else
        kernel_gemm(linear->out, linear->in, model->n, (struct kernel_matrix){dy, stride, true},
                    (struct kernel_matrix){x, linear->in, false}, true, dw, weight_stride);
    if (linear->bias != MODEL_NONE)
        kernel_bias_backward(model_gradient(model, linear->bias), dy, model->n, linear->out);
}
