/* check: what the tests of the CUDA kernels share: arrays that exist on both sides, schedules of the emulator, and comparisons.
 *
 * An array on the device lies in memory of its own, exactly as large as it is, so that AddressSanitizer sees an access beside it; outputs
 * are poisoned (NaN) before a kernel runs, so that an element that is not written is seen, too. The host never looks at the device's memory but by
 * cudaMemcpy: the same tests run on a GPU (tests/gpu). */
#ifndef BELAY_TESTS_CUDA_CHECK_H
#define BELAY_TESTS_CUDA_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <string>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

extern "C" {
#include <cmocka.h>
}

#include "tests/cuda/tables.h"

/* Of the emulator (tests/emu/order.h): "fwd", "rev" or "rand". */
extern "C" void emu_schedule(const char *order, uint64_t seed);

/* ---- random numbers, the same in every run ---- */

struct random_bits {
    uint64_t state;
    explicit random_bits(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u | 1) {}
    uint64_t bits()
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state * 0x2545F4914F6CDD1Du;
    }
    size_t below(size_t n)
    {
        return (size_t)((bits() >> 11) % n);
    }
    size_t between(size_t least, size_t most)
    {
        return least + below(most - least + 1);
    }
    /* in [-1,1) */
    double number()
    {
        return (double)(int64_t)(bits() >> 11) / (double)((int64_t)1 << 52) - 1;
    }
};

/* ---- arrays ---- */

/* `act` of the type under test, or `real`: doubles for the reference and what they round to for the device. It begins `skip` elements behind
 * where memory of the device begins: with 1 it is aligned to one element only. */
struct array {
    bool half; /* bf16 */
    std::vector<double> x;
    void *memory, *device;

    size_t element() const
    {
        return half ? 2 : 4;
    }
    array(bool is_half, size_t n, size_t skip = 0) : half(is_half), x(n, 0.0), memory(NULL), device(NULL)
    {
        assert_int_equal(cudaMalloc(&memory, (skip + n) * element()), cudaSuccess); /* NaN */
        device = (char *)memory + skip * element();
    }
    array(const array &) = delete;
    array &operator=(const array &) = delete;
    ~array()
    {
        cudaFree(memory);
    }

    /* Numbers of about this size, as the device can hold them. */
    array &random(random_bits &r, double size, double around = 0)
    {
        for (double &v : x)
            v = around + size * r.number();
        return push();
    }
    /* x, rounded, to the device; x becomes what was rounded. */
    array &push()
    {
        std::vector<unsigned char> bytes(x.size() * element());
        for (size_t i = 0; i < x.size(); i++) {
            encode(&bytes[i * element()], x[i]);
            x[i] = decode(&bytes[i * element()]);
        }
        return put(bytes);
    }
    /* Every element of the device becomes NaN. */
    array &poison()
    {
        return put(std::vector<unsigned char>(x.size() * element(), 0xff));
    }
    /* All that the device has. */
    std::vector<double> pull() const
    {
        std::vector<unsigned char> bytes(x.size() * element());
        std::vector<double> out(x.size());
        assert_int_equal(cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
        for (size_t i = 0; i < out.size(); i++)
            out[i] = decode(&bytes[i * element()]);
        return out;
    }
    /* One element of it. */
    double at(size_t i) const
    {
        unsigned char bytes[4];
        assert_int_equal(
            cudaMemcpy(bytes, (const char *)device + i * element(), element(), cudaMemcpyDeviceToHost),
            cudaSuccess);
        return decode(bytes);
    }

    array &put(const std::vector<unsigned char> &bytes)
    {
        assert_int_equal(cudaMemcpy(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
        return *this;
    }
    void encode(unsigned char *to, double v) const
    {
        float wide = (float)v;
        __nv_bfloat16 narrow = __float2bfloat16_rn(wide);
        memcpy(to, half ? (const void *)&narrow : (const void *)&wide, element());
    }
    double decode(const unsigned char *from) const
    {
        float wide;
        __nv_bfloat16 narrow;
        memcpy(half ? (void *)&narrow : (void *)&wide, from, element());
        return half ? (double)__bfloat162float(narrow) : (double)wide;
    }

    f32::act *act()
    {
        return (f32::act *)device;
    }
    f32::real *real()
    {
        return (float *)device;
    }
    f64::act *ref_act()
    {
        return (f64::act *)(void *)x.data();
    }
    double *ref()
    {
        return x.data();
    }
};

/* Plain integers on the device. */
template <class T> struct integers {
    std::vector<T> x;
    T *device;
    explicit integers(size_t n) : x(n), device(NULL)
    {
        assert_int_equal(cudaMalloc((void **)&device, n * sizeof(T)), cudaSuccess);
    }
    integers(const integers &) = delete;
    integers &operator=(const integers &) = delete;
    ~integers()
    {
        cudaFree(device);
    }
    void push()
    {
        assert_int_equal(cudaMemcpy(device, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice),
                         cudaSuccess);
    }
    /* What the device has. */
    std::vector<T> pull() const
    {
        std::vector<T> out(x.size());
        assert_int_equal(cudaMemcpy(out.data(), device, out.size() * sizeof(T), cudaMemcpyDeviceToHost),
                         cudaSuccess);
        return out;
    }
};

/* ---- comparing ---- */

/* Elements [0,count) of the device against x: |difference| <= tolerance * (size + |x|), NaN and Inf like for like. */
static inline void expect_near(const char *what, const array &a, double tolerance, double size = 1)
{
    cudaDeviceSynchronize();
    std::vector<double> all = a.pull();
    for (size_t i = 0; i < a.x.size(); i++) {
        double got = all[i], want = a.x[i];
        bool same = isnan(want)   ? isnan(got)
                    : isinf(want) ? got == want
                                  : fabs(got - want) <= tolerance * (size + fabs(want));
        if (!same)
            fail_msg("%s[%zu] is %.9g, not %.9g (of %zu)", what, i, got, want, a.x.size());
    }
}

/* What one rounding to the type costs, twice. */
static inline double rounding(bool half)
{
    return half ? 1.0 / 128 : 1e-6;
}

/* ---- running ---- */

/* Does the device run code for sm_90a? */
static inline bool on_hopper(void)
{
    struct cudaDeviceProp device;
    assert_int_equal(cudaGetDeviceProperties(&device, 0), cudaSuccess);
    return device.major == 9 && device.minor == 0;
}

/* The reference. */
static inline const f64::kernels *reference(void)
{
    struct err err = {{0}};
    const f64::kernels *k = f64::kernels_cpu(f64::KERNEL_FP32, &err);
    if (!k)
        fail_msg("%s", err.text);
    return k;
}

/* Calls work once for each type and order of the threads, with the same random numbers each time. */
static inline void
in_all_orders(const std::function<void(const f32::kernels *, bool half, uint64_t seed)> &work)
{
    static const char *const orders[] = {"fwd", "rev", "rand"};
    for (int half = 0; half < 2; half++)
        for (uint64_t i = 0; i < 3; i++) {
            emu_schedule(orders[i], 1 + i);
            work(kernels_cuda(half ? f32::KERNEL_BF16 : f32::KERNEL_FP32), half != 0, 1 + i);
        }
}

#endif
