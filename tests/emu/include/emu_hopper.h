/* emu_hopper: what kernels/cuda/hopper.cuh has from PTX, on the host; the machine behind it is tests/emu/hopper.cpp.
 *
 * What runs beside the threads (loads by TMA, products of wgmma) is done at its issue (EMU_SCHED=rev), as late as it may be (fwd), or now this and now that
 * (rand). Until then what it writes is NaN, and what it reads is read only then. */
#ifndef BELAY_TESTS_EMU_HOPPER_H
#define BELAY_TESTS_EMU_HOPPER_H

#include "emu_device.h"

#define __grid_constant__

/* An array as TMA sees it: in the place of CUtensorMap. */
struct tensor_map {
    const unsigned char *base;
    uint64_t size[4], stride[4]; // stride[i]: bytes in dimension i
    uint32_t box[4];
};

namespace emu
{
uint32_t shared_address(const void *x, const char *f, int l);
void mbarrier_init(uint64_t *b, uint32_t count, const char *f, int l);
void mbarrier_init_fence();
void mbarrier_arrive(uint64_t *b, uint32_t bytes, const char *f, int l);
void mbarrier_wait(uint64_t *b, uint32_t parity, const char *f, int l);
void named_barrier(int id, int threads, bool wait, const char *f, int l);
bool map_make(tensor_map *map, const void *base, const uint64_t *size, const uint64_t *stride,
              const uint32_t *box);
void tma_load(void *to, const tensor_map *map, const int *at, uint64_t *b, const char *f, int l);
void bulk_load(void *to, const void *from, uint32_t bytes, uint64_t *b, const char *f, int l);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(int groups, const char *f, int l);
// a_registers NULL: descriptor a
void wgmma(int n, float *d, const uint32_t *a_registers, uint64_t a, uint64_t b, bool b_columns, bool add,
           const char *f, int l);
} // namespace emu

inline bool tensor_map_make(tensor_map *map, const void *base, const uint64_t *size, const uint64_t *stride,
                            const uint32_t *box)
{
    return emu::map_make(map, base, size, stride, box);
}
inline uint32_t shared_address(const void *x, EMU_LOC)
{
    return emu::shared_address(x, f_, l_);
}
inline void mbarrier_init(uint64_t *barrier, uint32_t count, EMU_LOC)
{
    emu::mbarrier_init(barrier, count, f_, l_);
}
inline void mbarrier_init_fence()
{
    emu::mbarrier_init_fence();
}
inline void mbarrier_arrive(uint64_t *barrier, EMU_LOC)
{
    emu::mbarrier_arrive(barrier, 0, f_, l_);
}
inline void mbarrier_expect(uint64_t *barrier, uint32_t bytes, EMU_LOC)
{
    emu::mbarrier_arrive(barrier, bytes, f_, l_);
}
inline void mbarrier_wait(uint64_t *barrier, uint32_t parity, EMU_LOC)
{
    emu::mbarrier_wait(barrier, parity, f_, l_);
}
inline void async_fence() {}
inline void barrier_sync(int id, int threads, EMU_LOC)
{
    emu::named_barrier(id, threads, true, f_, l_);
}
inline void barrier_arrive(int id, int threads, EMU_LOC)
{
    emu::named_barrier(id, threads, false, f_, l_);
}
template <int N> void registers_give()
{
    static_assert(N % 8 == 0 && N >= 24 && N <= 256);
}
template <int N> void registers_take()
{
    static_assert(N % 8 == 0 && N >= 24 && N <= 256);
}
inline void tma_load(void *to, const tensor_map *map, int at0, int at1, int at2, int at3, uint64_t *barrier,
                     EMU_LOC)
{
    const int at[] = {at0, at1, at2, at3};
    emu::tma_load(to, map, at, barrier, f_, l_);
}
inline void bulk_load(void *to, const void *from, uint32_t bytes, uint64_t *barrier, EMU_LOC)
{
    emu::bulk_load(to, from, bytes, barrier, f_, l_);
}
inline void tma_prefetch(const tensor_map *) {}
inline void wgmma_fence()
{
    emu::wgmma_fence();
}
inline void wgmma_commit()
{
    emu::wgmma_commit();
}
template <int N> void wgmma_wait(EMU_LOC)
{
    emu::wgmma_wait(N, f_, l_);
}
template <class T> void settle(T &) {}
template <bool B_COLUMNS, int D> void wgmma(float (&d)[D], uint64_t a, uint64_t b, bool add, EMU_LOC)
{
    emu::wgmma(2 * D, d, nullptr, a, b, B_COLUMNS, add, f_, l_);
}
template <bool B_COLUMNS, int D>
void wgmma(float (&d)[D], const uint32_t (&a)[4], uint64_t b, bool add, EMU_LOC)
{
    emu::wgmma(2 * D, d, a, 0, b, B_COLUMNS, add, f_, l_);
}

#endif
