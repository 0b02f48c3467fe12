/* Linear layers in fp8 against the same rounding and sums on the host, in double. */
#include <cuda_fp8.h>

#include "tests/cuda/check.h"

/* Rows of a state. */
enum { OF_X, OF_WEIGHT, OF_DY };
#define ROW KERNEL_FP8_ROW

struct shape {
    size_t n, in, out;
};
static const struct shape shapes[] = {{16, 16, 16}, {32, 48, 16}, {80, 64, 144}, {208, 160, 80}};

/* A layer, its operands, and what the host knows of its state. */
struct layer {
    size_t n, in, out;
    array x, weight, bias, dy;
    array state;
    f32::kernel_linear device;
    layer(const struct shape &s, random_bits &r)
        : n(s.n), in(s.in), out(s.out), x(true, n * in), weight(true, out * in), bias(true, out),
          dy(true, n * out), state(false, 3 * ROW)
    {
        draw(r, 1);
        for (double &v : state.x)
            v = 0;
        state.push();
        device.weight = weight.act();
        device.bias = bias.act();
        device.in = in;
        device.out = out;
        device.fp8 = state.real();
    }
    void draw(random_bits &r, double size)
    {
        x.random(r, size);
        weight.random(r, 0.1);
        bias.random(r, 1);
        dy.random(r, 1e-3 * size);
    }
};

static double largest(const std::vector<double> &x)
{
    double most = 0;
    for (double v : x)
        most = isfinite(v) ? fmax(most, fabs(v)) : most;
    return most;
}

/* What x becomes on the way through fp8, when `seen` is the largest magnitude that the scale knows of. */
static std::vector<double> through(const std::vector<double> &x, double seen, bool wide)
{
    std::vector<double> out(x.size());
    float scale = seen > 0 ? (wide ? 57344.0F : 448.0F) / (float)seen : 1, inverse = 1 / scale;
    for (size_t i = 0; i < x.size(); i++) {
        float scaled = isfinite(x[i]) ? (float)x[i] * scale : NAN;
        out[i] =
            (double)((wide ? (float)__nv_fp8_e5m2(scaled) : (float)__nv_fp8_e4m3(scaled))) * (double)inverse;
    }
    return out;
}

/* c (m,n) += a (m,k) b (k,n), by strides of rows and columns */
static void multiply(std::vector<double> &c, size_t m, size_t n, size_t k, const std::vector<double> &a,
                     size_t a_row, size_t a_column, const std::vector<double> &b, size_t b_row,
                     size_t b_column)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t l = 0; l < k; l++)
                c[i * n + j] += a[i * a_row + l * a_column] * b[l * b_row + j * b_column];
}

/* All three products, with scales for these largest magnitudes. */
static void check_products(const f32::kernels *k, layer &l, const double seen[3], random_bits &r)
{
    std::vector<double> x = through(l.x.x, seen[OF_X], false),
                        w = through(l.weight.x, seen[OF_WEIGHT], false),
                        dy = through(l.dy.x, seen[OF_DY], true);
    array onto(true, l.n * l.out), y(true, l.n * l.out), dx(true, l.n * l.in), dw(false, l.out * l.in);
    onto.random(r, 1);
    for (size_t i = 0; i < l.n * l.out; i++)
        y.x[i] = l.bias.x[i % l.out] + onto.x[i];
    multiply(y.x, l.n, l.out, l.in, x, l.in, 1, w, 1, l.in);
    y.poison();
    k->linear_forward(y.act(), onto.act(), l.x.act(), &l.device, l.n);
    expect_near("y", y, 1.0 / 128);
    multiply(dx.x, l.n, l.in, l.out, dy, l.out, 1, w, l.in, 1);
    dx.poison();
    k->linear_backward(dx.act(), false, l.dy.act(), &l.device, l.n);
    expect_near("dx", dx, 1.0 / 128, largest(dx.x));
    dw.random(r, largest(dy) * largest(x));
    std::vector<double> before = dw.x;
    multiply(dw.x, l.out, l.in, l.n, dy, 1, l.out, x, l.in, 1);
    k->linear_weights(dw.real(), NULL, l.dy.act(), l.x.act(), &l.device, l.n);
    expect_near("dweight", dw, 1e-5, largest(dw.x));
}

