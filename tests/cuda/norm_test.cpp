/* The CUDA kernels of norms against the CPU's in double. */
#include "tests/cuda/check.h"

struct shape {
    size_t n, c, shift; /* shift: elements by which the inputs are out of line */
};

/* In bf16 and fp32: one warp a row or many, one row or several a block, every number of slots, rows that are too long or not aligned. */
static const struct shape shapes[] = {{1, 1, 0},    {3, 8, 0},    {40, 24, 0},  {37, 33, 0},  {21, 64, 1},
                                      {19, 264, 0}, {11, 520, 0}, {17, 776, 0}, {9, 1032, 3}, {5, 1544, 0},
                                      {3, 4104, 0}, {2, 6152, 0}, {2, 8200, 0}, {1, 8192, 0}, {1, 16392, 0},
                                      {0, 16, 0},   {4, 0, 0}};

static f32::act *shifted(array &x, size_t by)
{
    return (f32::act *)(void *)((char *)x.device + by * x.element());
}
static f64::act *ref_shifted(array &x, size_t by)
{
    return (f64::act *)(void *)(x.x.data() + by);
}

/* A row that is nearly constant, and one with a NaN */
static void make_special(array &x, const struct shape &s)
{
    if (s.n < 4 || s.c < 8)
        return;
    for (size_t j = 0; j < s.c; j++)
        x.x[s.shift + s.c + j] = 100 + (double)(j % 3);
    x.x[s.shift + 3 * s.c + s.c / 2] = NAN;
    x.push();
}

static void check_layernorm(const f32::kernels *k, bool half, random_bits &r, const struct shape &s)
{
    const size_t n = s.n, c = s.c;
    array x(half, s.shift + n * c), weight(half, s.shift + c), bias(half, s.shift + c), out(half, n * c);
    array mean(false, n), rstd(false, n), dout(half, s.shift + n * c), dx(half, n * c), dweight(false, c),
        dbias(false, c);
    x.random(r, 2, 0.5);
    make_special(x, s);
    weight.random(r, 1, 1);
    bias.random(r, 1);
    k->layernorm_forward(out.act(), mean.real(), rstd.real(), shifted(x, s.shift), shifted(weight, s.shift),
                         shifted(bias, s.shift), 1e-5F, n, c);
    reference()->layernorm_forward(out.ref_act(), mean.ref(), rstd.ref(), ref_shifted(x, s.shift),
                                   ref_shifted(weight, s.shift), ref_shifted(bias, s.shift), 1e-5F, n, c);
    if (c > 0) {
        expect_near("mean", mean, 1e-6);
        expect_near("rstd", rstd, 2e-6);
        expect_near("out", out, rounding(half), 4);
    }

    mean.push();
    rstd.push();
    dout.random(r, 1);
    dx.random(r, 1);
    dweight.random(r, 1);
    dbias.random(r, 1);
    k->layernorm_backward(dx.act(), dweight.real(), dbias.real(), shifted(dout, s.shift), shifted(x, s.shift),
                          shifted(weight, s.shift), mean.real(), rstd.real(), n, c);
    reference()->layernorm_backward(dx.ref_act(), dweight.ref(), dbias.ref(), ref_shifted(dout, s.shift),
                                    ref_shifted(x, s.shift), ref_shifted(weight, s.shift), mean.ref(),
                                    rstd.ref(), n, c);
    expect_near("dx", dx, rounding(half), 4);
    expect_near("dweight", dweight, 2e-6, 4);
    expect_near("dbias", dbias, 2e-6, 4);
}

static void check_rmsnorm(const f32::kernels *k, bool half, random_bits &r, const struct shape &s)
{
    const size_t n = s.n, c = s.c;
    array x(half, s.shift + n * c), weight(half, s.shift + c), out(half, n * c), rstd(false, n);
    array dout(half, s.shift + n * c), dx(half, n * c), dweight(false, c);
    x.random(r, 2, 0.5);
    make_special(x, s);
    weight.random(r, 1, 1);
    k->rmsnorm_forward(out.act(), rstd.real(), shifted(x, s.shift), shifted(weight, s.shift), 1e-5F, n, c);
    reference()->rmsnorm_forward(out.ref_act(), rstd.ref(), ref_shifted(x, s.shift),
                                 ref_shifted(weight, s.shift), 1e-5F, n, c);
    if (c > 0) {
        expect_near("rstd", rstd, 2e-6);
        expect_near("out", out, rounding(half), 4);
    }

    rstd.push();
    dout.random(r, 1);
    dx.random(r, 1);
    dweight.random(r, 1);
    k->rmsnorm_backward(dx.act(), dweight.real(), shifted(dout, s.shift), shifted(x, s.shift),
                        shifted(weight, s.shift), rstd.real(), n, c);
    reference()->rmsnorm_backward(dx.ref_act(), dweight.ref(), ref_shifted(dout, s.shift),
                                  ref_shifted(x, s.shift), ref_shifted(weight, s.shift), rstd.ref(), n, c);
    expect_near("dx", dx, rounding(half), 4);
    expect_near("dweight", dweight, 2e-6, 4);
}

static void norms_are_the_references(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (const struct shape &s : shapes) {
            if (s.c > 2000 && seed != (half ? 3 : 2)) /* these take time */
                continue;
            check_layernorm(k, half, r, s);
            check_rmsnorm(k, half, r, s);
        }
    });
}

/* Rows of which a block has many, in the kernel that holds them and in the one for any row, which has so many that parts get longer. */
static void many_rows_are_summed(void **state)
{
    (void)state;
    const f32::kernels *k = kernels_cuda(f32::KERNEL_BF16);
    random_bits r(7);
    emu_schedule("rand", 7);
    check_layernorm(k, true, r, {1500, 8, 0});
    check_layernorm(k, true, r, {2500, 3, 0});
    check_rmsnorm(k, true, r, {700, 8, 0});
}

static std::vector<double> gradients(const char *order)
{
    const size_t n = 67, c = 72;
    array x(true, n * c), weight(true, c), mean(false, n), rstd(false, n), dx(true, n * c), dweight(false, c),
        dbias(false, c);
    random_bits r(3);
    emu_schedule(order, 5);
    x.random(r, 1);
    weight.random(r, 1);
    mean.random(r, 0.1);
    rstd.random(r, 0.1, 1);
    dx.random(r, 1);
    dweight.random(r, 1);
    dbias.random(r, 1);
    kernels_cuda(f32::KERNEL_BF16)
        ->layernorm_backward(dx.act(), dweight.real(), dbias.real(), x.act(), x.act(), weight.act(),
                             mean.real(), rstd.real(), n, c);
    std::vector<double> out = dx.pull(), more = dweight.pull(), last = dbias.pull();
    out.insert(out.end(), more.begin(), more.end());
    out.insert(out.end(), last.begin(), last.end());
    return out;
}

static void no_bit_depends_on_the_order_of_threads(void **state)
{
    (void)state;
    std::vector<double> want = gradients("fwd");
    assert_true(gradients("rev") == want);
    assert_true(gradients("rand") == want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms_are_the_references),
                                       cmocka_unit_test(many_rows_are_summed),
                                       cmocka_unit_test(no_bit_depends_on_the_order_of_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
