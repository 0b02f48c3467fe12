/* hopper: the words of sm_90a that device.cuh has not: mbarriers, loads by TMA, products by wgmma, barriers with a number, registers moved
 * between warpgroups. Each function is one instruction of the PTX ISA, named by its section; elsewhere than on sm_90a it is a trap. Their
 * twins on the host are in tests/emu/include/emu_hopper.h.
 *
 * What a kernel has to keep to, and the emulator checks:
 * - Whoever makes an mbarrier calls mbarrier_init_fence and lets a barrier of the block follow before anybody uses it.
 * - Between two writes of a tile that TMA fills, all who read it have arrived at an mbarrier that the thread that loads has waited for.
 * - wgmma reads and writes while the program goes on: registers and shared memory of a product belong to it from wgmma_fence until wgmma_wait
 *   has returned for its group. wgmma_fence stands before the first product behind whatever wrote its registers.
 * - What threads themselves have stored to shared memory is seen by TMA and wgmma only behind async_fence (and a barrier). This one
 *   the emulator cannot see. */
#ifndef BELAY_KERNELS_CUDA_HOPPER_CUH
#define BELAY_KERNELS_CUDA_HOPPER_CUH

#include "kernels/cuda/device.cuh"

#define WARPGROUP 128 /* threads that wgmma needs together: four warps, the first a multiple of four */

/* A tile in shared memory, for TMA and for wgmma, is rows of SWIZZLE_ROW bytes (64 bf16) one behind the other, from a multiple of
 * SWIZZLE_UNIT bytes on, in which the 16-byte pieces of row r have changed places: piece p lies at p ^ r % 8. So neither the rows' nor the
 * columns' pieces meet in a bank (PTX ISA, "Swizzling Modes"; CU_TENSOR_MAP_SWIZZLE_128B). */
#define SWIZZLE_ROW  128
#define SWIZZLE_UNIT 1024

/* How often an mbarrier is asked before something must be wrong: each try sleeps a while by itself, so this is seconds at least. */
#define MBARRIER_TRIES (1 << 26)

#ifdef __CUDACC__

#include <cuda.h>

/* clang-format off */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER_PTX(...) asm volatile(__VA_ARGS__)
#else
#define HOPPER_PTX(...) __trap()
#endif
/* clang-format on */

/* The driver's description of an array, by which TMA finds a box of it: a kernel takes it as `const __grid_constant__ tensor_map`. */
typedef CUtensorMap tensor_map;

/* cuTensorMapEncodeTiled, which is the driver's and not to be linked with; NULL where the driver has none. */
static inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder(void)
{
    static void *found = NULL;
    cudaDriverEntryPointQueryResult result;
    if (!found && (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                    cudaEnableDefault, &result) != cudaSuccess ||
                   result != cudaDriverEntryPointSuccess))
        found = NULL;
    return (decltype(&cuTensorMapEncodeTiled))found;
}

/* An array of bf16 with four dimensions, the innermost first, of size[0..3] elements; stride[0..2]: bytes from one element of dimensions 1..3 to
 * the next; box: what one load brings, box[0] * 2 == SWIZZLE_ROW, each <= 256. What a box has outside the array is 0. False when it is
 * not for TMA: an address or a stride is no multiple of 16, a size is 0, … */
