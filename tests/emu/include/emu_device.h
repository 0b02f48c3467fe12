/* emu_device: what kernels/cuda/device.cuh has from CUDA and PTX, on the host; docs/cuda.md, "The same sources on the host".
 *
 * Blocks run one after another. The threads of a block are fibers that switch only at barriers, warp operations and their end, in an order chosen by
 * EMU_SCHED=fwd|rev|rand and EMU_SEED (tests/emu/order.h). What a word does is said in CUDA's programming guide or in device.cuh. */
#ifndef BELAY_TESTS_EMU_DEVICE_H
#define BELAY_TESTS_EMU_DEVICE_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* Where in the source a word was called: the last arguments of those that wait. */
#define EMU_LOC const char *f_ = __builtin_FILE(), int l_ = __builtin_LINE()

/* ---- the machine (tests/emu) ---- */

namespace emu
{
/* The running thread, and its block. */
struct Cur {
    uint3 tidx;
    int lane, warp;
};
struct Blk {
    uint3 bidx;
    dim3 bdim, gdim;
    size_t dyn_size;
    unsigned char *dyn; /* DYN_SHARED */
};
extern Cur *cur;
extern Blk B;

/* Ends the process with a sentence, the kernel's name, and the thread. */
[[noreturn]] void die(const char *msg, const char *file = "", int line = 0);

struct grid {
    const char *name;
    const void *key; /* the kernel's address */
    dim3 blocks, threads;
    size_t dyn; /* bytes of DYN_SHARED */
};
/* Enqueues it; work: the kernel with its arguments, called by each thread. */
void launch_grid(const grid &l, cudaStream_t stream, std::function<void()> work);
template <class... P, class... A>
void launch(const char *name, dim3 g, dim3 b, size_t dyn, cudaStream_t stream, void (*k)(P...), A &&...a)
{
    std::tuple<P...> args(std::forward<A>(a)...);
    launch_grid({name, (const void *)k, g, b, dyn}, stream, [k, args] { std::apply(k, args); });
}

/* The array of this key in the block's shared memory, made when its threads first ask. */
void *shared(const void *key, size_t bytes);

void barrier(const char *file, int line);
/* A barrier that says how many of the threads (*all) have said yes. */
int barrier_count(int yes, int *all, const char *file, int line);

/* Where the lanes of a warp meet: what each has given, and what the last may have made of it. */
struct meeting {
    alignas(16) unsigned char lane[32][32];
    alignas(16) unsigned char result[32 * 16];
};
/* Gives a value of at most 32 bytes and waits for all living lanes of mask; the last to come calls `last`. what: tells words apart. Valid until the
 * calling lane waits again. */
meeting &meet(uint32_t mask, const void *value, size_t bytes, const char *file, int line, const void *what,
              void (*last)(meeting &) = nullptr);
uint32_t live_lanes();
void mma(float *d, const uint32_t *a, const uint32_t *b, const char *file, int line);

void cp_async(void *to, const void *from, size_t bytes, const char *file, int line);
void cp_commit();
void cp_wait(int keep);

template <class T> T shuffle(uint32_t mask, T value, int from, const char *file, int line)
{
    static_assert(sizeof(T) <= 32);
    static const char tag = 0;
    uint32_t living = live_lanes();
    meeting &m = meet(mask, &value, sizeof value, file, line, &tag);
    if (!(mask & living & (1u << from)))
        die("shuffle reads an inactive lane", file, line);
    T out;
    memcpy(&out, m.lane[from], sizeof out);
    return out;
}

inline uint32_t ballot(uint32_t mask, bool yes, const char *file, int line)
{
    static const char tag = 0;
    uint32_t lanes = mask & live_lanes(), out = 0;
    meeting &m = meet(mask, &yes, sizeof yes, file, line, &tag);
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1)
            out |= (uint32_t)m.lane[i][0] << i;
    return out;
}

/* Rows of 16 bytes of shared memory, whose addresses the lanes give; TURNED: as ldmatrix's .trans. The last lane reads for all, as one word does on a GPU. */
template <bool TURNED> void load_matrices(meeting &m)
{
    const uint16_t *row[32];
    for (int i = 0; i < 32; i++)
        memcpy(&row[i], m.lane[i], sizeof row[i]);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            for (int half = 0; half < 2; half++) {
                int r = lane / 4, c = lane % 4 * 2 + half;
                uint16_t x = TURNED ? row[i * 8 + c][r] : row[i * 8 + r][c];
                memcpy(m.result + lane * 16 + i * 4 + half * 2, &x, sizeof x);
            }
}

template <bool TURNED> void ldmatrix(uint32_t *out, const void *row, const char *file, int line)
{
    static const char tag = 0;
    if ((uintptr_t)row % 16 != 0)
        die("ldmatrix row not 16-byte aligned", file, line);
    meeting &m = meet(~0u, &row, sizeof row, file, line, &tag, load_matrices<TURNED>);
    memcpy(out, m.result + cur->lane * 16, 16);
}
} // namespace emu

/* ---- launches and memory ---- */

