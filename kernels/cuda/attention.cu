#include "kernels/cuda/fill.h"

CUDA_FILL(attention)
{
    (void)table;
}
