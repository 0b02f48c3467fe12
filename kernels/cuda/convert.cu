#include "kernels/cuda/fill.h"

CUDA_FILL(convert)
{
    (void)table;
}
