/* Embeddings and biases, exactly: their sums are of small whole numbers, which bf16 holds, too. */
#include <omp.h>

#include "tests/unit/kernels/near.h"

struct shape {
    size_t n, c;
    int32_t vocabulary; /* tokens are below it */
    int32_t first;      /* this part's rows of the table */
    size_t rows;
};
static const struct shape shapes[] = {{0, 3, 5, 0, 5},      {1, 1, 1, 0, 1},      {21, 5, 4, 0, 4},
                                      {10, 65, 97, 0, 97},  {10, 65, 97, 25, 25}, {30, 17, 97, 75, 22},
                                      {30, 17, 97, 100, 9}, {256, 130, 7, 2, 3},  {66, 700, 3, 0, 3}};

static act *whole(const struct kernels *k, size_t count)
{
    return act_new(k, whole_new(count, 50), count);
}

static bool inside(const struct shape *s, int32_t token)
{
    return token >= s->first && (size_t)(token - s->first) < s->rows;
}

static void check_forward(const struct kernels *k, const struct shape *s, const int32_t *tokens)
{
    act *table = whole(k, s->rows * s->c), *out = whole(k, s->n * s->c);
    if (s->n)
        set_value(k, out, 0, NAN);
    k->embedding_forward(out, tokens, table, s->first, s->rows, s->n, s->c);
    for (size_t i = 0; i < s->n * s->c; i++) {
        int32_t token = tokens[i / s->c];
        size_t row = inside(s, token) ? (size_t)(token - s->first) : 0;
        assert_true(value(k, out, i) == (inside(s, token) ? value(k, table, row * s->c + i % s->c) : 0));
    }
    FREE(table, out);
}

static void check_backward(const struct kernels *k, const struct shape *s, const int32_t *tokens)
{
    real *dtable = whole_new(s->rows * s->c, 50),
         *expected = copy_new(dtable, s->rows * s->c * sizeof *dtable);
    act *dout = whole(k, s->n * s->c);
    k->embedding_backward(dtable, dout, tokens, s->first, s->rows, s->n, s->c);
    for (size_t i = 0; i < s->n * s->c; i++) {
        int32_t token = tokens[i / s->c];
        if (inside(s, token))
            expected[(size_t)(token - s->first) * s->c + i % s->c] += (real)value(k, dout, i);
    }
    assert_memory_equal(dtable, expected, s->rows * s->c * sizeof *dtable);
    FREE(dtable, expected, dout);
}

static void check_embeddings(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const struct shape *s = &shapes[i];
        int32_t *tokens = calloc(s->n + 1, sizeof *tokens);
        for (size_t j = 0; j < s->n; j++)
            tokens[j] = (int32_t)(lrand48() % s->vocabulary);
        check_forward(k, s, tokens);
        check_backward(k, s, tokens);
        free(tokens);
    }
}
TYPED_TEST(embeddings_are_exact, check_embeddings)

/* Numbers that are no token at all touch nothing, however far out. */
static void check_outside(const struct kernels *k)
{
    static const int32_t tokens[] = {-1, INT32_MIN, INT32_MAX, 3, 8};
    act *table = whole(k, 5 * 4), *out = whole(k, 5 * 4);
    real *dtable = calloc(5 * 4, sizeof *dtable);
    k->embedding_forward(out, tokens, table, 3, 5, 5, 4);
    k->embedding_backward(dtable, out, tokens, 3, 5, 5, 4);
    for (size_t i = 0; i < 20; i++) {
        assert_true(value(k, out, i) == (i / 4 == 3 ? value(k, table, i % 4) : 0));
        assert_true((double)dtable[i] == (i < 4 ? value(k, out, 12 + i) : 0));
    }
    FREE(table, out, dtable);
}
TYPED_TEST(tokens_outside_touch_nothing, check_outside)

