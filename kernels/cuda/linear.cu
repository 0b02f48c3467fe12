#include "kernels/cuda/fill.h"

CUDA_FILL(linear)
{
    (void)table;
}
