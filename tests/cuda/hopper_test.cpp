/* The words of sm_90a, each alone, against what it is said to do: on the host under the emulator, which knows the PTX ISA's rules by its own code, and on a
 * GPU against the same numbers. */
#ifndef __CUDACC__
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "tests/cuda/check.h"

#include "kernels/cuda/hopper.cuh"

#define ROWS 64 /* of a tile here */
#define TILE (ROWS * SWIZZLE_ROW)

static void each_order(const std::function<void(uint64_t seed)> &work)
{
    static const char *const orders[] = {"fwd", "rev", "rand", "rand"};
    if (!on_hopper())
        skip();
    for (uint64_t i = 0; i < 4; i++) {
        emu_schedule(orders[i], 1 + i);
        work(1 + i);
    }
}

/* ---- mbarriers and barriers with a number ---- */

#define SLOTS 3

/* Warp 0 hands `count` numbers of each lane to warp 1 through SLOTS places, which adds them up. */
__global__ void hand_over(int *sums, int count)
{
    DYN_SHARED(unsigned char, room);
    uint64_t *full = (uint64_t *)room, *empty = full + SLOTS;
    int *slots = (int *)(empty + SLOTS), lane = (int)threadIdx.x % WARP, sum = 0;
    for (int i = 0; threadIdx.x == 0 && i < SLOTS; i++) {
        mbarrier_init(&full[i], WARP);
        mbarrier_init(&empty[i], WARP);
    }
    mbarrier_init_fence();
    __syncthreads();
    for (int n = 0; n < count; n++) {
        int slot = n % SLOTS, round = n / SLOTS & 1;
        if (threadIdx.x < WARP) {
            mbarrier_wait(&empty[slot], !round);
            slots[slot * WARP + lane] = n * lane;
            mbarrier_arrive(&full[slot]);
        } else {
            mbarrier_wait(&full[slot], round);
            sum += slots[slot * WARP + lane] * (n + 1);
            mbarrier_arrive(&empty[slot]);
        }
    }
    if (threadIdx.x >= WARP)
        sums[lane] = sum;
}

static void numbers_pass_through_mbarriers(void **state)
{
    (void)state;
    each_order([](uint64_t) {
        integers<int> sums(WARP);
        int count = 20, want = 0;
        sums.push();
        LAUNCH(hand_over, 1, 2 * WARP, 1024, (cudaStream_t)0, sums.device, count);
        cudaDeviceSynchronize();
        cudaMemcpy(sums.x.data(), sums.device, WARP * sizeof(int), cudaMemcpyDeviceToHost);
        for (int n = 0; n < count; n++)
            want += n * (n + 1);
        for (int i = 0; i < WARP; i++)
            assert_int_equal(sums.x[i], want * i);
    });
}

/* Two groups take turns: each goes on from what another thread of the other group has written. */
__global__ void take_turns(int *out, int turns)
{
    DYN_SHARED(int, shared);
    int group = threadIdx.x / WARPGROUP, at = threadIdx.x % WARPGROUP;
    int *mine = shared + group * WARPGROUP, *others = shared + (1 - group) * WARPGROUP;
    if (group == 1)
        mine[at] = 0;
    for (int i = 0; i < turns; i++) {
        if (group == 1)
            barrier_arrive(1, 2 * WARPGROUP);
        barrier_sync(1 + group, 2 * WARPGROUP);
        mine[at] = others[(at + 40) % WARPGROUP] * 3 + 1 + group;
        if (group == 0)
            barrier_arrive(2, 2 * WARPGROUP);
    }
    if (group == 1)
        out[at] = mine[at];
}

