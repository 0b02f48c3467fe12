/* The router of experts against plain loops in double: ties, one expert, all of them, broken logits. */
#include "tests/unit/kernels/near.h"

struct shape {
    size_t n, e, k;
    bool normalise;
};
static const struct shape shapes[] = {
    {0, 4, 2, true}, {1, 1, 1, true},  {1, 1, 1, false},   {17, 8, 2, true},  {17, 8, 2, false},
    {9, 5, 5, true}, {9, 5, 5, false}, {700, 64, 6, true}, {33, 3, 1, false}, {33, 3, 1, true}};

struct data {
    const struct shape *s;
    real *logits, *probabilities, *weights, *lse, *dweights, *dprobabilities, *dlogits;
    int32_t *experts;
};

static struct data data_new(const struct kernels *k, const struct shape *s)
{
    struct data d = {s, .logits = random_new(s->n * s->e, 4)};
    d.probabilities = random_new(s->n * s->e, 1);
    d.weights = random_new(s->n * s->k, 1);
    d.lse = random_new(s->n, 1);
    d.dweights = random_new(s->n * s->k, 1);
    d.dprobabilities = random_new(s->n * s->e, 1);
    d.dlogits = random_new(s->n * s->e, 1);
    d.experts = calloc(s->n * s->k + 1, sizeof *d.experts);
    k->router_forward(d.probabilities, d.weights, d.experts, d.lse, d.logits, s->normalise, s->n, s->e, s->k);
    return d;
}

static void data_free(struct data *d)
{
    FREE(d->logits, d->probabilities, d->weights, d->lse, d->dweights, d->dprobabilities, d->dlogits,
         d->experts);
}

/* How many logits of the row come before expert j: larger ones, and equal ones of lower number. */
static size_t rank_of(const real *logits, size_t e, size_t j)
{
    size_t rank = 0;
    for (size_t i = 0; i < e; i++)
        rank += logits[i] > logits[j] || (logits[i] == logits[j] && i < j);
    return rank;
}

static double softmax(const real *logits, size_t e, double *p)
{
    double sum = 0;
    for (size_t j = 0; j < e; j++)
        sum += p[j] = exp((double)logits[j]);
    for (size_t j = 0; j < e; j++)
        p[j] /= sum;
    return log(sum);
}

static void check_forward_row(const struct data *d, size_t i, const double *p, double lse)
{
    const struct shape *s = d->s;
    double sum = 0;
    expect_near(d->lse[i], lse, 5, 1e-6, "lse", i);
    for (size_t j = 0; j < s->e; j++)
        expect_near(d->probabilities[i * s->e + j], p[j], p[j], 2e-6, "probability", i * s->e + j);
    for (size_t j = 0; j < s->k; j++) {
        size_t expert = (size_t)d->experts[i * s->k + j];
        assert_true(expert < s->e);
        assert_int_equal(rank_of(d->logits + i * s->e, s->e, expert), j);
        sum += p[expert];
    }
    for (size_t j = 0; j < s->k; j++)
        expect_near(d->weights[i * s->k + j], p[d->experts[i * s->k + j]] / (s->normalise ? sum : 1), 1, 2e-6,
                    "weight", i * s->k + j);
}

/* sum of dw * w + dp * p + z * lse^2 as a function of the logits, the chosen experts held: what backward differentiates */
static double objective(const struct data *d, size_t i, const real *logits, double z)
{
    const struct shape *s = d->s;
    double *p = calloc(s->e, sizeof *p), chosen = 0, out = 0;
    double lse = softmax(logits, s->e, p);
    for (size_t j = 0; j < s->k; j++)
        chosen += p[d->experts[i * s->k + j]];
    for (size_t j = 0; j < s->k; j++)
        out += (double)d->dweights[i * s->k + j] * p[d->experts[i * s->k + j]] / (s->normalise ? chosen : 1);
    for (size_t j = 0; j < s->e; j++)
        out += (double)d->dprobabilities[i * s->e + j] * p[j];
    free(p);
    return out + z * lse * lse;
}

