/* fp8: the products of linear layers in fp8, for kernels of bf16. */
#ifndef BELAY_KERNELS_CUDA_FP8_H
#define BELAY_KERNELS_CUDA_FP8_H

#include "kernels/kernels.h"

/* As linear_forward, linear_backward and the dweight of linear_weights of the table, for layers with a state. False, with nothing done, for sizes that
 * are no multiples of 16, or arrays that do not begin at multiples of 16 bytes, which cuBLASLt's fp8 asks for. */
bool fp8_forward(act *y, const act *onto, const act *x, const struct kernel_linear *l, size_t n);
bool fp8_backward(act *dx, bool accumulate, const act *dy, const struct kernel_linear *l, size_t n);
bool fp8_weights(real *dweight, const act *dy, const act *x, const struct kernel_linear *l, size_t n);

#endif