static void warpgroups_take_turns(void **state)
{
    (void)state;
    each_order([](uint64_t) {
        integers<int> out(WARPGROUP);
        int turns = 4, want = 0;
        out.push();
        LAUNCH(take_turns, 1, 2 * WARPGROUP, 1024, (cudaStream_t)0, out.device, turns);
        cudaDeviceSynchronize();
        cudaMemcpy(out.x.data(), out.device, WARPGROUP * sizeof(int), cudaMemcpyDeviceToHost);
        for (int i = 0; i < turns; i++)
            want = (want * 3 + 1) * 3 + 2;
        for (int i = 0; i < WARPGROUP; i++)
            assert_int_equal(out.x[i], want);
    });
}

/* ---- TMA ---- */

struct place {
    int at[4];
};

__global__ void load_box(const __grid_constant__ tensor_map map, struct place place, bf16 *out)
{
    DYN_SHARED(unsigned char, room);
    unsigned char *tile = tile_start(room);
    uint64_t *barrier = (uint64_t *)(tile + TILE);
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
        mbarrier_expect(barrier, TILE);
        tma_load(tile, &map, place.at[0], place.at[1], place.at[2], place.at[3], barrier);
    }
    __syncthreads();
    mbarrier_wait(barrier, 0);
    for (int i = threadIdx.x; i < TILE / 2; i += blockDim.x)
        out[i] = ((const bf16 *)tile)[i];
}

/* x: size[0..3], innermost first, rows of `stride` elements; box: 64 elements of ROWS rows along dimension `along` */
static void load_and_compare(random_bits &r, const size_t *size, size_t stride, const struct place &place)
{
    size_t rows = size[1] * size[2] * size[3];
    array x(true, rows * stride), out(true, TILE / 2);
    x.random(r, 1);
    uint64_t sizes[4] = {size[0], size[1], size[2], size[3]};
    uint64_t strides[3] = {stride * 2, stride * 2 * size[1], stride * 2 * size[1] * size[2]};
    uint32_t box[4] = {64, 2, ROWS / 2, 1};
    tensor_map map;
    assert_true(tensor_map_make(&map, x.device, sizes, strides, box));
    LAUNCH(load_box, 1, WARP, TILE + SWIZZLE_UNIT + 8, (cudaStream_t)0, map, place, (bf16 *)out.device);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 64; i++) {
            int at[4] = {place.at[0] + i, place.at[1] + row % 2, place.at[2] + row / 2, place.at[3]};
            bool inside = true;
            for (int d = 0; d < 4; d++)
                inside = inside && at[d] >= 0 && (size_t)at[d] < size[d];
            size_t from = (((size_t)at[3] * size[2] + (size_t)at[2]) * size[1] + (size_t)at[1]) * stride +
                          (size_t)at[0];
            out.x[(size_t)(row * 64 + ((i / 8) ^ (row % 8)) * 8 + i % 8)] = inside ? x.x[from] : 0;
        }
    expect_near("tile", out, 0);
}

static void a_box_is_loaded_and_swizzled(void **state)
{
    (void)state;
    each_order([](uint64_t seed) {
        random_bits r(seed);
        static const size_t sizes[][4] = {{64, 2, 32, 1}, {128, 3, 70, 2}, {40, 1, 5, 1}, {72, 5, 33, 3}};
        static const struct place places[] = {
            {{0, 0, 0, 0}}, {{64, 1, 20, 1}}, {{0, -1, -3, 0}}, {{-8, 4, 1, 2}}};
        for (size_t i = 0; i < 4; i++)
            load_and_compare(r, sizes[i], sizes[i][0] + 8 * i, places[i]);
    });
}

static void what_tma_cannot_load_is_refused(void **state)
{
    (void)state;
    if (!on_hopper())
        skip();
    array x(true, 4096);
    uint64_t size[4] = {64, 2, 2, 2}, stride[3] = {128, 256, 512};
    uint32_t box[4] = {64, 1, 2, 1};
    tensor_map map;
    assert_true(tensor_map_make(&map, x.device, size, stride, box));
    assert_false(tensor_map_make(&map, (char *)x.device + 2, size, stride, box));
    stride[1] = 258;
    assert_false(tensor_map_make(&map, x.device, size, stride, box));
    stride[1] = 256;
    size[2] = 0;
    assert_false(tensor_map_make(&map, x.device, size, stride, box));
}

