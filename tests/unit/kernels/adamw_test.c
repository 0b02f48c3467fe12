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

static void check(size_t count, const struct kernel_adamw *settings)
{
    struct kernel_adamw c = *settings;
    float *p = random_new(count, 1), *m = random_new(count, 0), *v = random_new(count, 0);
    struct reference *r = calloc(count, sizeof *r);
    for (size_t i = 0; i < count; i++)
        r[i].p = (double)p[i];
    for (c.step = 1; c.step <= STEPS; c.step++) {
        float *g = random_new(count, 0.01);
        kernel_adamw(p, m, v, g, count, &c);
        for (size_t i = 0; i < count; i++)
            reference_step(&r[i], (double)g[i], &c);
        free(g);
    }
    for (size_t i = 0; i < count; i++) {
        expect_near(p[i], r[i].p, 1, 1e-6, "parameter", i);
        expect_near(m[i], r[i].m, 0.01, 1e-6, "m", i);
        expect_near(v[i], r[i].v, 1e-4, 1e-6, "v", i);
    }
    free(p);
    free(m);
    free(v);
    free(r);
}

static void updates_match_double(void **state)
{
    (void)state;
    static const struct kernel_adamw settings[] = {{3e-3, 0.9, 0.95, 1e-8, 0.1, 1, 0},
                                                   {1e-2, 0.9, 0.999, 1e-8, 0, 0.25, 0},
                                                   {1e-3, 0.5, 0.9, 1e-3, 1, 2, 0}};
    static const size_t counts[] = {1, 17, 1000, 40003};
    srand48(9);
    for (size_t i = 0; i < COUNT(settings); i++) {
        for (size_t j = 0; j < COUNT(counts); j++)
            check(counts[j], &settings[i]);
    }
}

/* Padding stays 0 for ever, and NaN is not hidden. */
static void zeros_stay_and_nan_shows(void **state)
{
    (void)state;
    const struct kernel_adamw c = {3e-3, 0.9, 0.95, 1e-8, 0.1, 1, 1};
    float p[2] = {0, 1}, m[2] = {0}, v[2] = {0}, g[2] = {0, NAN};
    kernel_adamw(p, m, v, g, 2, &c);
    assert_true(p[0] == 0 && m[0] == 0 && v[0] == 0);
    assert_true(isnan(p[1]) && isnan(m[1]) && isnan(v[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_match_double),
                                       cmocka_unit_test(zeros_stay_and_nan_shows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
