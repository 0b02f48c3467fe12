#include "kernels/cuda/fill.h"

CUDA_FILL(rope)
{
    (void)table;
}
