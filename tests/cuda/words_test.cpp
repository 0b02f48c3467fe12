/* The words of kernels/cuda/device.cuh one by one, against their definitions in the PTX ISA and the CUDA C++ programming guide. Nothing here knows of the
 * emulator: on a GPU the same has to hold. */
#include "kernels/cuda/device.cuh"
#include "tests/cuda/check.h"

/* Numbers on the device that start as the host's, and come back. */
template <class T> struct numbers {
    std::vector<T> x;
    T *device;
    explicit numbers(size_t n) : x(n)
    {
        assert_int_equal(cudaMalloc((void **)&device, n * sizeof(T)), cudaSuccess);
    }
    numbers(const numbers &) = delete;
    numbers &operator=(const numbers &) = delete;
    ~numbers()
    {
        cudaFree(device);
    }
    void push()
    {
        assert_int_equal(cudaMemcpy(device, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice),
                         cudaSuccess);
    }
    void pull()
    {
        assert_int_equal(cudaMemcpy(x.data(), device, x.size() * sizeof(T), cudaMemcpyDeviceToHost),
                         cudaSuccess);
    }
};

static void in_orders(const std::function<void(uint64_t)> &work)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        emu_schedule(seed == 1 ? "fwd" : seed == 2 ? "rev" : "rand", seed);
        work(seed);
    }
}

static bf16 small_number(random_bits &r)
{
    return __float2bfloat16_rn((float)r.below(17) - 8);
}

/* ---- mma and ldmatrix ---- */

/* PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": element i of a lane's fragment. */
static int a_row(int lane, int i)
{
    return i < 2 || (i >= 4 && i < 6) ? lane >> 2 : (lane >> 2) + 8;
}
static int a_column(int lane, int i)
{
    return lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8);
}
static int b_row(int lane, int i)
{
    return lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8);
}
static int b_column(int lane)
{
    return lane >> 2;
}
static int c_row(int lane, int i)
{
    return i < 2 ? lane >> 2 : (lane >> 2) + 8;
}
static int c_column(int lane, int i)
{
    return lane % 4 * 2 + (i & 1);
}

static __global__ void multiply_fragments(float *d, const uint32_t *a, const uint32_t *b)
{
    int lane = (int)threadIdx.x;
    mma_bf16(d + lane * 4, a + lane * 4, b + lane * 2);
}

static void mma_is_as_the_isa_says(void **)
{
    in_orders([](uint64_t seed) {
        random_bits r(seed);
        bf16 a[16][16], b[16][8];
        float c[16][8];
        for (auto &row : a)
            for (bf16 &x : row)
                x = small_number(r);
        for (auto &row : b)
            for (bf16 &x : row)
                x = small_number(r);
        for (auto &row : c)
            for (float &x : row)
                x = (float)r.below(100);
        numbers<bf16> a_fragments(32 * 8), b_fragments(32 * 4);
        numbers<float> d(32 * 4);
        for (int lane = 0; lane < 32; lane++) {
            for (int i = 0; i < 8; i++)
                a_fragments.x[(size_t)(lane * 8 + i)] = a[a_row(lane, i)][a_column(lane, i)];
            for (int i = 0; i < 4; i++)
                b_fragments.x[(size_t)(lane * 4 + i)] = b[b_row(lane, i)][b_column(lane)];
            for (int i = 0; i < 4; i++)
                d.x[(size_t)(lane * 4 + i)] = c[c_row(lane, i)][c_column(lane, i)];
        }
        a_fragments.push(), b_fragments.push(), d.push();
        LAUNCH(multiply_fragments, 1, 32, 0, 0, d.device, (const uint32_t *)(const void *)a_fragments.device,
               (const uint32_t *)(const void *)b_fragments.device);
        d.pull();
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) {
                int row = c_row(lane, i), column = c_column(lane, i);
                float sum = c[row][column];
                for (int k = 0; k < 16; k++)
                    sum += __bfloat162float(a[row][k]) * __bfloat162float(b[k][column]);
                assert_true(d.x[(size_t)(lane * 4 + i)] == sum);
            }
    });
}

static __global__ void load_matrices(uint32_t *plain, uint32_t *turned, const bf16 *from)
{
    DYN_SHARED(bf16, x); /* four 8x8 matrices, rows 24 elements apart */
    int lane = (int)threadIdx.x;
    for (int i = 0; i < 8; i++)
        x[lane * 24 + i] = from[lane * 8 + i];
    __syncwarp();
    ldmatrix_x4(plain + lane * 4, x + lane * 24);
    ldmatrix_x4_trans(turned + lane * 4, x + lane * 24);
}

static void ldmatrix_is_as_the_isa_says(void **)
{
    in_orders([](uint64_t seed) {
        random_bits r(seed);
        numbers<bf16> from(256), plain(256), turned(256);
        for (bf16 &x : from.x)
            x = __float2bfloat16_rn((float)r.number());
        from.push();
        LAUNCH(load_matrices, 1, 32, 32 * 24 * sizeof(bf16), 0, (uint32_t *)(void *)plain.device,
               (uint32_t *)(void *)turned.device, from.device);
        plain.pull(), turned.pull();
        for (size_t lane = 0; lane < 32; lane++)
            for (size_t matrix = 0; matrix < 4; matrix++)
                for (size_t i = 0; i < 2; i++) {
                    size_t row = lane / 4, column = lane % 4 * 2 + i, at = (lane * 4 + matrix) * 2 + i;
                    bf16 want = from.x[matrix * 64 + row * 8 + column];
                    bf16 want_turned = from.x[matrix * 64 + column * 8 + row];
                    assert_memory_equal(&plain.x[at], &want, sizeof want);
                    assert_memory_equal(&turned.x[at], &want_turned, sizeof want);
                }
    });
}