__global__ void load_plain(const float *x, int count, float *out)
{
    DYN_SHARED(float, room);
    uint64_t *barrier = (uint64_t *)(room + count);
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
        mbarrier_expect(barrier, (uint32_t)count * 4);
        bulk_load(room, x, (uint32_t)count * 4, barrier);
    }
    __syncthreads();
    mbarrier_wait(barrier, 0);
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        out[i] = room[i];
}

static void plain_bytes_are_loaded(void **state)
{
    (void)state;
    each_order([](uint64_t seed) {
        random_bits r(seed);
        for (size_t count : {4, 52}) {
            array x(false, count), out(false, count);
            x.random(r, 1);
            LAUNCH(load_plain, 1, WARP, 1024, (cudaStream_t)0, (const float *)x.device, (int)count,
                   (float *)out.device);
            out.x = x.x;
            expect_near("out", out, 0);
        }
    });
}

/* ---- wgmma ---- */

#define DEPTH 64 /* of the sums: four products */

/* What a kernel does wrong, for the tests of the emulator. */
enum mistake {
    NONE,
    NO_FENCE,
    NO_WAIT,
    NO_COMMIT,
    EARLY_WRITE,
    EARLY_LOAD,
    NO_BARRIER,
    NOT_FENCED,
    UNALIGNED,
    NOT_ANNOUNCED,
    OTHER_TILE
};

/* A tile for each 64 columns of what has its columns along the tiles' rows; else rows of one tile after another. */
__device__ static void load_operand(unsigned char *to, const tensor_map *map, int n, bool columns,
                                    uint64_t *barrier)
{
    for (int i = 0; i < n / 64; i++)
        tma_load(to + i * TILE, map, columns ? i * 64 : 0, columns ? 0 : i * 64, 0, 0, barrier);
}

/* Row 16w+g (and +8) of a (64,DEPTH): the registers of product k. */
__device__ static void fragment(uint32_t (&out)[4], const bf16 *a, int k)
{
    int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane / 4;
    for (int i = 0; i < 4; i++) {
        const bf16 *x = a + (row + i % 2 * 8) * DEPTH + k * 16 + lane % 4 * 2 + i / 2 * 8;
        out[i] = pack_bf16(to_float(x[0]), to_float(x[1]));
    }
}

