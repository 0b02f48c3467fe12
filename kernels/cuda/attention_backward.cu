#include "kernels/cuda/attention.h"
bool attention_mma_backward(const struct attention *a)
{
    (void)a;
    return false;
}