/* ---- words of a warp and of a block ---- */

static __global__ void use_warp(int *out)
{
    int lane = (int)threadIdx.x % 32, *mine = out + threadIdx.x * 8;
    mine[0] = __shfl_sync(ALL_LANES, lane * 10, lane + 5);
    mine[1] = __shfl_xor_sync(ALL_LANES, lane, 9);
    mine[2] = __shfl_up_sync(ALL_LANES, lane, 3);
    mine[3] = __shfl_down_sync(ALL_LANES, lane, 3);
    mine[4] = __shfl_xor_sync(ALL_LANES, lane, 1, 8) + __shfl_sync(ALL_LANES, lane * 100, 2, 8);
    mine[5] = (int)__ballot_sync(ALL_LANES, lane % 3 == 0);
    mine[6] = __any_sync(ALL_LANES, lane == 7) + 2 * __all_sync(ALL_LANES, lane < 31);
    mine[7] = lane < 8 ? __shfl_xor_sync(0xffu, lane, 1) : -1;
}

static void warps_exchange(void **)
{
    in_orders([](uint64_t) {
        numbers<int> out(96 * 8);
        LAUNCH(use_warp, 1, 96, 0, 0, out.device);
        out.pull();
        for (int t = 0; t < 96; t++) {
            const int lane = t % 32, *got = &out.x[(size_t)t * 8];
            const int want[] = {(lane + 5) % 32 * 10,
                                lane ^ 9,
                                lane < 3 ? lane : lane - 3,
                                lane + 3 < 32 ? lane + 3 : lane,
                                (lane ^ 1) + (lane / 8 * 8 + 2) * 100,
                                (int)0x49249249,
                                1,
                                lane < 8 ? lane ^ 1 : -1};
            assert_memory_equal(got, want, sizeof want);
        }
    });
}

static __global__ void use_block(int *out, float *sums, unsigned long long *total)
{
    SHARED(float, room, 32);
    SHARED(double, wide_room, 32);
    int t = (int)threadIdx.x;
    out[t * 3] = __syncthreads_count(t % 5 == 0);
    out[t * 3 + 1] = __syncthreads_and(t >= 0) + 2 * __syncthreads_and(t != 3);
    out[t * 3 + 2] = __syncthreads_or(t == 77) + 2 * __syncthreads_or(t == 99);
    sums[t * 3] = block_sum((float)t, room);
    sums[t * 3 + 1] = block_max((float)(t * 37 % 96), room);
    sums[t * 3 + 2] = (float)block_sum(t * 0.5, wide_room);
    atomicAdd(total, (unsigned long long)t);
}

static void blocks_count_and_sum(void **)
{
    in_orders([](uint64_t) {
        numbers<int> out(96 * 3);
        numbers<float> sums(96 * 3);
        numbers<unsigned long long> total(1);
        total.x[0] = 5;
        total.push();
        LAUNCH(use_block, 2, 96, 0, 0, out.device, sums.device, total.device);
        out.pull(), sums.pull(), total.pull();
        for (size_t t = 0; t < 96; t++) {
            static const int want[] = {20, 1, 1};
            static const float want_sums[] = {95 * 48, 95, 95 * 24};
            assert_memory_equal(&out.x[t * 3], want, sizeof want);
            assert_memory_equal(&sums.x[t * 3], want_sums, sizeof want_sums);
        }
        assert_true(total.x[0] == 5 + 2 * 95 * 48);
    });
}

/* ---- copies ---- */

static __global__ void copy_16(float *out, const float *from, bool valid)
{
    DYN_SHARED(float, x);
    int t = (int)threadIdx.x;
    cp_async16(x + t * 4, valid ? from + t * 4 : NULL, valid);
    cp_async_commit();
    cp_async_wait<0>();
    for (int i = 0; i < 4; i++)
        out[t * 4 + i] = x[t * 4 + i];
}

static void copies_arrive_or_are_zeros(void **)
{
    in_orders([](uint64_t) {
        numbers<float> from(128), out(128);
        for (size_t i = 0; i < 128; i++)
            from.x[i] = (float)i;
        from.push();
        for (bool valid : {true, false}) {
            LAUNCH(copy_16, 1, 32, 128 * sizeof(float), 0, out.device, from.device, valid);
            out.pull();
            for (size_t i = 0; i < 128; i++)
                assert_true(out.x[i] == (valid ? (float)i : 0));
        }
    });
}

static __global__ void powers(float *out, const float *x)
{
    out[threadIdx.x] = exp2_fast(x[threadIdx.x]);
}

static void powers_of_two(void **)
{
    numbers<float> x(6), out(6);
    x.x = {0, 1, -3, 0.5f, -INFINITY, NAN};
    x.push();
    LAUNCH(powers, 1, 6, 0, 0, out.device, x.device);
    out.pull();
    static const float want[] = {1, 2, 0.125f, 1.41421356f, 0};
    for (size_t i = 0; i < 5; i++)
        assert_true(fabsf(out.x[i] - want[i]) <= 3e-7f * want[i]);
    assert_true(isnan(out.x[5]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mma_is_as_the_isa_says),
        cmocka_unit_test(ldmatrix_is_as_the_isa_says),
        cmocka_unit_test(warps_exchange),
        cmocka_unit_test(blocks_count_and_sum),
        cmocka_unit_test(copies_arrive_or_are_zeros),
        cmocka_unit_test(powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
