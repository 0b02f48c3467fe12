/* emu_device: what kernels/cuda/device.cuh has from CUDA and PTX, on the host; docs/cuda.md, "The same sources on the host".
 *
 * Blocks run one after another; the threads of a block are fibers that switch only at barriers, warp operations and their end, in an order
 * chosen by EMU_SCHED=fwd|rev|rand (EMU_SEED=n). */
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

#define EMU_LOC const char *f_ = __builtin_FILE(), int l_ = __builtin_LINE()

namespace emu
{
struct Cur {
    uint3 tidx;
    int lane, warp;
};
struct Blk {
    uint3 bidx;
    dim3 bdim, gdim;
    size_t dyn_size;
    unsigned char *dyn;
};
extern Cur *cur;
extern Blk B;
typedef unsigned char (*Bufs)[16];
[[noreturn]] void die(const char *msg, const char *f = "", int l = 0);
void barrier(const char *f, int l);
int barrier_red(int p, int kind, const char *f, int l);
uint32_t live_lanes();
// deposit n bytes of v, wait for every live lane of mask; returns the 32 deposited values
Bufs meet(uint32_t mask, const void *v, int n, const char *f, int l, const void *what,
          void (*fn)(Bufs) = nullptr);
void cp_async(void *dst, const void *src, int n, const char *f, int l);
void cp_commit();
void cp_wait(int keep);
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
template <class T> T shfl(uint32_t mask, T v, int src, const char *f, int l)
{
    static_assert(sizeof(T) <= 16);
    static const char tag = 0;
    uint32_t live = live_lanes();
    Bufs b = meet(mask, &v, sizeof v, f, l, &tag);
    if (!(mask & live & (1u << src)))
        die("shuffle reads an inactive lane", f, l);
    T r;
    __builtin_memcpy(&r, b[src], sizeof r);
    return r;
}
inline uint32_t ballot(uint32_t mask, bool p, const char *f, int l)
{
    static const char tag = 0;
    unsigned char v = p;
    uint32_t m = mask & live_lanes(), r = 0;
    Bufs b = meet(mask, &v, 1, f, l, &tag);
    for (int i = 0; i < 32; i++)
        if (m >> i & 1)
            r |= (uint32_t)b[i][0] << i;
    return r;
}
} // namespace emu

