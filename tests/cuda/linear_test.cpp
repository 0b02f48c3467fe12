/* Linear layers against the CPU's in double: by cuBLASLt's epilogues, and by what takes their place where it has none. */
#include "kernels/cuda/device.h"
#include "tests/cuda/check.h"

/* A layer, its input and output; on the device they begin `at` elements behind an aligned address. */
struct layer {
    size_t n, at;
    bool bias;
    array weight, b, x, y;
    f32::kernel_linear device;
    f64::kernel_linear ref;

    template <class A> static A *moved(A *x, size_t bytes)
    {
        return (A *)((char *)x + bytes);
    }
    layer(random_bits &r, bool half, size_t rows, size_t in, size_t out, size_t offset)
        : n(rows), at(offset), bias(r.below(3) > 0), weight(half, at + out * in), b(half, at + out),
          x(half, at + rows * in), y(half, at + rows * out)
    {
        weight.random(r, 1 / sqrt((double)in + 1));
        b.random(r, 1);
        x.random(r, 1);
        y.random(r, 1);
        device = {on(weight), bias ? on(b) : NULL, in, out, NULL};
        ref = {in_ref(weight), bias ? in_ref(b) : NULL, in, out, NULL};
    }
    f32::act *on(array &a)
    {
        return moved(a.act(), at * a.element());
    }
    f64::act *in_ref(array &a)
    {
        return moved(a.ref_act(), at * sizeof(double));
    }
    /* Outputs, before they are written. */
    void clear(array &a)
    {
        for (double &v : a.x)
            v = NAN;
        a.poison();
    }
};

struct sizes {
    size_t n, in, out, at;
};
/* wide ones, odd ones, one row, nothing, and an odd address */
static const sizes all_sizes[] = {{16, 32, 64, 0}, {33, 24, 40, 0}, {7, 13, 9, 0},
                                  {1, 64, 8, 0},   {5, 1, 1, 0},    {0, 8, 8, 0},
                                  {4, 8, 0, 0},    {12, 16, 24, 1}, {3, 0, 8, 0}};

template <class Work> static void over_all_sizes(Work work)
{
    in_all_orders([&](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (const sizes &s : all_sizes) {
            layer l(r, half, s.n, s.in, s.out, s.at);
            work(k, l, r);
        }
    });
}

static void forward(void **)
{
    over_all_sizes([](const f32::kernels *k, layer &l, random_bits &) {
        l.clear(l.y);
        k->linear_forward(l.on(l.y), NULL, l.on(l.x), &l.device, l.n);
        reference()->linear_forward(l.in_ref(l.y), NULL, l.in_ref(l.x), &l.ref, l.n);
        expect_near("y", l.y, rounding(l.y.half));
    });
}

static void forward_onto_another_and_itself(void **)
{
    over_all_sizes([](const f32::kernels *k, layer &l, random_bits &r) {
        array onto(l.y.half, l.y.x.size());
        onto.random(r, 1);
        k->linear_forward(l.on(l.y), l.on(l.y), l.on(l.x), &l.device, l.n);
        reference()->linear_forward(l.in_ref(l.y), l.in_ref(l.y), l.in_ref(l.x), &l.ref, l.n);
        expect_near("y onto itself", l.y, rounding(l.y.half));
        l.clear(l.y);
        k->linear_forward(l.on(l.y), l.on(onto), l.on(l.x), &l.device, l.n);
        reference()->linear_forward(l.in_ref(l.y), l.in_ref(onto), l.in_ref(l.x), &l.ref, l.n);
        expect_near("y onto another", l.y, rounding(l.y.half));
    });
}

static void gelu_forward(void **)
{
    over_all_sizes([](const f32::kernels *k, layer &l, random_bits &) {
        array before(l.y.half, l.y.x.size());
        l.clear(l.y);
        l.clear(before);
        k->linear_gelu_forward(l.on(l.y), l.on(before), l.on(l.x), &l.device, l.n);
        reference()->linear_gelu_forward(l.in_ref(l.y), l.in_ref(before), l.in_ref(l.x), &l.ref, l.n);
        expect_near("before", before, rounding(before.half));
        expect_near("y", l.y, rounding(l.y.half));
    });
}

static void backward(void **)
{
    over_all_sizes([](const f32::kernels *k, layer &l, random_bits &r) {
        k->linear_backward(l.on(l.x), true, l.on(l.y), &l.device, l.n);
        reference()->linear_backward(l.in_ref(l.x), true, l.in_ref(l.y), &l.ref, l.n);
        expect_near("dx, added", l.x, rounding(l.x.half));
        l.y.random(r, 1);
        l.clear(l.x);
        k->linear_backward(l.on(l.x), false, l.on(l.y), &l.device, l.n);
        reference()->linear_backward(l.in_ref(l.x), false, l.in_ref(l.y), &l.ref, l.n);
        expect_near("dx", l.x, rounding(l.x.half));
    });
}

static void gelu_backward(void **)
{
    over_all_sizes([](const f32::kernels *k, layer &l, random_bits &r) {
        array before(l.x.half, l.x.x.size());
        before.random(r, 2);
        l.clear(l.x);
        k->linear_gelu_backward(l.on(l.x), l.on(l.y), l.on(before), &l.device, l.n);
        reference()->linear_gelu_backward(l.in_ref(l.x), l.in_ref(l.y), l.in_ref(before), &l.ref, l.n);
        expect_near("dbefore", l.x, rounding(l.x.half));
    });
}

static void weights(void **)
{
    over_all_sizes([](const f32::kernels *k, layer &l, random_bits &r) {
        array dweight(false, l.ref.in * l.ref.out), dbias(false, l.ref.out);
        dweight.random(r, 1);
        dbias.random(r, 1);
        k->linear_weights(dweight.real(), l.bias ? dbias.real() : NULL, l.on(l.y), l.on(l.x), &l.device, l.n);
        reference()->linear_weights(dweight.ref(), l.bias ? dbias.ref() : NULL, l.in_ref(l.y), l.in_ref(l.x),
                                    &l.ref, l.n);
        expect_near("dweight", dweight, 1e-5);
        expect_near("dbias", dbias, 1e-5);
    });
}

/* The same tests while cuBLASLt refuses everything but plain products. */
template <void (*test)(void **)> static void without_epilogues(void **state)
{
    gemm_close();
    setenv("EMU_EPILOGUES", "none", 1);
    test(state);
    gemm_close();
    unsetenv("EMU_EPILOGUES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward),
                                       cmocka_unit_test(forward_onto_another_and_itself),
                                       cmocka_unit_test(gelu_forward),
                                       cmocka_unit_test(backward),
                                       cmocka_unit_test(gelu_backward),
                                       cmocka_unit_test(weights),
                                       cmocka_unit_test(without_epilogues<forward>),
                                       cmocka_unit_test(without_epilogues<forward_onto_another_and_itself>),
                                       cmocka_unit_test(without_epilogues<gelu_forward>),
                                       cmocka_unit_test(without_epilogues<gelu_backward>)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
