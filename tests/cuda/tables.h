/* tables: the kernels of the CUDA backend (in float and bf16, under the emulator) and the CPU's in double, which they are compared with. */
#ifndef BELAY_TESTS_CUDA_TABLES_H
#define BELAY_TESTS_CUDA_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* kernels.h twice, for two types `real`; kernels/real.h, which chooses one for a whole build, is left out. */
#define BELAY_KERNELS_REAL_H
namespace f32
{
typedef float real;
#define kernels_cpu kernels_cpu_float /* there is only the one in double here */
#include "kernels/kernels.h"
#undef kernels_cpu
#undef BELAY_KERNELS_KERNELS_H
} // namespace f32
namespace f64
{
typedef double real;
#define kernel_rope_tables kernel_rope_tables_double
#include "kernels/kernels.h"
#undef kernel_rope_tables
} // namespace f64

/* kernels/cuda/table.h */
extern "C" const struct f32::kernels *kernels_cuda(enum f32::kernel_type type);

#endif
