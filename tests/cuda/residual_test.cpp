/* The CUDA kernel by which blocks join the stream against the CPU's in double. */
#include "tests/cuda/check.h"

struct shape {
    size_t n, c, shift; /* shift: elements by which the inputs are out of line */
};
static const struct shape shapes[] = {{1, 1, 0},    {5, 8, 0},   {40, 24, 0}, {13, 33, 0},
                                      {12, 64, 1},  {9, 264, 0}, {5, 776, 0}, {3, 1032, 0},
                                      {2, 4104, 0}, {0, 8, 0},   {4, 0, 0},   {1, 33000, 0}};

enum what { PLAIN, BIAS = 1, DROPOUT = 2, NORM = 4, CENTRED = 8, IN_PLACE = 16, ALL = 32 };

struct call {
    f32::kernel_dropout dropout;
    f64::kernel_dropout ref_dropout;
    f32::kernel_norm norm;
    f64::kernel_norm ref_norm;
};

static void prepare(struct call *call, int what, const integers<uint64_t> &rows, array &weight, array &bias,
                    array &out, array &mean, array &rstd)
{
    bool centred = what & CENTRED;
    call->dropout = {0.3, 77, rows.device};
    call->ref_dropout = {0.3, 77, rows.x.data()};
    call->norm = {weight.act(), centred ? bias.act() : NULL,  1e-5F,
                  out.act(),    centred ? mean.real() : NULL, rstd.real()};
    call->ref_norm = {weight.ref_act(), centred ? bias.ref_act() : NULL, 1e-5F,
                      out.ref_act(),    centred ? mean.ref() : NULL,     rstd.ref()};
}

/* The norm is checked on the sum that the device has rounded. */
static void check_norm(const struct call &call, array &sum, array &out, array &mean, array &rstd, size_t n,
                       size_t c, bool half)
{
    sum.x = sum.pull();
    if (call.ref_norm.bias)
        reference()->layernorm_forward(out.ref_act(), mean.ref(), rstd.ref(), sum.ref_act(),
                                       call.ref_norm.weight, call.ref_norm.bias, call.ref_norm.eps, n, c);
    else
        reference()->rmsnorm_forward(out.ref_act(), rstd.ref(), sum.ref_act(), call.ref_norm.weight,
                                     call.ref_norm.eps, n, c);
    expect_near("norm", out, rounding(half), 4);
    expect_near("rstd", rstd, 2e-6);
    if (call.ref_norm.bias)
        expect_near("mean", mean, 1e-6);
}

static void check(const f32::kernels *k, bool half, random_bits &r, const struct shape &s, int what)
{
    const size_t n = s.n, c = s.c, at = s.shift;
    array in(half, n * c), x(half, at + n * c), bias(half, c), sum(half, n * c), weight(half, c),
        norm_bias(half, c), out(half, n * c), mean(false, n), rstd(false, n);
    integers<uint64_t> rows(n);
    for (uint64_t &row : rows.x)
        row = r.bits();
    if (n > 0)
        rows.push();
    in.random(r, 1);
    x.random(r, 1);
    if (n > 3 && c > 0)
        x.x[at + 2 * c + c / 2] = NAN;
    x.push();
    bias.random(r, 1);
    weight.random(r, 1, 1);
    norm_bias.random(r, 1);
    struct call call;
    prepare(&call, what, rows, weight, norm_bias, out, mean, rstd);
    array &to = what & IN_PLACE ? in : sum;
    k->residual_forward(to.act(), in.act(), (f32::act *)(void *)((char *)x.device + at * x.element()),
                        what & BIAS ? bias.act() : NULL, what & DROPOUT ? &call.dropout : NULL,
                        what & NORM ? &call.norm : NULL, n, c);
    reference()->residual_forward(to.ref_act(), in.ref_act(), (f64::act *)(void *)(x.x.data() + at),
                                  what & BIAS ? bias.ref_act() : NULL,
                                  what & DROPOUT ? &call.ref_dropout : NULL, NULL, n, c);
    expect_near("sum", to, rounding(half));
    if (what & NORM && c > 0)
        check_norm(call, to, out, mean, rstd, n, c, half);
}

static void blocks_join_the_stream(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (const struct shape &s : shapes)
            for (int what = 0; what<ALL; what += s.c * s.n> 500 ? 7 : 1)
                if (s.c < 2000 || seed == 2)
                    check(k, half, r, s, what);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_join_the_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