template <int N> __device__ static void write_out(float *out, const float (&d)[N / 2])
{
    int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane / 4;
    for (int i = 0; i < N / 2; i++)
        out[(row + i / 2 % 2 * 8) * N + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

/* out[0] (64,N) = a b, with products that start from 0; out[1] = out[0]'s products again on top of `start` */
template <int N, bool COLUMNS, bool REGISTERS, int MISTAKE>
__global__ void __launch_bounds__(WARPGROUP, 1)
    products(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b, const bf16 *rows,
             float *out, float start)
{
    DYN_SHARED(unsigned char, room);
    unsigned char *at = tile_start(room) + (MISTAKE == UNALIGNED ? 128 : 0), *bt = at + TILE;
    uint64_t *barrier = (uint64_t *)(bt + N / 64 * TILE);
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        if (MISTAKE != NOT_FENCED)
            mbarrier_init_fence();
        mbarrier_expect(barrier, (1 + N / 64) * TILE - (MISTAKE == NOT_ANNOUNCED ? 2 : 0));
        load_operand(at, &a, 64, false, barrier);
        load_operand(bt, &b, N, COLUMNS, barrier);
    }
    __syncthreads();
    if (MISTAKE != NO_BARRIER)
        mbarrier_wait(barrier, 0);
    float d[N / 2], e[N / 2];
    uint32_t ar[DEPTH / 16][4];
    for (int i = 0; i < N / 2; i++)
        d[i] = NAN, e[i] = start;
    for (int k = 0; REGISTERS && k < DEPTH / 16; k++)
        fragment(ar[k], rows, k);
    uint32_t from = shared_address(at), with = shared_address(bt) + (MISTAKE == OTHER_TILE ? 4 * TILE : 0);
    settle(d);
    settle(e);
    settle(ar);
    if (MISTAKE != NO_FENCE)
        wgmma_fence();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        uint64_t bd = COLUMNS ? wgmma_columns(with + k * 2 * SWIZZLE_UNIT, TILE) : wgmma_rows(with + k * 32);
        if (REGISTERS)
            wgmma<COLUMNS>(d, ar[k], bd, k > 0);
        else
            wgmma<COLUMNS>(d, wgmma_rows(from + k * 32), bd, k > 0);
    }
    wgmma_commit();
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        uint64_t bd = COLUMNS ? wgmma_columns(with + k * 2 * SWIZZLE_UNIT, TILE) : wgmma_rows(with + k * 32);
        if (REGISTERS)
            wgmma<COLUMNS>(e, ar[k], bd, true);
        else
            wgmma<COLUMNS>(e, wgmma_rows(from + k * 32), bd, true);
    }
    if (MISTAKE != NO_COMMIT)
        wgmma_commit();
    if (MISTAKE == EARLY_WRITE)
        e[3] = 0;
    wgmma_wait<1>();
    settle(d);
    write_out<N>(out, d);
    if (MISTAKE == EARLY_LOAD && threadIdx.x == WARPGROUP - 1) { /* under "fwd" the first behind the wait */
        mbarrier_expect(barrier, N / 64 * TILE);
        load_operand(bt, &b, N, COLUMNS, barrier);
    }
    if (MISTAKE != NO_WAIT)
        wgmma_wait<0>();
    settle(e);
    write_out<N>(out + 64 * N, e);
    if (MISTAKE == EARLY_LOAD)
        mbarrier_wait(barrier, 1);
}

/* The operands of one test: a (64,DEPTH) in rows; b by rows of the tile (N,DEPTH), or by columns (DEPTH,N). */
struct operands {
    array a, b, out;
    tensor_map am, bm;
    size_t n;
    bool columns;
    operands(random_bits &r, size_t count, bool by_columns)
        : a(true, 64 * DEPTH), b(true, count * DEPTH), out(false, 2 * 64 * count), n(count),
          columns(by_columns)
    {
        a.random(r, 1);
        b.random(r, 1);
        uint64_t a_size[4] = {DEPTH, 64, 1, 1}, b_size[4] = {columns ? n : DEPTH, columns ? DEPTH : n, 1, 1};
        uint64_t a_stride[3] = {DEPTH * 2, 16, 16}, b_stride[3] = {b_size[0] * 2, 16, 16};
        uint32_t box[4] = {64, ROWS, 1, 1};
        assert_true(tensor_map_make(&am, a.device, a_size, a_stride, box));
        assert_true(tensor_map_make(&bm, b.device, b_size, b_stride, box));
    }
    void expect(double start)
    {
        for (size_t i = 0; i < 64; i++)
            for (size_t j = 0; j < n; j++) {
                double sum = 0;
                for (size_t k = 0; k < DEPTH; k++)
                    sum += a.x[i * DEPTH + k] * b.x[columns ? k * n + j : j * DEPTH + k];
                out.x[i * n + j] = sum;
                out.x[(64 + i) * n + j] = sum + start;
            }
        expect_near("d", out, 1e-5);
    }
};

