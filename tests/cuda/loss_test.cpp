/* The CUDA kernels of the loss against the CPU's in double. */
#include "tests/cuda/check.h"

struct shape {
    size_t n, v, stride;
    int32_t first;
};
/* 8192 logits are read at a time. */
static const struct shape shapes[] = {{1, 1, 1, 0},         {3, 5, 8, 0},        {5, 100, 100, 30},
                                      {4, 101, 103, 0},     {3, 1001, 1004, 0},  {7, 0, 12, 50},
                                      {2, 4099, 4111, 9},   {0, 9, 9, 0},        {2, 8193, 8200, 0},
                                      {2, 20001, 20004, 0}, {1, 16385, 16401, 0}};

static void make_targets(integers<int32_t> &targets, random_bits &r, const struct shape &s)
{
    for (int32_t &t : targets.x) {
        t = s.first + (int32_t)r.below(s.v + 3) - 1;
        if (t < 0 || r.below(4) == 0)
            t = -1;
    }
    if (s.n > 2)
        targets.x[0] = s.first; /* column 0 */
    if (s.n > 0)
        targets.push();
}

/* One row each of: all -Inf, -Inf but for the last, NaN, +Inf, huge */
static void make_special(array &logits, const struct shape &s)
{
    if (s.n < 5 || s.v < 8)
        return;
    for (size_t j = 0; j < s.v; j++) {
        logits.x[j] = -INFINITY;
        logits.x[s.stride + j] = j + 1 < s.v ? -INFINITY : 3;
        logits.x[4 * s.stride + j] *= 1e30;
    }
    logits.x[2 * s.stride + s.v / 2] = NAN;
    logits.x[3 * s.stride + 1] = INFINITY;
    logits.push();
}

static void check_local(const f32::kernels *k, random_bits &r, const struct shape &s)
{
    array logits(false, s.n * s.stride), lse(false, s.n), chosen(false, s.n);
    integers<int32_t> targets(s.n);
    logits.random(r, 20);
    make_special(logits, s);
    make_targets(targets, r, s);
    k->cross_entropy_local(lse.real(), chosen.real(), logits.real(), targets.device, s.first, s.n, s.v,
                           s.stride);
    reference()->cross_entropy_local(lse.ref(), chosen.ref(), logits.ref(), targets.x.data(), s.first, s.n,
                                     s.v, s.stride);
    expect_near("lse", lse, 1e-6);
    expect_near("chosen", chosen, 0);
}

static void a_row_has_its_logarithm(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (const struct shape &s : shapes)
            if (!half && (s.v < 3000 || seed == 3))
                check_local(k, r, s);
    });
}

static void check_combine(const f32::kernels *k, random_bits &r, size_t parts, size_t n)
{
    array all(false, parts * 2 * n), lse(false, n), losses(false, n);
    integers<int32_t> targets(n);
    integers<double> sum(1);
    all.random(r, 10);
    if (n > 4 && parts > 1) {
        all.x[0] =
            -INFINITY; /* a part without columns; all parts without; a broken one, beside a part without */
        for (size_t p = 0; p < parts; p++)
            all.x[2 * p * n + 1] = -INFINITY;
        all.x[2] = NAN;
        all.x[2 * n + 2] = -INFINITY;
        all.push();
    }
    for (int32_t &t : targets.x)
        t = (int32_t)r.below(3) - 1;
    if (n > 4)
        targets.x[1] = targets.x[2] = -1;
    targets.push();
    sum.x[0] = 1.5;
    sum.push();
    k->cross_entropy_combine(sum.device, losses.real(), lse.real(), all.real(), targets.device, parts, n);
    reference()->cross_entropy_combine(sum.x.data(), losses.ref(), lse.ref(), all.ref(), targets.x.data(),
                                       parts, n);
    expect_near("lse", lse, 1e-6);
    expect_near("losses", losses, 1e-6, 10);
    double got;
    assert_int_equal(cudaMemcpy(&got, sum.device, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    if (!(fabs(got - sum.x[0]) <= 3e-6 * (double)n))
        fail_msg("the sum is %.12g, not %.12g", got, sum.x[0]);
}

static void parts_become_a_loss(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed + half);
        check_combine(k, r, 1, 1);
        check_combine(k, r, 1, 300);
        check_combine(k, r, 2, 7);
        check_combine(k, r, 5, 1000);
    });
}

/* in_place: the gradient lies on the logits, each row on its own */
static void check_backward(const f32::kernels *k, bool half, random_bits &r, const struct shape &s,
                           bool in_place)
{
    size_t dstride = !in_place ? s.v + r.below(9) : half ? 2 * s.stride : s.stride;
    array logits(false, s.n * s.stride), lse(false, s.n), chosen(false, s.n), gradient(half, s.n * dstride);
    integers<int32_t> targets(s.n);
    logits.random(r, 5);
    make_targets(targets, r, s);
    reference()->cross_entropy_local(lse.ref(), chosen.ref(), logits.ref(), targets.x.data(), s.first, s.n,
                                     s.v, s.stride);
    lse.push();
    k->cross_entropy_backward(in_place ? logits.act() : gradient.act(), dstride, logits.real(), s.stride,
                              lse.real(), targets.device, s.first, 0.5F, s.n, s.v);
    reference()->cross_entropy_backward(gradient.ref_act(), dstride, logits.ref(), s.stride, lse.ref(),
                                        targets.x.data(), s.first, 0.5, s.n, s.v);
    if (in_place && s.n > 0)
        assert_int_equal(cudaMemcpy(gradient.device, logits.device, s.n * dstride * gradient.element(),
                                    cudaMemcpyDeviceToDevice),
                         cudaSuccess);
    expect_near("gradient", gradient, half ? 1.0 / 256 : 2e-6, 1e-3);
}

static void gradients_may_lie_on_the_logits(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (const struct shape &s : shapes) {
            check_backward(k, half, r, s, true);
            if (s.v < 3000)
                check_backward(k, half, r, s, false);
        }
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_has_its_logarithm),
                                       cmocka_unit_test(parts_become_a_loss),
                                       cmocka_unit_test(gradients_may_lie_on_the_logits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
