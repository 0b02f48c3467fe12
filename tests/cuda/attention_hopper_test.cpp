/* Attention on wgmma against the CPU's in double, and what it takes. */
#include "tests/cuda/attention_check.h"

typedef f32::act act;
typedef float real;
#include "kernels/cuda/attention.h"

static void each_order(const std::function<void(uint64_t seed)> &work)
{
    static const char *const orders[] = {"fwd", "rev", "rand"};
    if (!on_hopper())
        skip();
    for (uint64_t i = 0; i < 3; i++) {
        emu_schedule(orders[i], 1 + i);
        work(1 + i);
    }
}

/* Both passes: rows that are no multiple of a tile, one row, more queries than keys and fewer, several tiles for each warpgroup and block, grouped heads,
 * merged blocks, large logits. */
static void shapes_are_computed(void **state)
{
    (void)state;
    static const attention_shape shapes[] = {
        {1, 1, 1, 1, 1, 64, true, 0, 1, 0},         {1, 150, 300, 2, 1, 64, true, 0, 1, 8},
        {2, 130, 70, 2, 2, 64, true, 0, 1, 16},     {1, 65, 257, 1, 1, 128, false, 0, 3, 0},
        {1, 300, 300, 1, 1, 128, true, 0, 1, 0},    {1, 5, 129, 4, 2, 128, true, 0, 2, 8},
        {1, 70, 400, 1, 1, 64, false, 0, 1, 0, 30},
    };
    each_order([](uint64_t seed) {
        for (size_t i = seed - 1; i < sizeof shapes / sizeof shapes[0]; i += 3)
            attention_check(kernels_cuda(f32::KERNEL_BF16), true, shapes[i], seed);
    });
}

static void nan_stays_in_its_row(void **state)
{
    (void)state;
    each_order([](uint64_t seed) {
        random_bits r(seed);
        attention_data d({1, 70, 70, 1, 1, 64, true, 0, 1, 0}, true, r);
        d.q.x[33 * 64 + 5] = NAN;
        d.q.push();
        attention_check_forward(kernels_cuda(f32::KERNEL_BF16), d, 1);
    });
}

static void two_calls_have_the_same_bits(void **state)
{
    (void)state;
    if (!on_hopper())
        skip();
    random_bits r(7);
    attention_data d({2, 200, 200, 2, 1, 64, true, 0, 1, 0}, true, r);
    const f32::kernels *k = kernels_cuda(f32::KERNEL_BF16);
    f32::kernel_attention a = d.call(0, d.s.keys);
    std::vector<double> out[2], dq[2], dk[2];
    for (int i = 0; i < 2; i++) {
        emu_schedule(i ? "rand" : "fwd", 3);
        k->attention_whole(d.out.act(), d.lse.real(), d.q.act(), d.k.act(), d.v.act(), &a);
        k->attention_whole_backward(d.dq.act(), d.dk.act(), d.dv.act(), d.dout.act(), d.out.act(),
                                    d.lse.real(), d.q.act(), d.k.act(), d.v.act(), &a);
        cudaDeviceSynchronize();
        out[i] = d.out.pull();
        dq[i] = d.dq.pull();
        dk[i] = d.dk.pull();
    }
    assert_true(out[0] == out[1] && dq[0] == dq[1] && dk[0] == dk[1]);
}

/* A call that it takes in both directions. */
static struct attention simple_call(attention_data &d)
{
    struct attention a = {};
    a.half = a.causal = a.first = true;
    a.batch = a.heads = a.kv_heads = 1;
    a.queries = a.keys = 8;
    a.size = 64;
    a.q_stride = a.kv_stride = a.out_stride = 64;
    a.q_batch = a.kv_batch = a.out_batch = 8 * 64;
    a.lse_stride = 9;
    a.scale = 0.125f;
    a.q = d.q.act();
    a.k = d.k.act();
    a.v = d.v.act();
    a.out = d.out.act();
    a.lse = d.lse.real();
    a.dout = d.dout.act();
    a.kept_out = d.out.act();
    a.kept_lse = d.lse.real();
    a.dq = d.dq.act();
    a.dk = d.dk.act();
    a.dv = d.dv.act();
    return a;
}

static void only_what_it_can_is_taken(void **state)
{
    (void)state;
    if (!on_hopper())
        skip();
    random_bits r(1);
    attention_data d({1, 8, 8, 1, 1, 64, true, 0, 1, 0}, true, r);
    static void (*const others[])(struct attention *) = {
        [](struct attention *a) { a->half = false; },
        [](struct attention *a) { a->size = 80; },
        [](struct attention *a) { a->threshold = 1; },
        [](struct attention *a) { a->keys = 0; },
        [](struct attention *a) { a->queries = 0; },
        [](struct attention *a) { a->kv_stride = 65; },
        [](struct attention *a) { a->q = (const act *)((const char *)a->q + 2); },
    };
    struct attention a = simple_call(d);
    assert_true(attention_hopper_forward(&a));
    assert_true(attention_hopper_backward(&a));
    for (auto other : others) {
        a = simple_call(d);
        other(&a);
        assert_false(attention_hopper_forward(&a));
        assert_false(attention_hopper_backward(&a));
    }
    a = simple_call(d);
    a.out_stride = 65;
    assert_false(attention_hopper_forward(&a));
    assert_false(attention_hopper_backward(&a));
    a = simple_call(d);
    a.dv = (act *)((char *)a.dv + 2);
    assert_false(attention_hopper_backward(&a));
    cudaDeviceSynchronize();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_computed),
        cmocka_unit_test(nan_stays_in_its_row),
        cmocka_unit_test(two_calls_have_the_same_bits),
        cmocka_unit_test(only_what_it_can_is_taken),
    };
    setenv("EMU_CAPABILITY", "9.0", 1);
    setenv("BELAY_CUDA_ATTENTION", "wgmma", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
