#include "kernels/cuda/fill.h"

CUDA_FILL(graph)
{
    (void)table;
}
