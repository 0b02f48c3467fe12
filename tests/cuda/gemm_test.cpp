/* Matrix products against the CPU's in double. */
#include "kernels/cuda/device.h"
#include "tests/cuda/check.h"

/* A matrix that lies somewhere in an array: rows apart, at an odd place. */
struct place {
    size_t rows, columns, stride, offset;
    size_t elements() const
    {
        return offset + (rows > 0 ? (rows - 1) * stride + columns : 0);
    }
    bool has(size_t i) const
    {
        return i >= offset && (i - offset) % stride < columns;
    }
};

static place random_place(random_bits &r, size_t rows, size_t columns)
{
    place p = {rows, columns, columns + r.below(3) * r.below(9) + (columns == 0), r.below(2) * r.below(9)};
    return p;
}

/* What lies between the rows is NaN: it must neither be read nor written. */
static void only_rows(array &a, const place &p)
{
    for (size_t i = 0; i < a.x.size(); i++)
        if (!p.has(i))
            a.x[i] = NAN;
    a.push();
}

template <class M, class A> static M matrix(A *data, const place &p, bool transposed)
{
    M m = {data + p.offset, p.stride, transposed};
    return m;
}

struct shape {
    size_t m, n, k;
};

/* One product of one type, placed and transposed at random. */
struct product_case {
    bool half, real;
    shape s;
    bool transposed[2], accumulate;
    place pa, pb, pc;
    array a, b, c;

    product_case(random_bits &r, bool is_half, bool is_real, shape size)
        : half(is_half), real(is_real), s(size), transposed{r.below(2) == 0, r.below(2) == 0},
          accumulate(r.below(2) == 0),
          pa(transposed[0] ? random_place(r, s.k, s.m) : random_place(r, s.m, s.k)),
          pb(transposed[1] ? random_place(r, s.n, s.k) : random_place(r, s.k, s.n)),
          pc(random_place(r, s.m, s.n)), a(half, pa.elements()), b(half, pb.elements()),
          c(half && !real, pc.elements())
    {
        a.random(r, 1);
        b.random(r, 1);
        c.random(r, 1);
        only_rows(a, pa);
        only_rows(b, pb);
        if (!accumulate)
            for (double &x : c.x)
                x = NAN;
        only_rows(c, pc);
    }

    void run(const f32::kernels *k)
    {
        f32::kernel_matrix ma = {(f32::act *)((char *)a.device + pa.offset * a.element()), pa.stride,
                                 transposed[0]},
                           mb = {(f32::act *)((char *)b.device + pb.offset * b.element()), pb.stride,
                                 transposed[1]};
        void *to = (char *)c.device + pc.offset * c.element();
        if (real)
            k->gemm_real(s.m, s.n, s.k, ma, mb, accumulate, (float *)to, pc.stride);
        else
            k->gemm(s.m, s.n, s.k, ma, mb, accumulate, (f32::act *)to, pc.stride);
    }
    void check()
    {
        f64::kernel_matrix ma = {(f64::act *)(a.x.data() + pa.offset), pa.stride, transposed[0]},
                           mb = {(f64::act *)(b.x.data() + pb.offset), pb.stride, transposed[1]};
        reference()->gemm_real(s.m, s.n, s.k, ma, mb, accumulate, c.x.data() + pc.offset, pc.stride);
        expect_near("c", c, c.half ? rounding(true) : 1e-5);
    }
};

static shape random_shape(random_bits &r)
{
    static const size_t round[] = {8, 16, 64, 128};
    if (r.below(2) == 0)
        return {round[r.below(4)], round[r.below(4)], round[r.below(4)]};
    return {1 + r.below(70), 1 + r.below(70), 1 + r.below(90)};
}

static void some_products(const f32::kernels *k, bool half, uint64_t seed)
{
    static const shape edges[] = {{1, 1, 1}, {0, 5, 5}, {5, 0, 5}, {5, 5, 0}, {1, 64, 200}, {64, 1, 33}};
    random_bits r(seed);
    for (int i = 0; i < 30; i++) {
        product_case p(r, half, r.below(2) == 0, i < 6 ? edges[i] : random_shape(r));
        p.run(k);
        p.check();
    }
}

static void products_are_right_wherever_they_lie(void **)
{
    in_all_orders(some_products);
}

static void so_are_those_of_our_own_kernel(void **)
{
    gemm_by_tiles(true);
    in_all_orders(some_products);
    gemm_by_tiles(false);
}

/* A plan is kept: the second time takes another way through the code, and gives the same bits. */
static void the_same_twice_has_the_same_bits(void **)
{
    for (int half = 0; half < 2; half++)
        for (uint64_t seed = 1; seed < 4; seed++) {
            random_bits r(seed), again(seed);
            product_case p(r, half, true, {40, 24, 64}), q(again, half, true, {40, 24, 64});
            p.run(kernels_cuda(half ? f32::KERNEL_BF16 : f32::KERNEL_FP32));
            q.run(kernels_cuda(half ? f32::KERNEL_BF16 : f32::KERNEL_FP32));
            std::vector<double> first = p.c.pull(), second = q.c.pull();
            assert_memory_equal(first.data(), second.data(), first.size() * sizeof first[0]);
        }
}

/* The same sizes and strides again, each operand in turn at an odd address: an algorithm for aligned ones does not do. */
static void a_plan_is_for_its_alignment(void **)
{
    const size_t d = 16;
    random_bits r(3);
    for (int odd = 0; odd < 4; odd++) {
        array a(true, d * d + 1), b(true, d * d + 1), c(true, d * d + 1);
        size_t at[] = {odd == 1, odd == 2, odd == 3};
        a.random(r, 1);
        b.random(r, 1);
        c.random(r, 1);
        f32::kernel_matrix ma = {(f32::act *)((char *)a.device + 2 * at[0]), d, false},
                           mb = {(f32::act *)((char *)b.device + 2 * at[1]), d, false};
        f64::kernel_matrix ra = {(f64::act *)(a.x.data() + at[0]), d, false},
                           rb = {(f64::act *)(b.x.data() + at[1]), d, false};
        kernels_cuda(f32::KERNEL_BF16)
            ->gemm(d, d, d, ma, mb, false, (f32::act *)((char *)c.device + 2 * at[2]), d);
        reference()->gemm_real(d, d, d, ra, rb, false, c.x.data() + at[2], d);
        expect_near("c", c, rounding(true));
    }
}

static void nan_and_infinity_reach_the_result(void **)
{
    for (int half = 0; half < 2; half++) {
        random_bits r(7);
        product_case p(r, half, true, {9, 8, 16});
        p.a.x[p.pa.offset] = NAN;
        p.b.x[p.pb.offset] = INFINITY;
        p.a.push();
        p.b.push();
        p.run(kernels_cuda(half ? f32::KERNEL_BF16 : f32::KERNEL_FP32));
        p.check();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right_wherever_they_lie),
        cmocka_unit_test(so_are_those_of_our_own_kernel), cmocka_unit_test(the_same_twice_has_the_same_bits),
        cmocka_unit_test(a_plan_is_for_its_alignment), cmocka_unit_test(nan_and_infinity_reach_the_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