static void check_position_shape(const struct kernels *k, size_t n, size_t c, size_t rows)
{
    int32_t *positions = calloc(n + 1, sizeof *positions);
    for (size_t i = 0; i < n; i++)
        positions[i] = (int32_t)(lrand48() % (long)rows);
    act *x = whole(k, n * c), *before = act_copy(k, x, n * c), *table = whole(k, rows * c);
    real *dtable = whole_new(rows * c, 50), *expected = copy_new(dtable, rows * c * sizeof *dtable);
    k->position_forward(x, table, positions, n, c);
    k->position_backward(dtable, before, positions, rows, n, c);
    for (size_t i = 0; i < n * c; i++) {
        size_t at = (size_t)positions[i / c] * c + i % c;
        assert_true(value(k, x, i) == value(k, before, i) + value(k, table, at));
        expected[at] += (real)value(k, before, i);
    }
    assert_memory_equal(dtable, expected, rows * c * sizeof *dtable);
    FREE(positions, x, before, table, dtable, expected);
}

static void check_positions(const struct kernels *k)
{
    static const size_t shapes_ncr[][3] = {{0, 4, 4}, {1, 1, 1}, {9, 17, 4}, {100, 300, 64}};
    for (size_t i = 0; i < COUNT(shapes_ncr); i++)
        check_position_shape(k, shapes_ncr[i][0], shapes_ncr[i][1], shapes_ncr[i][2]);
}
TYPED_TEST(positions_are_exact, check_positions)

static void check_bias_shape(const struct kernels *k, size_t n, size_t c)
{
    act *x = whole(k, n * c), *bias = whole(k, c), *out = whole(k, n * c);
    real *dbias = whole_new(c, 50), *expected = copy_new(dbias, c * sizeof *dbias);
    k->bias_forward(out, x, bias, n, c);
    for (size_t i = 0; i < n * c; i++)
        assert_true(value(k, out, i) == value(k, x, i) + value(k, bias, i % c));
    k->bias_forward(out, NULL, bias, n, c);
    for (size_t i = 0; i < n * c; i++)
        assert_true(value(k, out, i) == value(k, bias, i % c));
    k->bias_backward(dbias, x, n, c);
    for (size_t i = 0; i < n * c; i++)
        expected[i % c] += (real)value(k, x, i);
    assert_memory_equal(dbias, expected, c * sizeof *dbias);
    k->bias_forward(x, x, bias, n, c); /* in place */
    k->bias_backward(dbias, out, 0, c);
    assert_memory_equal(dbias, expected, c * sizeof *dbias);
    FREE(x, bias, out, dbias, expected);
}

static void check_biases(const struct kernels *k)
{
    static const size_t shapes_nc[][2] = {{0, 5}, {1, 1}, {3, 63}, {5, 64}, {7, 65}, {256, 300}, {1000, 7}};
    for (size_t i = 0; i < COUNT(shapes_nc); i++)
        check_bias_shape(k, shapes_nc[i][0], shapes_nc[i][1]);
}
TYPED_TEST(biases_are_exact, check_biases)

/* What is added does not depend on how many add. */
static void check_threads(const struct kernels *k)
{
    enum { N = 300, C = 200 };
    int threads = omp_get_max_threads();
    act *dout = act_random(k, N * C, 1);
    real *one = calloc(C, sizeof *one), *more = calloc(C, sizeof *more);
    omp_set_num_threads(1);
    k->bias_backward(one, dout, N, C);
    for (int t = 2; t <= 5; t++) {
        omp_set_num_threads(t);
        memset(more, 0, C * sizeof *more);
        k->bias_backward(more, dout, N, C);
        assert_memory_equal(one, more, C * sizeof *one);
    }
    omp_set_num_threads(threads);
    FREE(dout, one, more);
}
TYPED_TEST(sums_are_the_same_for_every_thread_count, check_threads)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_exact), cmocka_unit_test(tokens_outside_touch_nothing),
        cmocka_unit_test(positions_are_exact), cmocka_unit_test(biases_are_exact),
        cmocka_unit_test(sums_are_the_same_for_every_thread_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