/* by central differences, in double, of the float logits moved by exact steps */
static void check_backward_row(const struct data *d, size_t i, double z)
{
    const double step = 1.0 / 256;
    const struct shape *s = d->s;
    real *logits = copy_new(d->logits + i * s->e, s->e * sizeof *logits);
    for (size_t j = 0; j < s->e; j++) {
        real at = logits[j], high = (real)((double)at + step), low = (real)((double)at - step);
        logits[j] = high;
        double above = objective(d, i, logits, z);
        logits[j] = low;
        double below = objective(d, i, logits, z);
        logits[j] = at;
        expect_near(d->dlogits[i * s->e + j], (above - below) / ((double)high - (double)low), 1, 3e-5,
                    "dlogits", i * s->e + j);
    }
    free(logits);
}

static void check_rows(const struct kernels *k)
{
    const double z = 0.01;
    for (size_t c = 0; c < COUNT(shapes); c++) {
        const struct shape *s = &shapes[c];
        struct data d = data_new(k, s);
        double *p = calloc(s->e, sizeof *p);
        k->router_backward(d.dlogits, d.dweights, d.dprobabilities, d.probabilities, d.weights, d.experts,
                           d.lse, (real)z, s->normalise, s->n, s->e, s->k);
        for (size_t i = 0; i < s->n; i++) {
            double lse = softmax(d.logits + i * s->e, s->e, p);
            check_forward_row(&d, i, p, lse);
            check_backward_row(&d, i, z);
        }
        free(p);
        data_free(&d);
    }
}
TYPED_TEST(routing_matches_double, check_rows)

/* dprobabilities NULL is all 0. */
static void check_null(const struct kernels *k)
{
    struct data d = data_new(k, &shapes[3]);
    size_t count = d.s->n * d.s->e;
    real *other = random_new(count, 1);
    memset(d.dprobabilities, 0, count * sizeof(real));
    k->router_backward(d.dlogits, d.dweights, d.dprobabilities, d.probabilities, d.weights, d.experts, d.lse,
                       0, true, d.s->n, d.s->e, d.s->k);
    k->router_backward(other, d.dweights, NULL, d.probabilities, d.weights, d.experts, d.lse, 0, true, d.s->n,
                       d.s->e, d.s->k);
    assert_memory_equal(other, d.dlogits, count * sizeof(real));
    free(other);
    data_free(&d);
}
TYPED_TEST(no_gradient_of_probabilities_is_zero, check_null)

static void check_ties(const struct kernels *k)
{
    static const struct {
        real logits[6];
        int32_t experts[3];
    } cases[] = {{{0, 0, 0, 0, 0, 0}, {0, 1, 2}},
                 {{1, 2, 2, 1, 2, 2}, {1, 2, 4}},
                 {{-5, 3, -5, -5, 3, -5}, {1, 4, 0}},
                 {{-INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, {1, 0, 2}}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        real p[6], weights[3], lse;
        int32_t experts[3];
        k->router_forward(p, weights, experts, &lse, cases[i].logits, true, 1, 6, 3);
        assert_memory_equal(experts, cases[i].experts, sizeof experts);
    }
}
TYPED_TEST(ties_go_to_the_lower_number, check_ties)

/* Broken logits are seen, and the experts are still distinct numbers below E: others index with them. */
static void check_broken(const struct kernels *k)
{
    static const real broken[] = {NAN, INFINITY};
    for (size_t at = 0; at < 10; at++) {
        real logits[5] = {1, 2, 3, 4, 5}, p[5], weights[5], lse, dlogits[5];
        int32_t experts[5], seen = 0;
        logits[at % 5] = broken[at / 5];
        k->router_forward(p, weights, experts, &lse, logits, true, 1, 5, 5);
        for (size_t j = 0; j < 5; j++) {
            assert_true(isnan(p[j]) && isnan(weights[j]) && experts[j] >= 0 && experts[j] < 5);
            seen |= 1 << experts[j];
        }
        assert_true(seen == 31 && isnan(lse));
        k->router_backward(dlogits, weights, NULL, p, weights, experts, &lse, 0, true, 1, 5, 5);
        assert_true(isnan(dlogits[0]));
    }
}
TYPED_TEST(broken_logits_show_and_choose_real_experts, check_broken)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(routing_matches_double),
                                       cmocka_unit_test(no_gradient_of_probabilities_is_zero),
                                       cmocka_unit_test(ties_go_to_the_lower_number),
                                       cmocka_unit_test(broken_logits_show_and_choose_real_experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
