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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_match_double),
                                       cmocka_unit_test(weights_may_be_the_parameters),
                                       cmocka_unit_test(zeros_stay_and_nan_shows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