static void layers_are_rounded_to_fp8(void **)
{
    static const char *const orders[] = {"fwd", "rev", "rand"};
    for (uint64_t i = 0; i < 3; i++)
        for (const struct shape &s : shapes) {
            emu_schedule(orders[i], i + 1);
            random_bits r(i + 5);
            layer l(s, r);
            const f32::kernels *k = kernels_cuda(f32::KERNEL_BF16);
            const double first[3] = {largest(l.x.x), largest(l.weight.x), largest(l.dy.x)};
            check_products(k, l, first, r); /* nothing is known: by its own numbers */
            k->fp8_step(l.state.real(), 1);
            l.draw(r, 3); /* and now by what was before, which is too small */
            check_products(k, l, first, r);
        }
}

static void states_remember_sixteen_steps(void **)
{
    const f32::kernels *k = kernels_cuda(f32::KERNEL_BF16);
    array states(false, 2 * 3 * ROW);
    for (size_t i = 0; i < states.x.size(); i++)
        states.x[i] = (double)i;
    states.push();
    k->fp8_step(states.real(), 2);
    for (size_t row = 6; row-- > 0;) {
        for (size_t i = ROW; i-- > 1;)
            states.x[row * ROW + i] = states.x[row * ROW + i - 1];
        states.x[row * ROW] = 0;
    }
    expect_near("states", states, 0);
    k->fp8_step(NULL, 0);
}

static void broken_numbers_are_seen(void **)
{
    random_bits r(3);
    layer l(shapes[1], r);
    const f32::kernels *k = kernels_cuda(f32::KERNEL_BF16);
    array y(true, l.n * l.out);
    l.x.x[5] = INFINITY;
    l.x.push();
    k->linear_forward(y.act(), NULL, l.x.act(), &l.device, l.n);
    assert_true(isnan(y.at(0)));
    assert_true(isfinite(y.at(l.out))); /* of another row */
    assert_true(l.state.at(0) <= 1 && l.state.at(0) > 0);
}

/* The scale would be Inf, and 0 times that NaN. */
static void tiny_numbers_have_a_scale(void **)
{
    random_bits r(6);
    layer l(shapes[1], r);
    const f32::kernels *k = kernels_cuda(f32::KERNEL_BF16);
    array y(true, l.n * l.out);
    l.x.random(r, 1e-37);
    l.x.x[7] = 0;
    l.x.push();
    for (size_t i = 0; i < y.x.size(); i++)
        y.x[i] = l.bias.x[i % l.out];
    y.poison();
    k->linear_forward(y.act(), NULL, l.x.act(), &l.device, l.n);
    expect_near("y", y, 1.0 / 128);
}

/* In bf16: what fp8 does not take. */
static void check_left_to_bf16(const struct shape &s, size_t skip)
{
    random_bits r(4);
    layer l(s, r);
    const f32::kernels *k = kernels_cuda(f32::KERNEL_BF16);
    array y(true, l.n * l.out, skip), dx(true, l.n * l.in, skip), dw(false, l.out * l.in, skip);
    for (size_t i = 0; i < y.x.size(); i++)
        y.x[i] = l.bias.x[i % l.out];
    multiply(y.x, l.n, l.out, l.in, l.x.x, l.in, 1, l.weight.x, 1, l.in);
    y.poison();
    k->linear_forward(y.act(), NULL, l.x.act(), &l.device, l.n);
    expect_near("y", y, 1.0 / 128);
    multiply(dx.x, l.n, l.in, l.out, l.dy.x, l.out, 1, l.weight.x, l.in, 1);
    dx.poison();
    k->linear_backward(dx.act(), false, l.dy.act(), &l.device, l.n);
    expect_near("dx", dx, 1.0 / 128, largest(dx.x));
    multiply(dw.x, l.out, l.in, l.n, l.dy.x, 1, l.out, l.x.x, l.in, 1);
    dw.put(std::vector<unsigned char>(dw.x.size() * sizeof(float), 0));
    k->linear_weights(dw.real(), NULL, l.dy.act(), l.x.act(), &l.device, l.n);
    expect_near("dweight", dw, 1e-5, largest(dw.x));
    for (int i = 0; i < 3; i++)
        assert_true(l.state.at((size_t)i * ROW) == 0);
}

static void odd_sizes_and_places_are_left_to_bf16(void **)
{
    const struct shape odd = {17, 24, 16};
    check_left_to_bf16(odd, 0);
    check_left_to_bf16(shapes[1], 1);
}

int main(void)
{
    setenv("EMU_CAPABILITY", "9.0", 0); /* the emulated device is to have fp8 */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_rounded_to_fp8), cmocka_unit_test(states_remember_sixteen_steps),
        cmocka_unit_test(broken_numbers_are_seen), cmocka_unit_test(tiny_numbers_have_a_scale),
        cmocka_unit_test(odd_sizes_and_places_are_left_to_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
