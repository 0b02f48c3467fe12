/* The CUDA kernels that move tokens to experts and back against the CPU's in double. */
#include "tests/cuda/check.h"

struct shape {
    size_t n, k, c, rows; /* rows >= n * k */
};
static const struct shape shapes[] = {{1, 1, 1, 1},   {5, 2, 8, 12},    {19, 2, 40, 50}, {7, 9, 33, 63},
                                      {6, 4, 64, 24}, {3, 5, 1032, 20}, {2, 2, 2056, 4}, {0, 2, 8, 1},
                                      {3, 2, 0, 6},   {1, 1, 9000, 2}};

/* Numbers of rows below `rows`, none twice; every fourth is -1. */
static void make_slots(integers<int32_t> &slots, random_bits &r, size_t rows)
{
    std::vector<int32_t> free(rows);
    for (size_t i = 0; i < rows; i++)
        free[i] = (int32_t)i;
    for (int32_t &slot : slots.x) {
        size_t at = r.below(free.size());
        slot = r.below(4) == 0 ? -1 : free[at];
        free.erase(free.begin() + (long)at);
    }
    if (!slots.x.empty())
        slots.push();
}

static void check_gather(const f32::kernels *k, bool half, random_bits &r, const struct shape &s)
{
    array x(half, s.rows * s.c), out(half, s.n * s.c);
    integers<int32_t> index(s.n);
    make_slots(index, r, s.rows);
    x.random(r, 1);
    k->rows_gather(out.act(), x.act(), index.device, s.n, s.c);
    reference()->rows_gather(out.ref_act(), x.ref_act(), index.x.data(), s.n, s.c);
    expect_near("gathered", out, 0);
}

static void check_combine(const f32::kernels *k, bool half, random_bits &r, const struct shape &s)
{
    array rows(half, s.rows * s.c), out(half, s.n * s.c), weights(false, s.n * s.k);
    integers<int32_t> slots(s.n * s.k);
    make_slots(slots, r, s.rows);
    rows.random(r, 1);
    weights.random(r, 1);
    for (int how = 0; how < 4; how++) { /* weighted or not, added to what is there or not */
        out.poison();
        if (how & 1)
            out.random(r, 1);
        k->rows_combine(out.act(), how & 1, rows.act(), slots.device, how & 2 ? weights.real() : NULL, s.n,
                        s.k, s.c);
        reference()->rows_combine(out.ref_act(), how & 1, rows.ref_act(), slots.x.data(),
                                  how & 2 ? weights.ref() : NULL, s.n, s.k, s.c);
        expect_near("combined", out, half ? 1.0 / 256 : 2e-6);
    }
}

static void check_combine_backward(const f32::kernels *k, bool half, random_bits &r, const struct shape &s)
{
    array rows(half, s.rows * s.c), drows(half, s.rows * s.c), dout(half, s.n * s.c);
    array weights(false, s.n * s.k), dweights(false, s.n * s.k);
    integers<int32_t> slots(s.n * s.k);
    make_slots(slots, r, s.rows);
    dout.random(r, 1);
    weights.random(r, 1);
    for (int how = 0; how < 8; how++) { /* weighted, weights' gradient, in place */
        rows.random(r, 1);
        drows.random(r, 1); /* rows without a slot stay */
        dweights.poison();
        array &to = how & 4 ? rows : drows;
        k->rows_combine_backward(to.act(), how & 2 ? dweights.real() : NULL, dout.act(), rows.act(),
                                 slots.device, how & 1 ? weights.real() : NULL, s.n, s.k, s.c);
        reference()->rows_combine_backward(to.ref_act(), how & 2 ? dweights.ref() : NULL, dout.ref_act(),
                                           rows.ref_act(), slots.x.data(), how & 1 ? weights.ref() : NULL,
                                           s.n, s.k, s.c);
        expect_near("drows", to, half ? 1.0 / 256 : 2e-6);
        if (how & 2 && s.c > 0)
            expect_near("dweights", dweights, 2e-6, 4);
    }
}

static void rows_go_and_come_back(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (const struct shape &s : shapes) {
            check_gather(k, half, r, s);
            check_combine(k, half, r, s);
            check_combine_backward(k, half, r, s);
        }
    });
}

/* Rows that do not begin at multiples of 16 bytes, though their length is one */
static void rows_may_be_out_of_line(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        const size_t n = 3, c = 16;
        random_bits r(seed);
        array x(half, n * c + 1), out(half, n * c);
        integers<int32_t> index(n);
        index.x = {2, -1, 0};
        index.push();
        x.random(r, 1);
        k->rows_gather(out.act(), (f32::act *)(void *)((char *)x.device + x.element()), index.device, n, c);
        reference()->rows_gather(out.ref_act(), (f64::act *)(void *)(x.x.data() + 1), index.x.data(), n, c);
        expect_near("gathered", out, 0);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_go_and_come_back),
                                       cmocka_unit_test(rows_may_be_out_of_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