static inline bool tensor_map_make(tensor_map *map, const void *base, const uint64_t *size,
                                   const uint64_t *stride, const uint32_t *box)
{
    static const cuuint32_t one[4] = {1, 1, 1, 1};
    cuuint64_t sizes[4] = {size[0], size[1], size[2], size[3]},
               strides[3] = {stride[0], stride[1], stride[2]};
    cuuint32_t boxes[4] = {box[0], box[1], box[2], box[3]};
    auto encode = tensor_map_encoder();
    return encode &&
           encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, (void *)base, sizes, strides, boxes, one,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* Where in shared memory that is, as descriptors and PTX count. */
__device__ __forceinline__ uint32_t shared_address(const void *x)
{
    return (uint32_t)__cvta_generic_to_shared(x);
}

/* ---- mbarriers (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier") ----
 * An mbarrier's phase ends when `count` threads have arrived and all bytes that were announced have come; then the next one begins. The first phase has
 * parity 0. */

/* mbarrier.init */
__device__ __forceinline__ void mbarrier_init(uint64_t *barrier, uint32_t count)
{
    HOPPER_PTX("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}
/* fence.mbarrier_init: makes what this thread has initialised known to the copy engine. */
__device__ __forceinline__ void mbarrier_init_fence()
{
    HOPPER_PTX("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/* mbarrier.arrive */
__device__ __forceinline__ void mbarrier_arrive(uint64_t *barrier)
{
    HOPPER_PTX("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
/* mbarrier.arrive.expect_tx: announces bytes that loads will bring, then arrives. */
__device__ __forceinline__ void mbarrier_expect(uint64_t *barrier, uint32_t bytes)
{
    HOPPER_PTX(
        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}
/* mbarrier.try_wait.parity: has the phase of this parity ended? Sleeps a while before it says no. */
__device__ __forceinline__ bool mbarrier_ended(uint64_t *barrier, uint32_t parity)
{
    uint32_t ended = 0;
    HOPPER_PTX("{\n.reg .pred p;\n"
               "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p;\n}"
               : "=r"(ended)
               : "r"(shared_address(barrier)), "r"(parity)
               : "memory");
    return ended;
}
/* Until the phase of this parity has ended; of a new mbarrier the phase of parity 1 counts as ended. A mistake is a trap, not a hang. */
__device__ __forceinline__ void mbarrier_wait(uint64_t *barrier, uint32_t parity)
{
    for (int tries = 0; !mbarrier_ended(barrier, parity); tries++)
        if (tries == MBARRIER_TRIES)
            __trap();
}

/* fence.proxy.async (PTX ISA, "Async proxy"): what this thread has stored to shared memory comes before what TMA and wgmma do behind it. */
__device__ __forceinline__ void async_fence()
{
    HOPPER_PTX("fence.proxy.async.shared::cta;" ::: "memory");
}

/* bar.sync and bar.arrive: of barrier `id` (1..15; 0 is __syncthreads) for `threads` threads in all, whole warps. sync waits for all, arrive does
 * not. */
__device__ __forceinline__ void barrier_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* setmaxnreg: all threads of a warpgroup give registers back, or take them (and wait until there are so many). N: a multiple of 8 in 24..256. */
template <int N> __device__ __forceinline__ void registers_give()
{
    HOPPER_PTX("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void registers_take()
{
    HOPPER_PTX("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* cp.async.bulk.tensor, tile mode: one thread loads the map's box at these coordinates (innermost first) to `to`, a multiple of SWIZZLE_UNIT; its bytes
 * count on the mbarrier, those outside the array, too. */
__device__ __forceinline__ void tma_load(void *to, const tensor_map *map, int at0, int at1, int at2, int at3,
                                         uint64_t *barrier)
{
    HOPPER_PTX("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
               "{%2, %3, %4, %5}], [%6];" ::"r"(shared_address(to)),
               "l"(map), "r"(at0), "r"(at1), "r"(at2), "r"(at3), "r"(shared_address(barrier))
               : "memory");
}
/* cp.async.bulk: one thread copies `bytes` from global memory; all multiples of 16. */
__device__ __forceinline__ void bulk_load(void *to, const void *from, uint32_t bytes, uint64_t *barrier)
{
    HOPPER_PTX(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}
/* prefetch.tensormap: the map itself will be needed. */
__device__ __forceinline__ void tma_prefetch(const tensor_map *map)
{
    HOPPER_PTX("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* ---- wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions") ---- */

/* wgmma.fence, wgmma.commit_group, wgmma.wait_group: the last waits until at most N of the groups that were committed are under way. */
__device__ __forceinline__ void wgmma_fence()
{
    HOPPER_PTX("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit()
{
    HOPPER_PTX("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> __device__ __forceinline__ void wgmma_wait()
{
    HOPPER_PTX("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* No instruction at all: what the program does with these registers before stays before, what behind behind. For the compiler a product's result is there as
 * soon as it is issued, so it may move uses of it, and of what it reads, over wgmma_wait and wgmma_fence: settle(d) stands behind the one
 * and before the other. */
__device__ __forceinline__ void settle(float &x)
{
    asm volatile("" : "+f"(x)::"memory");
}
__device__ __forceinline__ void settle(uint32_t &x)
{
    asm volatile("" : "+r"(x)::"memory");
}
template <class T, int N> __device__ __forceinline__ void settle(T (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        settle(x[i]);
}

/* clang-format off */
#define WGMMA_D8(i) "+f"(d[(i)]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), \
                    "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define WGMMA_D32(i) WGMMA_D8(i), WGMMA_D8((i) + 8), WGMMA_D8((i) + 16), WGMMA_D8((i) + 24)
#define WGMMA_R32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_R64 WGMMA_R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
/* clang-format on */

/* d (64,N) = or += a (64,16) b (16,N): wgmma.mma_async.m64nNk16, bf16 operands, sums in fp32, N = 64 or 128 by the size of d. Register i of a thread is d
 * (16w + g + 8 * (i / 2 % 2), 8 * (i / 4) + 2t + i % 2) for warp w of the warpgroup, g = lane / 4, t = lane % 4 ("Register Fragments"). a and b: descriptors
 * by wgmma_rows and wgmma_columns; B_COLUMNS: b is of the second kind (imm-trans-b). */
template <bool B_COLUMNS>
__device__ __forceinline__ void wgmma(float (&d)[32], uint64_t a, uint64_t b, bool add)
{
    HOPPER_PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_R32
               "}, %32, %33, p, 1, 1, 0, %35;\n}"
               : WGMMA_D32(0)
               : "l"(a), "l"(b), "r"((int)add), "n"(B_COLUMNS));
}
template <bool B_COLUMNS>
__device__ __forceinline__ void wgmma(float (&d)[64], uint64_t a, uint64_t b, bool add)
{
    HOPPER_PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_R64
               "}, %64, %65, p, 1, 1, 0, %67;\n}"
               : WGMMA_D32(0), WGMMA_D32(32)
               : "l"(a), "l"(b), "r"((int)add), "n"(B_COLUMNS));
}
/* The same with a in registers: of warp w the rows 16w.., laid out as the a of mma_bf16. */
template <bool B_COLUMNS>
__device__ __forceinline__ void wgmma(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool add)
{
    HOPPER_PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_R32
               "}, {%32,%33,%34,%35}, %36, p, 1, 1, %38;\n}"
               : WGMMA_D32(0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(B_COLUMNS));
}
template <bool B_COLUMNS>
__device__ __forceinline__ void wgmma(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool add)
{
    HOPPER_PTX("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_R64
               "}, {%64,%65,%66,%67}, %68, p, 1, 1, %70;\n}"
               : WGMMA_D32(0), WGMMA_D32(32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(B_COLUMNS));
}

#else
#include "emu_hopper.h" /* of tests/emu: the same words */
#endif

/* The first place from x on where a tile may begin; x: dynamic shared memory of SWIZZLE_UNIT bytes more than is needed. */
__device__ __forceinline__ unsigned char *tile_start(unsigned char *x)
{
    return x + (SWIZZLE_UNIT - shared_address(x) % SWIZZLE_UNIT) % SWIZZLE_UNIT;
}

/* ---- descriptors of operands in shared memory (PTX ISA, "Matrix Descriptor Format", "Canonical Layouts", 128-byte swizzle) ---- */

/* leading, stride: bytes */
__device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t address, uint32_t leading, uint32_t stride)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}
/* The operand's rows (of a), or columns (of b), are rows of the tile, and the 16 elements of the sum follow each other in a row ("K-major"): address of the
 * first of them in the tile's first row, so 32 bytes further for the next 16. Eight rows are a SWIZZLE_UNIT; the leading offset has no
 * meaning. */
__device__ __forceinline__ uint64_t wgmma_rows(uint32_t address)
{
    return wgmma_descriptor(address, 16, SWIZZLE_UNIT);
}
/* The 16 elements of the sum are rows of the tile, and the operand's columns lie along them ("MN-major"): address of the first row, so two SWIZZLE_UNITs
 * further for the next 16. Columns 64.. are in a second tile, `apart` bytes behind this one. */
__device__ __forceinline__ uint64_t wgmma_columns(uint32_t address, uint32_t apart)
{
    return wgmma_descriptor(address, apart, SWIZZLE_UNIT);
}

#endif
