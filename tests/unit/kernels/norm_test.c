/* LayerNorm and RMSNorm, forward and backward, against the formulas in double. One reference serves both: RMSNorm is LayerNorm without
 * mean and bias. */
#include "tests/unit/kernels/near.h"

#define EPS 1e-5f

struct shape {
    size_t n, c;
};
static const struct shape shapes[] = {{1, 1}, {3, 5}, {7, 24}, {2, 65}, {33, 200}, {64, 768}};

struct data {
    struct shape s;
    bool layer;
    float *x, *weight, *bias, *dout, *out, *mean, *rstd;
};

static struct data data_new(struct shape s, bool layer)
{
    struct data d = {s, layer, .x = random_new(s.n * s.c, 2)};
    d.weight = random_new(s.c, 1);
    d.bias = random_new(s.c, 1);
    d.dout = random_new(s.n * s.c, 1);
    d.out = random_new(s.n * s.c, 1);
    d.mean = random_new(s.n, 1);
    d.rstd = random_new(s.n, 1);
    for (size_t i = 0; i < s.n * s.c; i++)
        d.x[i] += 3; /* a mean far from 0 */
    if (layer)
        kernel_layernorm_forward(d.out, d.mean, d.rstd, d.x, d.weight, d.bias, EPS, s.n, s.c);
    else
        kernel_rmsnorm_forward(d.out, d.rstd, d.x, d.weight, EPS, s.n, s.c);
    return d;
}

static void data_free(struct data *d)
{
    float *all[] = {d->x, d->weight, d->bias, d->dout, d->out, d->mean, d->rstd};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static double row_mean(const struct data *d, size_t i)
{
    double sum = 0;
    for (size_t j = 0; d->layer && j < d->s.c; j++)
        sum += (double)d->x[i * d->s.c + j];
    return sum / (double)d->s.c;
}

static double row_rstd(const struct data *d, size_t i, double mean)
{
    double sum = 0;
    for (size_t j = 0; j < d->s.c; j++)
        sum += pow((double)d->x[i * d->s.c + j] - mean, 2);
    return 1 / sqrt(sum / (double)d->s.c + (double)EPS);
}

static void check_forward(const struct data *d)
{
    for (size_t i = 0; i < d->s.n; i++) {
        double mean = row_mean(d, i), rstd = row_rstd(d, i, mean);
        expect_near(d->rstd[i], rstd, rstd, 1e-4, "rstd", i);
        for (size_t j = 0; j < d->s.c; j++) {
            size_t at = i * d->s.c + j;
            double y =
                ((double)d->x[at] - mean) * rstd * (double)d->weight[j] + (d->layer ? (double)d->bias[j] : 0);
            expect_near(d->out[at], y, 1 + rstd, 1e-5, "out", at);
        }
    }
}

/* dx of row i in double, added to what was there */
static void check_dx_row(const struct data *d, size_t i, const float *before, const float *dx)
{
    size_t c = d->s.c;
    double mean = row_mean(d, i), rstd = row_rstd(d, i, mean), g_sum = 0, gy_sum = 0;
    for (size_t j = 0; j < c; j++) {
        double g = (double)d->dout[i * c + j] * (double)d->weight[j];
        g_sum += d->layer ? g : 0;
        gy_sum += g * ((double)d->x[i * c + j] - mean) * rstd;
    }
    for (size_t j = 0; j < c; j++) {
        double g = (double)d->dout[i * c + j] * (double)d->weight[j],
               y = ((double)d->x[i * c + j] - mean) * rstd;
        double expected = (double)before[i * c + j] + rstd * (g - g_sum / (double)c - y * gy_sum / (double)c);
        expect_near(dx[i * c + j], expected, 1 + rstd, 1e-5, "dx", i * c + j);
    }
}

static void check_weights(const struct data *d, const float *dweight, const float *dbias)
{
    size_t c = d->s.c;
    for (size_t j = 0; j < c; j++) {
        double weight = 0.5, bias = 0.25;
        for (size_t i = 0; i < d->s.n; i++) {
            double mean = row_mean(d, i);
            weight += (double)d->dout[i * c + j] * ((double)d->x[i * c + j] - mean) * row_rstd(d, i, mean);
            bias += (double)d->dout[i * c + j];
        }
        expect_near(dweight[j], weight, 10 + (double)d->s.n, 1e-5, "dweight", j);
        if (d->layer)
            expect_near(dbias[j], bias, 10 + (double)d->s.n, 1e-6, "dbias", j);
    }
}

static void check_backward(const struct data *d)
{
    size_t n = d->s.n, c = d->s.c;
    float *before = random_new(n * c, 1), *dx = copy_new(before, n * c), *dweight = random_new(c, 1),
          *dbias = random_new(c, 1);
    for (size_t j = 0; j < c; j++) {
        dweight[j] = 0.5f;
        dbias[j] = 0.25f;
    }
    if (d->layer)
        kernel_layernorm_backward(dx, dweight, dbias, d->dout, d->x, d->weight, d->mean, d->rstd, n, c);
    else
        kernel_rmsnorm_backward(dx, dweight, d->dout, d->x, d->weight, d->rstd, n, c);
    for (size_t i = 0; i < n; i++)
        check_dx_row(d, i, before, dx);
    check_weights(d, dweight, dbias);
    free(before);
    free(dx);
    free(dweight);
    free(dbias);
}

static void check(bool layer)
{
    srand48(2);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct data d = data_new(shapes[i], layer);
        check_forward(&d);
        /* one column: LayerNorm's variance is 0 and its derivative only rounding */
        if (shapes[i].c > 1)
            check_backward(&d);
        data_free(&d);
    }
}

static void layernorm_matches_double(void **state)
{
    (void)state;
    check(true);
}

static void rmsnorm_matches_double(void **state)
{
    (void)state;
    check(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layernorm_matches_double),
                                       cmocka_unit_test(rmsnorm_matches_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
