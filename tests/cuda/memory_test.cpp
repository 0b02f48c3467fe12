/* The device, its memory, and copies: opening, what errors say, the arena, pinned buffers, rows. On a GPU (nvcc compiles this) without what needs a device
 * of a known size, steps of a stream that the test chooses, or a process that is forked from one that uses the GPU. */
#include "kernels/cuda/device.h"
#include "tests/cuda/check.h"
#include "tests/cuda/process.h"
#include "tests/emu/queue.h"

#define MIB ((size_t)1 << 20)

static const f32::kernels *table(void)
{
    return kernels_cuda(f32::KERNEL_FP32);
}

/* ---- sentences: each of a process of its own, because it ends there ---- */

static void open_as(int number, int rank)
{
    struct err err = {{0}};
    if (device_open(number, rank, &err) != 0) {
        fprintf(stderr, "refused: %s\n", err.text);
        _exit(2);
    }
}

#ifndef __CUDACC__
static void opening_says_why_not(void **)
{
    expect_said(in_a_process([] {
                    setenv("EMU_DEVICES", "0", 1);
                    open_as(0, 0);
                }),
                2, "refused: no NVIDIA GPU is visible here");
    expect_said(in_a_process([] { open_as(1, 0); }), 2, "there is no GPU 1: this process sees 1");
    expect_said(in_a_process([] {
                    setenv("EMU_CAPABILITY", "7.5", 1);
                    open_as(0, 0);
                }),
                2, "GPU 0 \\(.*\\) has compute capability 7.5; Belay needs 8.0");
    expect_said(in_a_process([] {
                    open_as(0, 0);
                    open_as(0, 0);
                }),
                2, "this process has one already");
}
#endif

static void errors_say_who_what_and_what_to_do(void **)
{
    expect_said(
        in_a_process([] {
            open_as(0, 3);
            device_doing("the backward pass of layer %lld", 3, 120);
            device_check(cudaErrorIllegalAddress, "cudaStreamSynchronize(stream)");
        }),
        1,
        "rank 3: cudaStreamSynchronize failed: an illegal memory access was encountered, while computing "
        "the backward pass of layer 3 in step 120; run once more with CUDA_LAUNCH_BLOCKING=1");
    expect_said(in_a_process([] {
                    open_as(0, 0);
                    device_fail("ncclSend", "unhandled system error");
                }),
                1, "rank 0: ncclSend failed: unhandled system error\n");
}

#ifndef __CUDACC__
static void watcher(bool late)
{
    if (late)
        fprintf(stderr, "the watcher saw it\n");
}

static void waiting_has_an_end(void **)
{
    ended e = in_a_process([] {
        setenv("BELAY_COMM_TIMEOUT", "0.1", 1);
        open_as(0, 1);
        device_watch(watcher);
        emu::enqueue(device_stream(), [] { return false; });
        device_wait(device_stream());
    });
    expect_said(e, 1, "the watcher saw it\n.*rank 1: waiting for the GPU failed: .*BELAY_COMM_TIMEOUT");
}

static void nonsense_is_no_limit(void **)
{
    static const char *const texts[] = {"abc", "0", "-3", "5 minutes", "nan"};
    for (const char *text : texts) {
        ended e = in_a_process([text] {
            setenv("BELAY_COMM_TIMEOUT", text, 1);
            _exit(device_patience_s() == 600 ? 7 : 8);
        });
        expect_said(e, 7, "BELAY_COMM_TIMEOUT is .*: waiting ends after 600 s\n");
    }
    expect_said(in_a_process([] {
                    setenv("BELAY_COMM_TIMEOUT", "90", 1);
                    _exit(device_patience_s() == 90 ? 7 : 8);
                }),
                7, "^$");
}

/* An answer "not ready" is no error of the launch that comes next. */
static void waiting_leaves_no_error(void **)
{
    int asked = 0;
    emu::enqueue(device_stream(), [&asked] { return ++asked > 20; });
    device_wait(device_stream());
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
}

/* ---- arena ---- */

struct taken {
    char *at;
    size_t bytes;
};