#define threadIdx (emu::cur->tidx)
#define blockIdx  (emu::B.bidx)
#define blockDim  (emu::B.bdim)
#define gridDim   (emu::B.gdim)
#define warpSize  32
inline void __syncthreads(EMU_LOC)
{
    emu::barrier(f_, l_);
}
inline int __syncthreads_count(int p, EMU_LOC)
{
    return emu::barrier_red(p, 0, f_, l_);
}
inline int __syncthreads_and(int p, EMU_LOC)
{
    return emu::barrier_red(p, 1, f_, l_);
}
inline int __syncthreads_or(int p, EMU_LOC)
{
    return emu::barrier_red(p, 2, f_, l_);
}
inline void __syncwarp(unsigned m = ~0u, EMU_LOC)
{
    static const char tag = 0;
    emu::meet(m, nullptr, 0, f_, l_, &tag);
}
template <class T> T __shfl_sync(unsigned m, T v, int s, int w = 32, EMU_LOC)
{
    int L = emu::cur->lane;
    return emu::shfl(m, v, (L & ~(w - 1)) | (s & (w - 1)), f_, l_);
}
template <class T> T __shfl_xor_sync(unsigned m, T v, int x, int w = 32, EMU_LOC)
{
    int L = emu::cur->lane, s = L ^ x;
    return emu::shfl(m, v, s < (L & ~(w - 1)) + w ? s : L, f_, l_);
}
template <class T> T __shfl_down_sync(unsigned m, T v, int d, int w = 32, EMU_LOC)
{
    int L = emu::cur->lane;
    return emu::shfl(m, v, (L & (w - 1)) + d < w ? L + d : L, f_, l_);
}
template <class T> T __shfl_up_sync(unsigned m, T v, int d, int w = 32, EMU_LOC)
{
    int L = emu::cur->lane;
    return emu::shfl(m, v, (L & (w - 1)) >= d ? L - d : L, f_, l_);
}
inline unsigned __ballot_sync(unsigned m, int p, EMU_LOC)
{
    return emu::ballot(m, p, f_, l_);
}
inline int __any_sync(unsigned m, int p, EMU_LOC)
{
    return emu::ballot(m, p, f_, l_) != 0;
}
inline int __all_sync(unsigned m, int p, EMU_LOC)
{
    return emu::ballot(m, !p, f_, l_) == 0;
}
template <class T> T atomicAdd(T *p, T v)
{
    T o = __atomic_load_n(p, __ATOMIC_RELAXED);
    __atomic_store_n(p, (T)(o + v), __ATOMIC_RELAXED);
    return o;
}
template <> inline float atomicAdd(float *p, float v)
{
    uint32_t u = __atomic_load_n((uint32_t *)p, __ATOMIC_ACQUIRE);
    float o;
    memcpy(&o, &u, 4);
    float s = o + v;
    memcpy(&u, &s, 4);
    __atomic_store_n((uint32_t *)p, u, __ATOMIC_RELEASE);
    return o;
}
template <> inline double atomicAdd(double *p, double v)
{
    uint64_t u = __atomic_load_n((uint64_t *)p, __ATOMIC_ACQUIRE);
    double o;
    memcpy(&o, &u, 8);
    double s = o + v;
    memcpy(&u, &s, 8);
    __atomic_store_n((uint64_t *)p, u, __ATOMIC_RELEASE);
    return o;
}
template <class T> T atomicMax(T *p, T v)
{
    T o = __atomic_load_n(p, __ATOMIC_ACQUIRE);
    __atomic_store_n(p, o > v ? o : v, __ATOMIC_RELEASE);
    return o;
}
template <class T> T atomicExch(T *p, T v)
{
    return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL);
}
template <class T> T atomicCAS(T *p, T c, T v)
{
    __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return c;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
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

/* ---- cp.async: the copy happens late (at the wait) or early (at issue), as the schedule chooses ---- */
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
/* ---- mma.sync and ldmatrix, with the fragment layouts of the PTX manual ---- */
inline void ldmatrix_x4(uint32_t *r, const void *row, EMU_LOC)
{
    if ((uintptr_t)row & 15)
        emu::die("ldmatrix row not 16-byte aligned", f_, l_);
    static const char tag = 0;
    emu::Bufs b = emu::meet(~0u, &row, 8, f_, l_, &tag);
    int L = emu::cur->lane;
    for (int j = 0; j < 4; j++) {
        const char *p;
        __builtin_memcpy(&p, b[j * 8 + L / 4], 8);
        r[j] = *(const uint32_t *)(p + L % 4 * 4);
    }
    __syncwarp(~0u, f_, l_);
}
inline void mma_bf16(float *d, const uint32_t *a, const uint32_t *b, EMU_LOC)
{
    static const char ta = 0, tb = 0;
    int L = emu::cur->lane, g = L / 4, t = L % 4;
    float acc[4] = {0, 0, 0, 0};
    auto get = [](const unsigned char *s, int w, int h) {
        __nv_bfloat16 x;
        __builtin_memcpy(&x, s + w * 4 + h * 2, 2);
        return __bfloat162float(x);
    };
    float A[2][16], Bv[2][16]; // rows g, g+8 of A; columns 2t, 2t+1 of B
    emu::Bufs m = emu::meet(~0u, a, 16, f_, l_, &ta);
    for (int k = 0; k < 16; k++)
        for (int h = 0; h < 2; h++)
            A[h][k] = get(m[g * 4 + k % 8 / 2], k / 8 * 2 + h, k & 1);
    m = emu::meet(~0u, b, 8, f_, l_, &tb);
    for (int k = 0; k < 16; k++)
        for (int h = 0; h < 2; h++)
            Bv[h][k] = get(m[(2 * t + h) * 4 + k % 8 / 2], k / 8, k & 1);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 16; k++)
            acc[i] += A[i / 2][k] * Bv[i & 1][k];
        d[i] += acc[i];
    }
}

inline void ldmatrix_x4_trans(uint32_t *r, const void *row, EMU_LOC)
{
    if ((uintptr_t)row & 15)
        emu::die("ldmatrix row not 16-byte aligned", f_, l_);
    static const char tag = 0;
    emu::Bufs b = emu::meet(~0u, &row, 8, f_, l_, &tag);
    int L = emu::cur->lane;
    for (int j = 0; j < 4; j++)
        for (int h = 0; h < 2; h++) {
            const char *p;
            __builtin_memcpy(&p, b[j * 8 + L % 4 * 2 + h], 8);
            __builtin_memcpy((char *)&r[j] + h * 2, p + L / 4 * 2, 2);
        }
    __syncwarp(~0u, f_, l_);
}
inline float exp2_fast(float x)
{
    return exp2f(x);
}

/* Shared memory of the running block, in the order in which its threads first ask: poisoned, with room between that no one may touch. */
namespace emu
{
void *shared(const void *key, size_t bytes);
}
#define DYN_SHARED(T, name) T *name = (T *)emu::B.dyn
#define SHARED(T, name, count)                                                                               \
    static const char name##_key_ = 0;                                                                       \
    T *name = (T *)emu::shared(&name##_key_, sizeof(T) * (count))
#define LAUNCH(k, grid, block, shared, stream, ...)                                                          \
    (emu::launch(#k, (grid), (block), (shared), (stream), k, ##__VA_ARGS__), device_launched(#k))

#endif
