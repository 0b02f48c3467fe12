/* LayerNorm and RMSNorm, forward and backward, against the formulas in double. One reference serves both: RMSNorm is LayerNorm without
 * mean and bias. */
#include <omp.h>

#include "tests/unit/kernels/near.h"

#define EPS 1e-5

struct shape {
    size_t n, c;
};
static const struct shape shapes[] = {{0, 3},  {1, 1},    {3, 5},    {7, 24},
                                      {2, 65}, {33, 200}, {64, 768}, {300, 130}};

struct data {
    const struct kernels *k;
    struct shape s;
    bool layer;
    act *x, *weight, *bias, *dout, *out, *dx, *before;
    real *mean, *rstd, *dweight, *dbias;
};

static real *filled(size_t count, real with)
{
    real *x = random_new(count, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = with;
    return x;
}

static real *far_from_zero(size_t count)
{
    real *x = random_new(count, 2);
    for (size_t i = 0; i < count; i++)
        x[i] += 3;
    return x;
}

static void run(const struct data *d)
{
    const struct kernels *k = d->k;
    size_t n = d->s.n, c = d->s.c;
    if (d->layer) {
        k->layernorm_forward(d->out, d->mean, d->rstd, d->x, d->weight, d->bias, (real)EPS, n, c);
        k->layernorm_backward(d->dx, d->dweight, d->dbias, d->dout, d->x, d->weight, d->mean, d->rstd, n, c);
    } else {
        k->rmsnorm_forward(d->out, d->rstd, d->x, d->weight, (real)EPS, n, c);
        k->rmsnorm_backward(d->dx, d->dweight, d->dout, d->x, d->weight, d->rstd, n, c);
    }
}

static struct data data_new(const struct kernels *k, struct shape s, bool layer)
{
    size_t count = s.n * s.c;
    struct data d = {k, s, layer, .x = act_new(k, far_from_zero(count), count)};
    d.weight = act_random(k, s.c, 1);
    d.bias = act_random(k, s.c, 1);
    d.dout = act_random(k, count, 1);
    d.out = act_random(k, count, 1);
    d.dx = act_random(k, count, 1);
    d.before = act_copy(k, d.dx, count);
    d.mean = random_new(s.n, 1);
    d.rstd = random_new(s.n, 1);
    d.dweight = filled(s.c, (real)0.5);
    d.dbias = filled(s.c, (real)0.25);
    run(&d);
    return d;
}

static void data_free(struct data *d)
{
    FREE(d->x, d->weight, d->bias, d->dout, d->out, d->dx, d->before, d->mean, d->rstd, d->dweight, d->dbias);
}

static double row_mean(const struct data *d, size_t i)
{
    double sum = 0;
    for (size_t j = 0; d->layer && j < d->s.c; j++)
        sum += value(d->k, d->x, i * d->s.c + j);
    return sum / (double)d->s.c;
}

static double row_rstd(const struct data *d, size_t i, double mean)
{
    double sum = 0;
    for (size_t j = 0; j < d->s.c; j++)
        sum += pow(value(d->k, d->x, i * d->s.c + j) - mean, 2);
    return 1 / sqrt(sum / (double)d->s.c + EPS);
}

static void check_forward(const struct data *d)
{
    for (size_t i = 0; i < d->s.n; i++) {
        double mean = row_mean(d, i), rstd = row_rstd(d, i, mean);
        expect_near(d->rstd[i], rstd, rstd, 1e-4, "rstd", i);
        for (size_t j = 0; j < d->s.c; j++) {
            size_t at = i * d->s.c + j;
            double y = (value(d->k, d->x, at) - mean) * rstd * value(d->k, d->weight, j) +
                       (d->layer ? value(d->k, d->bias, j) : 0);
            expect_act(d->k, d->out, at, y, 1 + rstd, 1e-5, "out");
        }
    }
}

/* dx of row i in double, added to what was there */
static void check_dx_row(const struct data *d, size_t i)
{
    size_t c = d->s.c;
    double mean = row_mean(d, i), rstd = row_rstd(d, i, mean), g_sum = 0, gy_sum = 0;
    for (size_t j = 0; j < c; j++) {
        double g = value(d->k, d->dout, i * c + j) * value(d->k, d->weight, j);
        g_sum += d->layer ? g : 0;
        gy_sum += g * (value(d->k, d->x, i * c + j) - mean) * rstd;
    }
    for (size_t j = 0; j < c; j++) {
        size_t at = i * c + j;
        double g = value(d->k, d->dout, at) * value(d->k, d->weight, j),
               y = (value(d->k, d->x, at) - mean) * rstd;
        double expected =
            value(d->k, d->before, at) + rstd * (g - g_sum / (double)c - y * gy_sum / (double)c);
        expect_act(d->k, d->dx, at, expected, 1 + rstd, 1e-5, "dx");
    }
}

static void check_weights(const struct data *d)
{
    size_t c = d->s.c;
    for (size_t j = 0; j < c; j++) {
        double weight = 0.5, bias = 0.25;
        for (size_t i = 0; i < d->s.n; i++) {
            double mean = row_mean(d, i), dout = value(d->k, d->dout, i * c + j);
            weight += dout * (value(d->k, d->x, i * c + j) - mean) * row_rstd(d, i, mean);
            bias += dout;
        }
        expect_near(d->dweight[j], weight, 10 + (double)d->s.n, 1e-5, "dweight", j);
        expect_near(d->dbias[j], d->layer ? bias : 0.25, 10 + (double)d->s.n, 1e-6, "dbias", j);
    }
}

static void check_shape(const struct kernels *k, struct shape s, bool layer)
{
    struct data d = data_new(k, s, layer);
    check_forward(&d);
    /* one column: LayerNorm's variance is 0 and its derivative only rounding */
    for (size_t i = 0; i < s.n && s.c > 1; i++)
        check_dx_row(&d, i);
    /* and is 0 to the bit: a sum that rounds g less often than it rounds its mean would leave something */
    for (size_t i = 0; i < s.n && s.c == 1 && layer; i++)
        assert_true(value(k, d.dx, i) == value(k, d.before, i));
    if (s.c > 1 && s.n < 300) /* the reference takes n times the work */
        check_weights(&d);
    data_free(&d);
}

static void check_all(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        check_shape(k, shapes[i], true);
        check_shape(k, shapes[i], false);
    }
}
TYPED_TEST(norms_match_double, check_all)