static void take_one(std::vector<taken> &all, size_t bytes)
{
    char *at = (char *)arena_take(bytes);
    assert_non_null(at);
    assert_int_equal((uintptr_t)at % 256, 0);
    for (const taken &t : all)
        assert_true(at + bytes <= t.at || t.at + t.bytes <= at);
    all.push_back({at, bytes});
}

static void give_one(std::vector<taken> &all, size_t i)
{
    arena_give(all[i].at);
    all[i] = all.back();
    all.pop_back();
}

static size_t device_free(void)
{
    size_t unused, whole;
    assert_int_equal(cudaMemGetInfo(&unused, &whole), cudaSuccess);
    return unused;
}

/* The same takes and gives, in an order from the seed. */
static void churn(uint64_t seed)
{
    random_bits r(seed);
    std::vector<taken> all;
    for (int i = 0; i < 600; i++) {
        if (all.size() > 40 || (!all.empty() && r.below(3) == 0))
            give_one(all, r.below(all.size()));
        else
            take_one(all, r.below(4) == 0 ? r.below(6 * MIB) : r.below(3000));
    }
    while (!all.empty())
        give_one(all, all.size() - 1);
}

static void blocks_are_apart_and_used_again(void **)
{
    struct f32::kernel_memory before, after;
    table()->memory(&before);
    churn(1);
    size_t left = device_free();
    churn(1);
    assert_int_equal(device_free(), left);
    table()->memory(&after);
    assert_int_equal(after.held, before.held);
    assert_true(after.peak > before.peak);
    assert_int_equal(after.device, (size_t)2 << 30);
}

static void neighbours_join(void **)
{
    char *block[8];
    for (char *&b : block)
        b = (char *)arena_take(2 * MIB);
    char *first = block[0];
    size_t left = device_free();
    for (int i : {1, 3, 0, 2, 6, 4, 5, 7})
        arena_give(block[i]);
    char *whole = (char *)arena_take(16 * MIB);
    assert_ptr_equal(whole, first);
    assert_int_equal(device_free(), left);
    arena_give(whole);
}

static void what_is_short_is_said(void **)
{
    ended e = in_a_process([] {
        setenv("EMU_MEMORY", "67108864", 1);
        open_as(0, 2);
        void *half = arena_take(33 * MIB);
        if (arena_take(40 * MIB))
            _exit(3);
        arena_give(half);
        if (!arena_take(40 * MIB)) /* a piece of another size was given back for it */
            _exit(4);
    });
    expect_said(e, 0, "rank 2: the GPU has no 0.039 GiB left: of its 0.06 GiB 0.03 GiB are free.*belay plan");
}

/* A small block does not go where a large one was, unless nothing else is left. */
static void sizes_have_their_places(void **)
{
    char *large = (char *)arena_take(100 * MIB);
    arena_give(large);
    char *small = (char *)arena_take(3 * MIB);
    assert_true(small < large || small >= large + 100 * MIB);
    assert_ptr_equal(arena_take(100 * MIB), large);
    arena_give(large);
    arena_give(small);
    ended e = in_a_process([] {
        setenv("EMU_MEMORY", "67108864", 1);
        void *all[2] = {arena_take(30 * MIB), arena_take(30 * MIB)}, *last = arena_take(4 * MIB);
        arena_give(all[0]);
        if (!last || !arena_take(5 * MIB) || !arena_take(20 * MIB))
            _exit(3);
    });
    expect_said(e, 0, "^$");
}

#endif

static void scratch_is_kept_and_grows(void **)
{
    char *small = (char *)arena_scratch(SCRATCH_SUMS, 1000);
    assert_ptr_equal(arena_scratch(SCRATCH_SUMS, 100), small);
    assert_ptr_not_equal(arena_scratch(SCRATCH_SORT, 1000), small);
    assert_non_null(arena_scratch(SCRATCH_SUMS, 40 * MIB));
    assert_int_equal(cudaMemset(arena_scratch(SCRATCH_SUMS, 40 * MIB), 0, 40 * MIB), cudaSuccess);
}

static void pinned_memory_is_used_again(void **)
{
    void *a = pinned_take(5000), *b = pinned_take(5000);
    assert_ptr_not_equal(a, b);
    pinned_give(a);
    assert_ptr_equal(pinned_take(6000), a);
    pinned_give(a);
    pinned_give(b);
}

/* ---- copies ---- */

