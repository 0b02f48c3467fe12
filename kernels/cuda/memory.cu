#include "kernels/cuda/fill.h"

CUDA_FILL(memory)
{
    (void)table;
}