static void check_threads(const struct kernels *k)
{
    int threads = omp_get_max_threads();
    for (int layer = 0; layer < 2; layer++) {
        struct data runs[4];
        for (int t = 0; t < 4; t++) {
            omp_set_num_threads(t + 1);
            srand48(3);
            runs[t] = data_new(k, (struct shape){300, 131}, layer);
            assert_memory_equal(runs[t].dx, runs[0].dx, 300 * 131 * k->act_size);
            assert_memory_equal(runs[t].out, runs[0].out, 300 * 131 * k->act_size);
            assert_memory_equal(runs[t].dweight, runs[0].dweight, 131 * sizeof(real));
            assert_memory_equal(runs[t].dbias, runs[0].dbias, 131 * sizeof(real));
        }
        for (int t = 0; t < 4; t++)
            data_free(&runs[t]);
    }
    omp_set_num_threads(threads);
}
TYPED_TEST(every_thread_count_gives_the_same_bits, check_threads)

static void check_nan(const struct kernels *k)
{
    for (int layer = 0; layer < 2; layer++) {
        struct data d = data_new(k, (struct shape){3, 20}, layer);
        set_value(k, d.x, 25, NAN);
        run(&d);
        for (size_t i = 0; i < 60; i++)
            assert_true(isnan(value(k, d.out, i)) == (i / 20 == 1) &&
                        isnan(value(k, d.dx, i)) == (i / 20 == 1));
        for (size_t j = 0; j < 20; j++)
            assert_true(isnan(d.dweight[j]));
        data_free(&d);
    }
}
TYPED_TEST(nan_breaks_its_row_and_the_weights, check_nan)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms_match_double),
                                       cmocka_unit_test(every_thread_count_gives_the_same_bits),
                                       cmocka_unit_test(nan_breaks_its_row_and_the_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
