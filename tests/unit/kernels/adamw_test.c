/* AdamW against the algorithm as the paper writes it, in double, over several steps. */
#include "tests/unit/kernels/near.h"

#define STEPS 6

struct reference {
    double p, m, v;
};

static void reference_step(struct reference *r, double g, const struct kernel_adamw *c)
{
    g *= c->gradient_scale;
    r->m = c->beta1 * r->m + (1 - c->beta1) * g;
    r->v = c->beta2 * r->v + (1 - c->beta2) * g * g;
    double m_hat = r->m / (1 - pow(c->beta1, (double)c->step)),
           v_hat = r->v / (1 - pow(c->beta2, (double)c->step));
    r->p -= c->lr * (m_hat / (sqrt(v_hat) + c->eps) + c->weight_decay * r->p);
}

static void check(const struct kernels *k, size_t count, const struct kernel_adamw *settings)
{
    struct kernel_adamw c = *settings;
    real *p = random_new(count, 1), *m = random_new(count, 0), *v = random_new(count, 0);
    act *weights = act_random(k, count, 1);
    struct reference *r = calloc(count ? count : 1, sizeof *r);
    for (size_t i = 0; i < count; i++)
        r[i].p = (double)p[i];
    for (c.step = 1; c.step <= STEPS; c.step++) {
        real *g = random_new(count, 0.01);
        k->adamw(p, m, v, g, c.step == STEPS ? weights : NULL, count, &c);
        for (size_t i = 0; i < count; i++)
            reference_step(&r[i], (double)g[i], &c);
        free(g);
    }
    for (size_t i = 0; i < count; i++) {
        expect_near(p[i], r[i].p, 1, 1e-6, "parameter", i);
        expect_near(m[i], r[i].m, 0.01, 1e-6, "m", i);
        expect_near(v[i], r[i].v, 1e-4, 1e-6, "v", i);
    }
    act *rounded = act_new(k, p, count); /* frees p */
    assert_memory_equal(weights, rounded, count * k->act_size);
    FREE(m, v, weights, rounded, r);
}

static void check_updates(const struct kernels *k)
{
    static const struct kernel_adamw settings[] = {{3e-3, 0.9, 0.95, 1e-8, 0.1, 1, 0, false, 0, 0},
                                                   {1e-2, 0.9, 0.999, 1e-8, 0, 0.25, 0, false, 0, 0},
                                                   {1e-3, 0.5, 0.9, 1e-3, 1, 2, 0, false, 0, 0}};
    static const size_t counts[] = {0, 1, 17, 1000, 40003};
    for (size_t i = 0; i < COUNT(settings); i++) {
        for (size_t j = 0; j < COUNT(counts); j++)
            check(k, counts[j], &settings[i]);
    }
}
TYPED_TEST(updates_match_double, check_updates)

/* In fp32 the weights may be the parameters themselves. */
static void weights_may_be_the_parameters(void **state)
{
    (void)state;
    const struct kernels *k = table_of(KERNEL_FP32);
    const struct kernel_adamw c = {3e-3, 0.9, 0.95, 1e-8, 0.1, 1, 1, false, 0, 0};
    real p[3] = {1, 2, 3}, q[3] = {1, 2, 3}, m[3] = {0}, v[3] = {0}, g[3] = {0.1f, -0.2f, 0};
    k->adamw(p, m, v, g, (act *)p, 3, &c);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    k->adamw(q, m, v, g, NULL, 3, &c);
    assert_memory_equal(p, q, sizeof p);
}

/* Padding stays 0 for ever, and NaN is not hidden. */
static void check_special(const struct kernels *k)
{
    const struct kernel_adamw c = {3e-3, 0.9, 0.95, 1e-8, 0.1, 1, 1, false, 0, 0};
    real p[2] = {0, 1}, m[2] = {0}, v[2] = {0}, g[2] = {0, NAN};
    act *weights = act_random(k, 2, 1);
    k->adamw(p, m, v, g, weights, 2, &c);
    assert_true(p[0] == 0 && m[0] == 0 && v[0] == 0 && value(k, weights, 0) == 0);
    assert_true(isnan(p[1]) && isnan(m[1]) && isnan(v[1]) && isnan(value(k, weights, 1)));
    free(weights);
}
TYPED_TEST(zeros_stay_and_nan_shows, check_special)

/* Whole halves of a step between two neighbours of bf16: rounded up as often as down, and each by the hash of its own place, so that a cut of
 * the array changes nothing. */
static void chance_rounds_as_often_as_is_right(void **state)
{
    (void)state;
    enum { N = 20000 };
    static const double parts[] = {0, 0.125, 0.5, 0.75};
    const struct kernels *k = table_of(KERNEL_BF16);
    real *p = random_new(N, 0), *m = random_new(N, 0), *v = random_new(N, 0), *g = random_new(N, 0);
    act *weights = act_random(k, N, 1), *cut = act_random(k, N, 1);
    for (size_t part = 0; part < COUNT(parts); part++) {
        struct kernel_adamw c = {.beta1 = 0.9, .beta2 = 0.9, .gradient_scale = 1, .step = 1, .eps = 1};
        c.stochastic = true;
        c.key = 5;
        size_t up = 0;
        for (size_t i = 0; i < N; i++)
            p[i] = (real)((i % 2 ? -1 : 1) * (1 + parts[part] / 128));
        k->adamw(p, m, v, g, weights, N, &c);
        for (size_t i = 0; i < N; i++) {
            double w = fabs(value(k, weights, i));
            assert_true(w == 1 || w == 1 + 1.0 / 128);
            up += w > 1;
        }
        expect_within((double)up, N * parts[part], 5 * sqrt(N * parts[part] * (1 - parts[part])), "up", part);
        k->adamw(p, m, v, g, cut, 777, &c);
        c.first = 777;
        k->adamw(p + 777, m + 777, v + 777, g + 777, act_at(k, cut, 777), N - 777, &c);
        assert_memory_equal(cut, weights, N * k->act_size);
    }
    FREE(p, m, v, g, weights, cut);
}

static void chance_leaves_what_is_no_number(void **state)
{
    (void)state;
    const struct kernels *k = table_of(KERNEL_BF16);
    struct kernel_adamw c = {.beta1 = 0.9, .beta2 = 0.9, .gradient_scale = 1, .step = 1, .eps = 1};
    c.stochastic = true;
    real p[3] = {NAN, INFINITY, -INFINITY}, m[3] = {0}, v[3] = {0}, g[3] = {0};
    act *weights = act_random(k, 3, 1);
    for (c.key = 0; c.key < 50; c.key++) {
        k->adamw(p, m, v, g, weights, 3, &c);
        assert_true(isnan(value(k, weights, 0)) && value(k, weights, 1) == INFINITY &&
                    value(k, weights, 2) == -INFINITY);
    }
    free(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_match_double), cmocka_unit_test(weights_may_be_the_parameters),
        cmocka_unit_test(zeros_stay_and_nan_shows), cmocka_unit_test(chance_rounds_as_often_as_is_right),
        cmocka_unit_test(chance_leaves_what_is_no_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
