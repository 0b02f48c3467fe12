#include "kernels/cuda/fill.h"

CUDA_FILL(router)
{
    (void)table;
}
