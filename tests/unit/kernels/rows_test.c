/* Rows to the experts and back, against plain loops. */
#include "tests/unit/kernels/near.h"

struct shape {
    size_t n, k, c, rows;
};
static const struct shape shapes[] = {
    {0, 2, 5, 3}, {1, 1, 1, 1}, {7, 2, 17, 20}, {40, 3, 65, 130}, {300, 2, 130, 700}};

/* (n*k) distinct slots in random order, about one in five left out */
static int32_t *slots_new(const struct shape *s)
{
    int32_t *order = calloc(s->rows, sizeof *order), *slots = calloc(s->n * s->k + 1, sizeof *slots);
    for (size_t i = 0; i < s->rows; i++) {
        size_t j = (size_t)lrand48() % (i + 1);
        order[i] = order[j];
        order[j] = (int32_t)i;
    }
    for (size_t i = 0; i < s->n * s->k; i++)
        slots[i] = lrand48() % 5 == 0 ? -1 : order[i];
    free(order);
    return slots;
}

static void check_gather_shape(const struct kernels *k, const struct shape *s)
{
    int32_t *index = calloc(s->n + 1, sizeof *index);
    for (size_t i = 0; i < s->n; i++)
        index[i] = (int32_t)(lrand48() % ((long)s->rows + 1)) - 1; /* repeats are allowed */
    act *x = act_random(k, s->rows * s->c, 1), *out = act_random(k, s->n * s->c, 1);
    k->rows_gather(out, x, index, s->n, s->c);
    for (size_t i = 0; i < s->n * s->c; i++) {
        int32_t row = index[i / s->c];
        assert_true(value(k, out, i) == (row < 0 ? 0 : value(k, x, (size_t)row * s->c + i % s->c)));
    }
    FREE(index, x, out);
}

static void check_gather(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(shapes); i++)
        check_gather_shape(k, &shapes[i]);
}
TYPED_TEST(rows_are_gathered, check_gather)

struct data {
    const struct shape *s;
    act *rows, *dout, *out, *before, *drows, *drows_before;
    real *weights, *dweights;
    int32_t *slots;
};

static struct data data_new(const struct kernels *k, const struct shape *s)
{
    struct data d = {s, .rows = act_random(k, s->rows * s->c, 1), .dout = act_random(k, s->n * s->c, 1)};
    d.out = act_random(k, s->n * s->c, 1);
    d.before = act_copy(k, d.out, s->n * s->c);
    d.drows = act_random(k, s->rows * s->c, 1);
    d.drows_before = act_copy(k, d.drows, s->rows * s->c);
    d.weights = random_new(s->n * s->k, 1);
    d.dweights = random_new(s->n * s->k, 1);
    d.slots = slots_new(s);
    return d;
}

static void data_free(struct data *d)
{
    FREE(d->rows, d->dout, d->out, d->before, d->drows, d->drows_before, d->weights, d->dweights, d->slots);
}

static void check_combined(const struct kernels *k, const struct data *d, bool accumulate, bool weighted)
{
    const struct shape *s = d->s;
    k->copy(d->out, d->before, s->n * s->c * k->act_size);
    if (!accumulate && s->n)
        set_value(k, d->out, 0, NAN);
    k->rows_combine(d->out, accumulate, d->rows, d->slots, weighted ? d->weights : NULL, s->n, s->k, s->c);
    for (size_t i = 0; i < s->n * s->c; i++) {
        double sum = accumulate ? value(k, d->before, i) : 0;
        for (size_t j = i / s->c * s->k; j < (i / s->c + 1) * s->k; j++) {
            if (d->slots[j] >= 0)
                sum += (weighted ? (double)d->weights[j] : 1) *
                       value(k, d->rows, (size_t)d->slots[j] * s->c + i % s->c);
        }
        expect_act(k, d->out, i, sum, 2, 3e-7, "combined");
    }
}

/* What the slots name becomes weight * dout; the rest stays. */
static void check_combine_backward(const struct kernels *k, const struct data *d, bool weighted)
{
    const struct shape *s = d->s;
    bool *named = calloc(s->rows, sizeof *named);
    k->copy(d->drows, d->drows_before, s->rows * s->c * k->act_size);
    k->rows_combine_backward(d->drows, d->dweights, d->dout, d->rows, d->slots, weighted ? d->weights : NULL,
                             s->n, s->k, s->c);
    for (size_t i = 0; i < s->n * s->k; i++) {
        double dot = 0;
        for (size_t j = 0; j < s->c && d->slots[i] >= 0; j++) {
            size_t at = (size_t)d->slots[i] * s->c + j;
            double dout = value(k, d->dout, i / s->k * s->c + j);
            dot += dout * value(k, d->rows, at);
            named[d->slots[i]] = true;
            expect_act(k, d->drows, at, dout * (weighted ? (double)d->weights[i] : 1), 1, 1e-7, "drows");
        }
        expect_near(d->dweights[i], dot, 1 + sqrt((double)s->c), 1e-6, "dweights", i);
    }
    for (size_t i = 0; i < s->rows * s->c; i++)
        assert_true(named[i / s->c] || value(k, d->drows, i) == value(k, d->drows_before, i));
    free(named);
}

static void check_combine(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct data d = data_new(k, &shapes[i]);
        for (unsigned flags = 0; flags < 4; flags++)
            check_combined(k, &d, flags & 1, flags & 2);
        check_combine_backward(k, &d, true);
        check_combine_backward(k, &d, false);
        data_free(&d);
    }
}
TYPED_TEST(rows_are_combined, check_combine)

/* The gradient of the rows may take their place. */
static void check_in_place(const struct kernels *k)
{
    struct data d = data_new(k, &shapes[3]);
    const struct shape *s = d.s;
    real *dweights = random_new(s->n * s->k, 1);
    k->copy(d.drows, d.rows, s->rows * s->c * k->act_size);
    k->rows_combine_backward(d.drows, d.dweights, d.dout, d.rows, d.slots, d.weights, s->n, s->k, s->c);
    k->rows_combine_backward(d.rows, dweights, d.dout, d.rows, d.slots, d.weights, s->n, s->k, s->c);
    assert_memory_equal(d.drows, d.rows, s->rows * s->c * k->act_size);
    assert_memory_equal(dweights, d.dweights, s->n * s->k * sizeof *dweights);
    free(dweights);
    data_free(&d);
}
TYPED_TEST(gradients_may_lie_on_the_rows, check_in_place)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_gathered),
                                       cmocka_unit_test(rows_are_combined),
                                       cmocka_unit_test(gradients_may_lie_on_the_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
