/* The CUDA kernel of AdamW against the CPU's in double, and its rounding by chance against the formula. */
#include "tests/cuda/check.h"

#include "kernels/cpu/hash.h"

struct update {
    array p, m, v, g, weights;
    update(bool half, size_t n, size_t skip, random_bits &r)
        : p(false, n, skip), m(false, n, skip), v(false, n, skip), g(false, n, skip), weights(half, n, skip)
    {
        p.random(r, 1);
        m.random(r, 0.01);
        v.random(r, 1e-4, 2e-4);
        g.random(r, 0.1);
    }
};

template <class C> static C settings(int64_t step)
{
    C c = {};
    c.lr = 1e-2, c.beta1 = 0.9, c.beta2 = 0.95, c.eps = 1e-8, c.weight_decay = 0.1;
    c.gradient_scale = 0.37;
    c.step = step;
    return c;
}

static void parameters_are_updated(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : {0, 1, 5, 64, 2051})
            for (size_t skip = 0; skip < 2; skip++)
                for (int64_t step : {1, 1000}) {
                    update u(half, n, skip, r);
                    auto here = settings<f32::kernel_adamw>(step);
                    auto there = settings<f64::kernel_adamw>(step);
                    bool wanted = step == 1;
                    k->adamw(u.p.real(), u.m.real(), u.v.real(), u.g.real(), wanted ? u.weights.act() : NULL,
                             n, &here);
                    reference()->adamw(u.p.ref(), u.m.ref(), u.v.ref(), u.g.ref(),
                                       wanted ? u.weights.ref_act() : NULL, n, &there);
                    expect_near("p", u.p, 1e-6);
                    expect_near("m", u.m, 1e-6, 0.01);
                    expect_near("v", u.v, 2e-6, 1e-4);
                    if (wanted)
                        expect_near("weights", u.weights, rounding(half));
                }
    });
}

/* A parameter that is its own weight (fp32), and one that is broken. */
static void what_is_broken_stays_broken(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        update u(half, 40, 0, r);
        u.g.x[3] = NAN;
        u.v.x[5] = INFINITY;
        u.p.x[7] = -INFINITY;
        u.g.push(), u.v.push(), u.p.push();
        auto here = settings<f32::kernel_adamw>(3);
        auto there = settings<f64::kernel_adamw>(3);
        here.stochastic = half;
        k->adamw(u.p.real(), u.m.real(), u.v.real(), u.g.real(), half ? u.weights.act() : u.p.act(), 40,
                 &here);
        reference()->adamw(u.p.ref(), u.m.ref(), u.v.ref(), u.g.ref(), u.weights.ref_act(), 40, &there);
        expect_near("p", u.p, 1e-6);
        if (half)
            expect_near("weights", u.weights, 1.0 / 64);
    });
}

/* The bf16 on this side of x, or one further out when the random bits are below the bits that go. */
static double rounded_by_chance(double x, uint64_t key, uint64_t element)
{
    float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t row = hash_row(key, element);
    uint32_t chance = hash_column((uint32_t)row, (uint32_t)(row >> 32), 0) >> 16, gone = bits & 0xffff;
    bits = (bits & 0xffff0000) + (chance < gone ? 0x10000 : 0);
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void weights_are_rounded_by_chance(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (size_t skip = 0; half && skip < 2; skip++) {
            const size_t n = 1003;
            update u(true, n, skip, r);
            auto c = settings<f32::kernel_adamw>(1);
            c.stochastic = true;
            c.key = r.bits();
            c.first = r.bits();
            k->adamw(u.p.real(), u.m.real(), u.v.real(), u.g.real(), u.weights.act(), n, &c);
            std::vector<double> p = u.p.pull();
            for (size_t i = 0; i < n; i++)
                u.weights.x[i] = rounded_by_chance(p[i], c.key, c.first + i);
            expect_near("weights", u.weights, 0);
        }
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_updated),
        cmocka_unit_test(what_is_broken_stays_broken),
        cmocka_unit_test(weights_are_rounded_by_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
