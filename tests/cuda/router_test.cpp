/* The CUDA kernels of the router against the CPU's in double. */
#include "tests/cuda/check.h"

struct shape {
    size_t n, e, k;
};
static const struct shape shapes[] = {{1, 1, 1},   {3, 4, 2},    {40, 8, 2},   {17, 33, 33},
                                      {9, 256, 8}, {11, 100, 1}, {3, 300, 12}, {0, 8, 2}};

/* Multiples of 1/8: many are equal, and others far enough apart for float. One row each of NaN, +Inf, all equal */
static void make_logits(array &logits, random_bits &r, const struct shape &s)
{
    for (double &v : logits.x)
        v = (double)r.below(60) / 8 - 4;
    if (s.n > 2) {
        logits.x[s.e / 2] = NAN;
        logits.x[s.e + s.e / 3] = INFINITY;
        for (size_t j = 0; j < s.e; j++)
            logits.x[2 * s.e + j] = 1e4;
    }
    logits.push();
}

static void check(const f32::kernels *k, random_bits &r, const struct shape &s, bool normalise, bool direct)
{
    array logits(false, s.n * s.e), p(false, s.n * s.e), weights(false, s.n * s.k), lse(false, s.n),
        dweights(false, s.n * s.k), dp(false, s.n * s.e), dlogits(false, s.n * s.e);
    integers<int32_t> experts(s.n * s.k);
    make_logits(logits, r, s);
    k->router_forward(p.real(), weights.real(), experts.device, lse.real(), logits.real(), normalise, s.n,
                      s.e, s.k);
    reference()->router_forward(p.ref(), weights.ref(), experts.x.data(), lse.ref(), logits.ref(), normalise,
                                s.n, s.e, s.k);
    expect_near("probabilities", p, 2e-6, 1e-3);
    expect_near("weights", weights, 2e-6, 1e-3);
    expect_near("lse", lse, 1e-6);
    for (size_t i = 0; i < experts.x.size(); i++) {
        int32_t got;
        assert_int_equal(cudaMemcpy(&got, experts.device + i, sizeof got, cudaMemcpyDeviceToHost),
                         cudaSuccess);
        assert_int_equal(got, experts.x[i]);
    }

    p.push();
    weights.push();
    lse.push();
    dweights.random(r, 1);
    dp.random(r, 1);
    k->router_backward(dlogits.real(), dweights.real(), direct ? dp.real() : NULL, p.real(), weights.real(),
                       experts.device, lse.real(), 0.01F, normalise, s.n, s.e, s.k);
    reference()->router_backward(dlogits.ref(), dweights.ref(), direct ? dp.ref() : NULL, p.ref(),
                                 weights.ref(), experts.x.data(), lse.ref(), 0.01F, normalise, s.n, s.e, s.k);
    expect_near("dlogits", dlogits, 4e-6);
}

static void tokens_choose_experts(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed + half);
        for (const struct shape &s : shapes) {
            check(k, r, s, true, half);
            check(k, r, s, false, !half);
        }
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_choose_experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