#define LAUNCH(k, grid, block, shared, stream, ...)                                                          \
    (emu::launch(#k, (grid), (block), (shared), (stream), k, ##__VA_ARGS__), device_launched(#k))
#define DYN_SHARED(T, name) T *name = (T *)emu::B.dyn
#define SHARED(T, name, count)                                                                               \
    static const char name##_key_ = 0;                                                                       \
    T *name = (T *)emu::shared(&name##_key_, sizeof(T) * (count))

#define threadIdx (emu::cur->tidx)
#define blockIdx  (emu::B.bidx)
#define blockDim  (emu::B.bdim)
#define gridDim   (emu::B.gdim)
#define warpSize  32

/* ---- barriers ---- */

inline void __syncthreads(EMU_LOC)
{
    emu::barrier(f_, l_);
}
inline int __syncthreads_count(int yes, EMU_LOC)
{
    int all;
    return emu::barrier_count(yes, &all, f_, l_);
}
inline int __syncthreads_and(int yes, EMU_LOC)
{
    int all, count = emu::barrier_count(yes, &all, f_, l_);
    return count == all;
}
inline int __syncthreads_or(int yes, EMU_LOC)
{
    int all;
    return emu::barrier_count(yes, &all, f_, l_) > 0;
}
inline void __syncwarp(unsigned mask = ~0u, EMU_LOC)
{
    static const char tag = 0;
    emu::meet(mask, &tag, 0, f_, l_, &tag);
}

/* ---- between the lanes of a warp; width: lanes that belong together, a power of two ---- */

template <class T> T __shfl_sync(unsigned mask, T x, int from, int width = 32, EMU_LOC)
{
    int first = emu::cur->lane & ~(width - 1);
    return emu::shuffle(mask, x, first | (from & (width - 1)), f_, l_);
}
template <class T> T __shfl_xor_sync(unsigned mask, T x, int other, int width = 32, EMU_LOC)
{
    int lane = emu::cur->lane, from = lane ^ other, end = (lane & ~(width - 1)) + width;
    return emu::shuffle(mask, x, from < end ? from : lane, f_, l_);
}
template <class T> T __shfl_down_sync(unsigned mask, T x, int d, int width = 32, EMU_LOC)
{
    int lane = emu::cur->lane;
    return emu::shuffle(mask, x, (lane & (width - 1)) + d < width ? lane + d : lane, f_, l_);
}
template <class T> T __shfl_up_sync(unsigned mask, T x, int d, int width = 32, EMU_LOC)
{
    int lane = emu::cur->lane;
    return emu::shuffle(mask, x, (lane & (width - 1)) >= d ? lane - d : lane, f_, l_);
}
inline unsigned __ballot_sync(unsigned mask, int yes, EMU_LOC)
{
    return emu::ballot(mask, yes != 0, f_, l_);
}
inline int __any_sync(unsigned mask, int yes, EMU_LOC)
{
    return emu::ballot(mask, yes != 0, f_, l_) != 0;
}
inline int __all_sync(unsigned mask, int yes, EMU_LOC)
{
    return emu::ballot(mask, yes == 0, f_, l_) == 0;
}

/* ---- atomics: threads never switch within one ---- */

template <class T> T atomicAdd(T *p, T x)
{
    T was = *p;
    *p = was + x;
    return was;
}
template <class T> T atomicMax(T *p, T x)
{
    T was = *p;
    *p = was > x ? was : x;
    return was;
}
template <class T> T atomicExch(T *p, T x)
{
    return std::exchange(*p, x);
}
template <class T> T atomicCAS(T *p, T want, T x)
{
    T was = *p;
    if (was == want)
        *p = x;
    return was;
}
inline void __threadfence() {}
inline void __threadfence_block() {}

/* ---- numbers ---- */

template <class T> T __ldg(const T *p)
{
    return *p;
}
inline float __expf(float x)
{
    return expf(x);
}
inline float __logf(float x)
{
    return logf(x);
}
inline float exp2_fast(float x)
{
    return exp2f(x);
}
inline uint32_t pack_bf16(float low, float high)
{
    return __float2bfloat16_rn(low).bits | (uint32_t)__float2bfloat16_rn(high).bits << 16;
}
inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
inline float __fdividef(float a, float b)
{
    return a / b;
}
inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
inline float __int_as_float(int i)
{
    float f;
    memcpy(&f, &i, 4);
    return f;
}
inline int __float_as_int(float f)
{
    int i;
    memcpy(&i, &f, 4);
    return i;
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
using std::max;
using std::min;

/* ---- copies to shared memory, and products of a warp ---- */

inline void cp_async16(void *dst, const void *src, bool valid = true, EMU_LOC)
{
    emu::cp_async(dst, valid ? src : nullptr, 16, f_, l_);
}
inline void cp_async_commit()
{
    emu::cp_commit();
}
template <int N> void cp_async_wait()
{
    emu::cp_wait(N);
}
inline void ldmatrix_x4(uint32_t *out, const void *row, EMU_LOC)
{
    emu::ldmatrix<false>(out, row, f_, l_);
}
inline void ldmatrix_x4_trans(uint32_t *out, const void *row, EMU_LOC)
{
    emu::ldmatrix<true>(out, row, f_, l_);
}
inline void mma_bf16(float *d, const uint32_t *a, const uint32_t *b, EMU_LOC)
{
    emu::mma(d, a, b, f_, l_);
}

#endif
