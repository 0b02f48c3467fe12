#include "scratch.h"

#include <math.h>

#include "runtime/engine/optimizer.h"

/* AdamW as its paper writes it, in double, one number at a time. */
struct reference {
    double w, m, v;
};

static void reference_step(struct reference *r, const struct job_optimizer *o, double lr, int t, double decay,
                           double g)
{
    r->m = o->beta1 * r->m + (1 - o->beta1) * g;
    r->v = o->beta2 * r->v + (1 - o->beta2) * g * g;
    double m_hat = r->m / (1 - pow(o->beta1, t)), v_hat = r->v / (1 - pow(o->beta2, t));
    r->w -= lr * (m_hat / (sqrt(v_hat) + o->eps) + decay * r->w);
}

/* Two tensors, one with decay, a gap of padding between them that must stay as it is. */
static void test_follows_the_paper(void **state)
{
    (void)state;
    const struct job_optimizer o = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    const struct model_tensor tensors[] = {{.name = "a", .offset = 0, .count = 3, .decay = true},
                                           {.name = "b", .offset = 4, .count = 2, .decay = false}};
    float w[6] = {1, -2, 3, 77, 5, 6}, g[6];
    struct reference r[6] = {{0}};
    for (int i = 0; i < 6; i++)
        r[i].w = (double)w[i];
    struct optimizer *opt = optimizer_new(6, tensors, 2, NULL);
    assert_non_null(opt);
    for (int t = 1; t <= 20; t++) {
        double lr = 0.01 * t;
        for (int i = 0; i < 6; i++) {
            g[i] = (float)sin(i + t);
            if (i != 3)
                reference_step(&r[i], &o, lr, t, i < 3 ? 0.1 : 0, 0.5 * (double)g[i]);
        }
        optimizer_step(opt, &o, lr, t, 0.5, w, g);
    }
    for (int i = 0; i < 6; i++) {
        if (fabs((double)w[i] - r[i].w) > 1e-5 * fabs(r[i].w))
            fail_msg("parameter %d is %.9g, expected %.9g", i, (double)w[i], r[i].w);
        assert_true(fabs((double)optimizer_first(opt)[i] - r[i].m) < 1e-6);
        assert_true(fabs((double)optimizer_second(opt)[i] - r[i].v) < 1e-6);
    }
    assert_true(w[3] == 77);
    optimizer_free(opt);
    optimizer_free(NULL);
}

static void test_clip(void **state)
{
    (void)state;
    assert_true(optimizer_clip_scale(2, 1) == 0.5);
    assert_true(optimizer_clip_scale(1, 1) == 1);
    assert_true(optimizer_clip_scale(0.5, 1) == 1);
    assert_true(optimizer_clip_scale(1e9, 0) == 1); /* 0 = no clipping */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_follows_the_paper), cmocka_unit_test(test_clip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
