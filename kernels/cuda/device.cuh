/* device: the words that kernels are written in. With nvcc they are CUDA and PTX; on the host (tests/emu) they are the emulator's, which has
 * everything of CUDA C that is used here under its own name. PTX stands in this file and in hopper.cuh only. */
#ifndef BELAY_KERNELS_CUDA_DEVICE_CUH
#define BELAY_KERNELS_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

#ifdef __CUDACC__

/* Starts kernel k over a grid of blocks; shared: bytes of DYN_SHARED. A template's arguments need brackets around: LAUNCH((k<float>), …). */
/* clang-format off */
#define LAUNCH(k, grid, block, shared, stream, ...) \
    ((k)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__), device_launched(#k))
/* clang-format on */
/* The block's shared memory whose size LAUNCH gives, aligned to 128 bytes: T *name. Once in a kernel. */
#define DYN_SHARED(T, name)                                                                                  \
    extern __shared__ __align__(128) unsigned char dyn_shared_[];                                            \
    T *name = (T *)dyn_shared_
/* Shared memory of fixed size: T name[count]. */
#define SHARED(T, name, count) __shared__ __align__(16) T name[count]

/* 16 bytes from global to shared memory, both aligned to 16; seen after cp_async_wait and a barrier. `valid` false: zeros instead (src is not read). */
__device__ __forceinline__ void cp_async16(void *dst, const void *src, bool valid = true)
{
    unsigned to = (unsigned)__cvta_generic_to_shared(dst);
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until at most N of this thread's groups are under way. */
template <int N> __device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Four 8x8 matrices of 16-bit elements: lane l gives the address of row l%8 of matrix l/8 (aligned to 16); out[i] = elements 2*(l%4), +1 of row
 * l/4 of matrix i. The second form transposes each matrix. */
__device__ __forceinline__ void ldmatrix_x4(uint32_t *out, const void *row)
{
    unsigned from = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(from)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t *out, const void *row)
{
    unsigned from = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(from)
                 : "memory");
}

/* d (16,8) += a (16,16) b (16,8), bf16 operands, fp32 sums. With g = lane/4 and t = lane%4 (PTX ISA, "mma.m16n8k16"): a[0] (g, 2t..), a[1] (g+8,
 * 2t..), a[2] (g, 2t+8..), a[3] (g+8, 2t+8..); b[0] (2t.., g), b[1] (2t+8.., g); d[0,1] (g, 2t..), d[2,3] (g+8, 2t..). */
__device__ __forceinline__ void mma_bf16(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Two floats as two bf16, the first in the lower half: an operand of mma_bf16. */
__device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

/* 2^x, within 2 ulp; 0 for -Inf. */
__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else
#include "emu_device.h" /* of tests/emu: the same words */
#endif

/* After each launch: an error of it ends the process with the kernel's name (device.cu). */
void device_launched(const char *kernel);

/* 8 (float: 4) elements in one 16-byte access. */
template <class T> struct alignas(16) pack {
    static const int size = 16 / sizeof(T);
    T x[size];
};

__device__ __forceinline__ float to_float(float x)
{
    return x;
}
__device__ __forceinline__ float to_float(bf16 x)
{
    return __bfloat162float(x);
}
/* Rounded to nearest even; NaN stays NaN. */
template <class T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

#define WARP      32
#define ALL_LANES 0xffffffffu

/* Over the lanes of a warp, all of which call; every lane gets the result, in an order that is always the same. */
__device__ __forceinline__ float warp_sum(float x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}
__device__ __forceinline__ double warp_sum(double x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}
__device__ __forceinline__ uint64_t warp_sum(uint64_t x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}
/* NaN is passed over, as fmaxf does. */
__device__ __forceinline__ float warp_max(float x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, d));
    return x;
}

/* Over a block of `blockDim.x` threads, a multiple of 32, all of which call; room: 32 numbers of shared memory, free before and after. */
template <class T> __device__ __forceinline__ T block_sum(T x, T *room)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_sum(x);
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    x = lane < warps ? room[lane] : (T)0;
    x = warp_sum(x);
    __syncthreads();
    return x;
}
__device__ __forceinline__ float block_max(float x, float *room)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_max(x);
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    x = lane < warps ? room[lane] : -INFINITY;
    x = warp_max(x);
    __syncthreads();
    return x;
}

/* ---- random bits of dropout, by the formula in kernels.h ---- */

__host__ __device__ __forceinline__ uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}
#define MIX_STEP 0x9E3779B97F4A7C15u
/* what all columns of a row share */
__host__ __device__ __forceinline__ uint64_t hash_row(uint64_t key, uint64_t row)
{
    return mix(key ^ mix(row + MIX_STEP));
}
/* the key of one attention head, by its number in the whole model */
__host__ __device__ __forceinline__ uint64_t hash_head(uint64_t key, uint64_t head)
{
    return mix(key + (head + 1) * MIX_STEP);
}
__host__ __device__ __forceinline__ uint32_t hash_column(uint64_t row, uint32_t column)
{
    uint32_t x = (uint32_t)row + column;
    x = (x ^ x >> 16) * 0x7FEB352Du ^ (uint32_t)(row >> 32);
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}

#endif
