/* Work that is repeated: done, recorded, and enqueued at once; and what cannot be part of it. */
#include "kernels/cuda/device.h"
#include "tests/cuda/check.h"
#include "tests/cuda/process.h"
#include "tests/emu/queue.h"

static const f32::kernels *table(void)
{
    return kernels_cuda(f32::KERNEL_FP32);
}

/* A product and a copy: y = x w, z = y. */
struct layer {
    array x, w, y, z;
    int calls;

    explicit layer(uint64_t seed) : x(false, 64), w(false, 64), y(false, 64), z(false, 64), calls(0)
    {
        random_bits r(seed);
        x.random(r, 1);
        w.random(r, 1);
    }
    void enqueue()
    {
        f32::kernel_matrix a = {x.act(), 8, false}, b = {w.act(), 8, false};
        calls++;
        table()->gemm(8, 8, 8, a, b, false, y.act(), 8);
        table()->copy_rows(z.device, 32, y.device, 32, 8, 32);
    }
    void clear()
    {
        y.poison();
        z.poison();
    }
    void expect()
    {
        f64::kernel_matrix a = {x.ref_act(), 8, false}, b = {w.ref_act(), 8, false};
        table()->sync();
        reference()->gemm_real(8, 8, 8, a, b, false, z.ref(), 8);
        expect_near("z", z, 1e-5);
    }
};

static void enqueue_layer(void *owner)
{
    ((layer *)owner)->enqueue();
}

/* Once done, once recorded, then neither; with what lies there at the time. */
static void later_times_are_one_launch(void **)
{
    for (const char *streams : {"eager", "lazy"}) {
        emu_streams(streams, 7);
        layer a(1), b(2);
        for (int i = 0; i < 5; i++) {
            random_bits r((uint64_t)i + 10);
            a.clear();
            b.clear();
            a.x.random(r, 1);
            table()->repeat(11, enqueue_layer, &a);
            table()->repeat(12, enqueue_layer, &b);
            a.expect();
            b.expect();
        }
        assert_int_equal(a.calls, 2);
        assert_int_equal(b.calls, 2);
        table()->forget();
        a.clear();
        table()->repeat(11, enqueue_layer, &a);
        a.expect();
        assert_int_equal(a.calls, 3);
        table()->forget();
    }
    emu_streams("eager", 1);
}

/* A graph is one place in the stream: what is enqueued before and after it stays there. */
static void repeats_keep_their_place(void **)
{
    emu_streams("lazy", 5);
    layer a(3);
    for (int i = 0; i < 4; i++) {
        random_bits r((uint64_t)i);
        a.clear();
        std::vector<float> x(64);
        for (size_t j = 0; j < 64; j++)
            a.x.x[j] = x[j] = (float)r.number();
        table()->from_host(a.x.device, x.data(), 64 * sizeof x[0]);
        table()->repeat(4, enqueue_layer, &a);
        table()->zero(a.y.device, 64 * sizeof(float)); /* after z was copied from it */
        a.expect();
    }
    table()->forget();
    emu_streams("eager", 1);
}

static void repeat_inside(void *owner)
{
    table()->repeat(22, enqueue_layer, owner);
}

static void a_repeat_within_another_is_part_of_it(void **)
{
    layer a(4);
    for (int i = 0; i < 4; i++) {
        a.clear();
        table()->repeat(21, repeat_inside, &a);
        a.expect();
    }
    assert_int_equal(a.calls, 2);
    table()->forget();
}

/* Scratch that a graph names is not used for anything else when it grows. */
static void use_scratch(void *)
{
    table()->zero(arena_scratch(SCRATCH_SUMS, 3000), 3000);
}

static void scratch_that_is_named_stays(void **)
{
    for (int i = 0; i < 2; i++)
        table()->repeat(31, use_scratch, NULL);
    char *named = (char *)arena_scratch(SCRATCH_SUMS, 3000),
         *large = (char *)arena_scratch(SCRATCH_SUMS, 9 << 20);
    assert_ptr_not_equal(named, large);
    char *other = (char *)arena_take(3000);
    assert_ptr_not_equal(named, other);
    table()->repeat(31, use_scratch, NULL);
    arena_give(other);
    table()->forget();
}

/* ---- what cannot be repeated ---- */

static char *memory;
static void copies_in(void *)
{
    table()->from_host(memory, "x", 1);
}
static void copies_out(void *)
{
    char x;
    table()->to_host(&x, memory, 1);
}
static void takes(void *)
{
    table()->free(table()->alloc(100));
}
static void waits(void *)
{
    table()->sync();
}

static void what_cannot_be_repeated_is_said(void **)
{
    static const struct {
        void (*work)(void *);
        const char *said;
    } all[] = {{copies_in, "a copy from the host failed"},
               {copies_out, "a copy to the host failed"},
               {takes, "taking memory of the GPU failed"},
               {waits, "waiting for the GPU failed"}};
    for (const auto &one : all) {
        ended e = in_a_process([&one] {
            memory = (char *)table()->alloc(1);
            for (int i = 0; i < 2; i++)
                table()->repeat(77, one.work, NULL);
        });
        expect_said(e, 1, one.said);
        expect_said(e, 1, "cannot be part of what is repeated \\(number 77\\)");
    }
}

static void graphs_can_be_turned_off(void **)
{
    ended e = in_a_process([] {
        setenv("BELAY_CUDA_GRAPHS", "0", 1);
        layer a(1);
        for (int i = 0; i < 5; i++)
            table()->repeat(1, enqueue_layer, &a);
        _exit(a.calls);
    });
    assert_int_equal(e.code, 5);
}

int main(void)
{
    arena_exact(false);
    const struct CMUnitTest tests[] = {cmocka_unit_test(graphs_can_be_turned_off),
                                       cmocka_unit_test(what_cannot_be_repeated_is_said),
                                       cmocka_unit_test(later_times_are_one_launch),
                                       cmocka_unit_test(repeats_keep_their_place),
                                       cmocka_unit_test(a_repeat_within_another_is_part_of_it),
                                       cmocka_unit_test(scratch_that_is_named_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