static std::vector<unsigned char> random_bytes(random_bits &r, size_t n)
{
    std::vector<unsigned char> x(n);
    for (unsigned char &v : x)
        v = (unsigned char)r.bits();
    return x;
}

static void alloc_is_zero(void **)
{
    for (size_t n : {(size_t)0, (size_t)1, (size_t)1000, 5 * MIB}) {
        unsigned char *x = (unsigned char *)table()->alloc(n);
        std::vector<unsigned char> got(n, 1), none(n, 0);
        assert_non_null(x);
        table()->to_host(got.data(), x, n);
        assert_true(got == none);
        table()->free(x);
    }
    table()->free(NULL);
}

/* There and back, in both orders of streams; what was given is overwritten at once. */
static void copies_may_be_given_anything(void **)
{
    random_bits r(5);
    for (const char *streams : {"eager", "lazy"}) {
        emu_streams(streams, 3);
        for (size_t n : {(size_t)0, (size_t)1, (size_t)7, (size_t)65536, (size_t)65537, 21 * MIB + 13}) {
            char *x = (char *)table()->alloc(n + 1);
            std::vector<unsigned char> want = random_bytes(r, n), sent = want, got(n);
            table()->from_host(x + 1, sent.data(), n);
            std::fill(sent.begin(), sent.end(), 0xee);
            table()->to_host(got.data(), x + 1, n);
            assert_true(got == want);
            table()->free(x);
        }
    }
    emu_streams("eager", 1);
}

/* More small copies than there are buffers, while nothing runs. */
static void many_copies_wait_for_their_buffers(void **)
{
    emu_streams("lazy", 4);
    int *x = (int *)table()->alloc(500 * sizeof *x), got[500];
    for (int i = 0; i < 500; i++)
        table()->from_host(x + i, &i, sizeof i);
    table()->to_host(got, x, sizeof got);
    for (int i = 0; i < 500; i++)
        assert_int_equal(got[i], i);
    table()->free(x);
    emu_streams("eager", 1);
}

static void rows_are_copied(void **)
{
    in_all_orders([](const f32::kernels *k, bool, uint64_t seed) {
        random_bits r(seed);
        for (int i = 0; i < 25; i++) {
            static const size_t units[] = {1, 2, 4, 8, 16};
            size_t unit = units[r.below(5)], rows = r.below(40),
                   bytes = unit * r.below(i % 5 == 0 ? 5000 : 200);
            size_t to_stride = bytes + unit * r.below(5), from_stride = bytes + unit * r.below(5);
            integers<unsigned char> to(rows * to_stride + unit), from(rows * from_stride + unit);
            to.x = random_bytes(r, to.x.size());
            from.x = random_bytes(r, from.x.size());
            to.push();
            from.push();
            k->copy_rows(to.device + unit, to_stride, from.device + unit, from_stride,
                         rows > 0 ? rows - 1 : 0, bytes);
            for (size_t row = 0; row + 1 < rows; row++)
                memcpy(&to.x[unit + row * to_stride], &from.x[unit + row * from_stride], bytes);
            std::vector<unsigned char> got(to.x.size());
            k->to_host(got.data(), to.device, got.size());
            assert_true(got == to.x);
        }
    });
}

int main(void)
{
    arena_exact(false);
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_say_who_what_and_what_to_do),
#ifndef __CUDACC__
                                       cmocka_unit_test(opening_says_why_not),
                                       cmocka_unit_test(waiting_has_an_end),
                                       cmocka_unit_test(nonsense_is_no_limit),
                                       cmocka_unit_test(what_is_short_is_said),
                                       cmocka_unit_test(waiting_leaves_no_error),
                                       cmocka_unit_test(blocks_are_apart_and_used_again),
                                       cmocka_unit_test(neighbours_join),
                                       cmocka_unit_test(sizes_have_their_places),
#endif
                                       cmocka_unit_test(scratch_is_kept_and_grows),
                                       cmocka_unit_test(pinned_memory_is_used_again),
                                       cmocka_unit_test(alloc_is_zero),
                                       cmocka_unit_test(copies_may_be_given_anything),
                                       cmocka_unit_test(many_copies_wait_for_their_buffers),
                                       cmocka_unit_test(rows_are_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
