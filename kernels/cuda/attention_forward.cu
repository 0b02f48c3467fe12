#include "kernels/cuda/attention.h"
bool attention_mma_forward(const struct attention *a)
{
    (void)a;
    return false;
}
