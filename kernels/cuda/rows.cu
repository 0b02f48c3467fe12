#include "kernels/cuda/fill.h"

CUDA_FILL(rows)
{
    (void)table;
}
