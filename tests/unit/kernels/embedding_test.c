/* Embeddings and biases, exactly: their sums are of small whole numbers. */
#include "tests/unit/kernels/near.h"

static float *whole_new(size_t count)
{
    float *x = random_new(count, 50);
    for (size_t i = 0; i < count; i++)
        x[i] = floorf(x[i]);
    return x;
}

struct shape {
    size_t b, t, c, v;
    bool positions;
};
static const struct shape shapes[] = {{1, 1, 1, 1, true},
                                      {3, 7, 5, 4, true},
                                      {2, 5, 65, 97, false},
                                      {4, 64, 130, 7, true},
                                      {2, 33, 700, 3, true}};

static void check_forward(const struct shape *s, const int32_t *tokens)
{
    float *wte = whole_new(s->v * s->c), *wpe = whole_new(s->t * s->c), *out = whole_new(s->b * s->t * s->c);
    kernel_embedding_forward(out, tokens, wte, s->positions ? wpe : NULL, s->b, s->t, s->c);
    for (size_t i = 0; i < s->b * s->t * s->c; i++) {
        size_t row = i / s->c, j = i % s->c;
        assert_true(out[i] ==
                    wte[(size_t)tokens[row] * s->c + j] + (s->positions ? wpe[row % s->t * s->c + j] : 0));
    }
    free(wte);
    free(wpe);
    free(out);
}

static void check_backward(const struct shape *s, const int32_t *tokens)
{
    float *dwte = whole_new(s->v * s->c), *dwpe = whole_new(s->t * s->c),
          *dout = whole_new(s->b * s->t * s->c);
    float *wte = copy_new(dwte, s->v * s->c), *wpe = copy_new(dwpe, s->t * s->c);
    kernel_embedding_backward(dwte, s->positions ? dwpe : NULL, dout, tokens, s->b, s->t, s->c);
    for (size_t i = 0; i < s->b * s->t * s->c; i++) {
        wte[(size_t)tokens[i / s->c] * s->c + i % s->c] += dout[i];
        wpe[i / s->c % s->t * s->c + i % s->c] += s->positions ? dout[i] : 0;
    }
    assert_memory_equal(dwte, wte, s->v * s->c * sizeof *wte);
    assert_memory_equal(dwpe, wpe, s->t * s->c * sizeof *wpe);
    float *all[] = {dwte, dwpe, dout, wte, wpe};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static void embeddings_are_exact(void **state)
{
    (void)state;
    srand48(3);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const struct shape *s = &shapes[i];
        int32_t *tokens = malloc(s->b * s->t * sizeof *tokens);
        for (size_t j = 0; j < s->b * s->t; j++)
            tokens[j] = (int32_t)(lrand48() % (long)s->v);
        check_forward(s, tokens);
        check_backward(s, tokens);
        free(tokens);
    }
}

static void check_bias(size_t n, size_t c)
{
    float *x = whole_new(n * c), *bias = whole_new(c), *out = whole_new(n * c), *dbias = copy_new(bias, c);
    kernel_bias_forward(out, x, bias, n, c);
    for (size_t i = 0; i < n * c; i++)
        assert_true(out[i] == x[i] + bias[i % c]);
    kernel_bias_forward(out, NULL, bias, n, c);
    for (size_t i = 0; i < n * c; i++)
        assert_true(out[i] == bias[i % c]);
    kernel_bias_backward(dbias, x, n, c);
    for (size_t i = 0; i < n * c; i++)
        bias[i % c] += x[i];
    assert_memory_equal(dbias, bias, c * sizeof *bias);
    free(x);
    free(bias);
    free(out);
    free(dbias);
}

static void biases_are_exact(void **state)
{
    (void)state;
    static const size_t shapes_nc[][2] = {{1, 1}, {3, 63}, {5, 64}, {7, 65}, {256, 300}};
    for (size_t i = 0; i < COUNT(shapes_nc); i++)
        check_bias(shapes_nc[i][0], shapes_nc[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(embeddings_are_exact),
                                       cmocka_unit_test(biases_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