template <int N, bool COLUMNS, bool REGISTERS, int MISTAKE> static void launch_products(operands &x)
{
    auto kernel = products<N, COLUMNS, REGISTERS, MISTAKE>;
    size_t shared = (1 + N / 64) * TILE + SWIZZLE_UNIT + 256;
    x.out.poison();
    LAUNCH(kernel, 1, WARPGROUP, shared, (cudaStream_t)0, x.am, x.bm, (const bf16 *)x.a.device,
           (float *)x.out.device, 7.0f);
}

template <int N, bool COLUMNS, bool REGISTERS> static void multiply_and_compare(random_bits &r)
{
    operands x(r, N, COLUMNS);
    launch_products<N, COLUMNS, REGISTERS, NONE>(x);
    x.expect(7);
}

static void products_are_products(void **state)
{
    (void)state;
    each_order([](uint64_t seed) {
        random_bits r(seed);
        multiply_and_compare<64, false, false>(r);
        multiply_and_compare<128, false, false>(r);
        multiply_and_compare<64, true, false>(r);
        multiply_and_compare<128, true, false>(r);
        multiply_and_compare<64, false, true>(r);
        multiply_and_compare<128, false, true>(r);
        multiply_and_compare<64, true, true>(r);
        multiply_and_compare<128, true, true>(r);
    });
}

/* ---- what the emulator finds ---- */

#ifndef __CUDACC__
/* Runs work in a process of its own; what it wrote to stderr. */
static std::string complaint(const std::function<void()> &work)
{
    int ends[2], status;
    char text[4096];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        work();
        _exit(0);
    }
    close(ends[1]);
    std::string all;
    for (ssize_t n; (n = read(ends[0], text, sizeof text)) > 0;)
        all.append(text, (size_t)n);
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 99 ? all : "(no complaint) " + all;
}

template <int MISTAKE> static void expect_complaint(const char *order, const char *words)
{
    std::string text = complaint([&] {
        random_bits r(5);
        operands x(r, 128, true);
        emu_schedule(order, 1);
        launch_products<128, true, true, MISTAKE>(x);
    });
    if (text.find(words) == std::string::npos)
        fail_msg("mistake %d in order %s: \"%s\" is not in: %s", MISTAKE, order, words, text.c_str());
}

static void a_tile_that_is_loaded_too_early_is_found(void **state)
{
    (void)state;
    random_bits r(5);
    operands x(r, 128, true);
    emu_schedule("fwd", 1);
    launch_products<128, true, true, EARLY_LOAD>(x);
    assert_false(isnan(x.out.at(0)));
    assert_true(isnan(x.out.at(64 * 128)));
}

static void mistakes_are_found(void **state)
{
    (void)state;
    expect_complaint<NO_FENCE>("fwd", "without wgmma_fence");
    expect_complaint<NO_WAIT>("fwd", "with a wgmma under way");
    expect_complaint<NO_COMMIT>("fwd", "with a wgmma under way");
    expect_complaint<EARLY_WRITE>("fwd", "written while it was under way");
    expect_complaint<NOT_FENCED>("rev", "without mbarrier_init_fence");
    expect_complaint<UNALIGNED>("rev", "not aligned to 1024");
    expect_complaint<NOT_ANNOUNCED>("fwd", "deadlock");
    expect_complaint<NOT_ANNOUNCED>("fwd", "mbarrier_wait");
    expect_complaint<OTHER_TILE>("fwd", "outside of shared memory");
    expect_complaint<NO_BARRIER>("fwd", "load by TMA under way");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_pass_through_mbarriers),
        cmocka_unit_test(warpgroups_take_turns),
        cmocka_unit_test(a_box_is_loaded_and_swizzled),
        cmocka_unit_test(plain_bytes_are_loaded),
        cmocka_unit_test(what_tma_cannot_load_is_refused),
        cmocka_unit_test(products_are_products),
#ifndef __CUDACC__
        cmocka_unit_test(mistakes_are_found),
        cmocka_unit_test(a_tile_that_is_loaded_too_early_is_found),
#endif
    };
    setenv("EMU_CAPABILITY", "9.0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
