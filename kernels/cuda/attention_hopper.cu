/* attention_hopper: flash attention on wgmma. Not there yet: the other paths take every call. */
#include "kernels/cuda/attention.h"

bool attention_hopper_forward(const struct attention *a)
{
    (void)a;
    return false;
}

bool attention_hopper_backward(const struct attention *a)
{
    (void)a;
    return false;
}
