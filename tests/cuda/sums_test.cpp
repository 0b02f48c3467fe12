/* The CUDA kernels that convert, add and sum arrays, against the CPU's in double or a plain loop. */
#include "tests/cuda/check.h"

#include "common/mix.h"
#include "kernels/cuda/sums.h"

static const size_t counts[] = {0, 1, 7, 8, 255, 2051, 10000};

static void numbers_change_their_type(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : counts)
            for (size_t skip = 0; skip < 2; skip++) {
                array wide(false, n), narrow(half, n, skip);
                wide.random(r, 3);
                if (n > 6)
                    wide.x[1] = NAN, wide.x[3] = INFINITY, wide.x[5] = 1e-39;
                wide.push();
                k->act_from_real(narrow.act(), wide.real(), n);
                reference()->act_from_real(narrow.ref_act(), wide.ref(), n);
                expect_near("narrow", narrow, half ? 1.0 / 256 : 0, 1e-37);
                narrow.push();
                wide.poison();
                k->real_from_act(wide.real(), narrow.act(), n);
                reference()->real_from_act(wide.ref(), narrow.ref_act(), n);
                expect_near("wide", wide, 0);
            }
    });
}

static void arrays_are_added_and_scaled(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : counts)
            for (size_t skip = 0; skip < 2; skip++) {
                array out(half, n, skip), x(half, n, skip), sum(false, n, skip), term(false, n);
                out.random(r, 1);
                x.random(r, 1);
                sum.random(r, 1);
                term.random(r, 1);
                k->add(out.act(), x.act(), n);
                reference()->add(out.ref_act(), x.ref_act(), n);
                expect_near("sum of acts", out, rounding(half));
                k->add_real(sum.real(), term.real(), n);
                reference()->add_real(sum.ref(), term.ref(), n);
                expect_near("sum of reals", sum, 1e-6);
                k->scale_real(sum.real(), 0.3f, n);
                reference()->scale_real(sum.ref(), (double)0.3f, n);
                expect_near("scaled", sum, 1e-6);
            }
    });
}

/* Which bits come out depends on the count alone, not on where the array lies. */
static void squares_are_summed(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : {0, 1, 5, 4096, 50003}) {
            integers<double> sum(2);
            array x(false, n), moved(false, n, 1);
            moved.x = x.random(r, 2).x;
            moved.push();
            double before = sum.x[0] = sum.x[1] = r.number();
            sum.push();
            k->sum_of_squares(sum.device, x.real(), n);
            k->sum_of_squares(sum.device + 1, moved.real(), n);
            double want = before;
            reference()->sum_of_squares(&want, x.ref(), n);
            std::vector<double> got = sum.pull();
            if (fabs(got[0] - want) > 1e-13 * (1 + want) || got[0] != got[1])
                fail_msg("the sums of %zu squares are %.17g and %.17g, not %.17g", n, got[0], got[1], want);
        }
    });
}

static void what_is_not_finite_is_found(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : counts)
            for (size_t skip = 0; skip < 2; skip++) {
                array x(false, n, skip);
                x.random(r, 1e38);
                assert_true(k->all_finite(x.real(), n));
                for (double broken : {(double)NAN, (double)INFINITY, (double)-INFINITY}) {
                    if (n == 0)
                        continue;
                    size_t at = broken > 0 ? n - 1 : r.below(n);
                    double kept = x.x[at];
                    x.x[at] = broken;
                    x.push();
                    assert_false(k->all_finite(x.real(), n));
                    x.x[at] = kept;
                }
            }
    });
}

static void bytes_are_hashed(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : {0, 1, 8, 23, 4096, 30001})
            for (size_t skip : {0, 1, 8}) {
                integers<unsigned char> x(skip + n);
                for (unsigned char &byte : x.x)
                    byte = (unsigned char)r.below(256);
                x.push();
                uint64_t want = 0;
                for (size_t i = 0; i * 8 < n; i++) {
                    uint64_t word = 0;
                    memcpy(&word, &x.x[skip + i * 8], n - i * 8 < 8 ? n - i * 8 : 8);
                    want += mix64(word ^ mix64(i + MIX_GOLDEN));
                }
                assert_int_equal(k->hash(x.device + skip, n), want);
            }
    });
}

/* ---- over ranks ---- */

static double wide_of(double x)
{
    return x;
}
static float wide_of(float x)
{
    return x;
}
static float wide_of(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
static void narrow_to(double *out, double x)
{
    *out = x;
}
static void narrow_to(float *out, float x)
{
    *out = x;
}
static void narrow_to(__nv_bfloat16 *out, float x)
{
    *out = __float2bfloat16_rn(x);
}

template <class T>
static void expect_rank_sum(random_bits &r, enum cuda_sum type, size_t n, size_t gap, int size)
{
    int rank = (int)r.below((size_t)size);
    size_t stride = n + gap;
    integers<T> out(n), own(n), others(stride * (size_t)(size - 1) + 1);
    for (integers<T> *x : {&own, &others}) {
        for (T &v : x->x)
            narrow_to(&v, r.number());
        x->push();
    }
    for (size_t i = 0; i < n; i++) {
        decltype(wide_of(T())) sum = 0;
        for (int k = 0; k < size; k++) {
            auto term =
                wide_of(k == rank ? own.x[i] : others.x[(size_t)((k - rank + size) % size - 1) * stride + i]);
            sum = k == 0 ? term : sum + term;
        }
        narrow_to(&out.x[i], sum);
    }
    cuda_sum_ranks(out.device, own.device, others.device, stride * sizeof(T), rank, size, n, type, 0);
    cuda_sum_ranks(own.device, own.device, others.device, stride * sizeof(T), rank, size, n, type, 0);
    cudaDeviceSynchronize();
    assert_memory_equal(out.pull().data(), out.x.data(), n * sizeof(T));
    assert_memory_equal(own.pull().data(), out.x.data(), n * sizeof(T));
}

/* To the bit, in a place of its own or in that of the rank's own term. */
static void ranks_are_summed_in_order(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *, bool, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : {0, 1, 37, 512, 2049})
            for (int size : {1, 2, 5})
                for (size_t gap : {0, 3}) {
                    expect_rank_sum<float>(r, CUDA_SUM_FLOAT, n, gap, size);
                    expect_rank_sum<__nv_bfloat16>(r, CUDA_SUM_BF16, n, gap, size);
                    expect_rank_sum<double>(r, CUDA_SUM_DOUBLE, n, gap, size);
                }
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_change_their_type), cmocka_unit_test(arrays_are_added_and_scaled),
        cmocka_unit_test(squares_are_summed),        cmocka_unit_test(what_is_not_finite_is_found),
        cmocka_unit_test(bytes_are_hashed),          cmocka_unit_test(ranks_are_summed_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
