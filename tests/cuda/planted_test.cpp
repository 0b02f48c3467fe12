/* Does the emulator find what is wrong? Each kernel here has a mistake that can be switched on. Without it all orders of threads and streams give what is
 * expected; with it at least one has to end the process, or give something else, and the message has to name the kernel. */
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/device.cuh"
#include "tests/cuda/check.h"
#include "tests/emu/queue.h"

#define N 128 /* threads of a block, and elements of an array */

/* ---- kernels ---- */

/* Each turns N elements around through shared memory. */
static __global__ void missing_barrier(float *out, const float *in, bool broken)
{
    SHARED(float, x, N);
    int t = (int)threadIdx.x;
    x[t] = in[t];
    if (!broken)
        __syncthreads();
    out[t] = x[N - 1 - t];
}

/* The buffer is written again while others still read what was there. */
static __global__ void write_after_read(float *out, const float *in, bool broken)
{
    SHARED(float, x, N);
    int t = (int)threadIdx.x;
    float sum = 0;
    for (int round = 0; round < 2; round++) {
        x[t] = in[t] + (float)round;
        __syncthreads();
        sum += x[N - 1 - t] - (float)round;
        if (!broken)
            __syncthreads();
    }
    out[t] = sum / 2;
}

/* Lanes of one warp run on their own, too. */
static __global__ void missing_syncwarp(float *out, const float *in, bool broken)
{
    SHARED(float, x, N);
    int t = (int)threadIdx.x;
    x[t] = in[N - 1 - (t ^ 1)];
    if (!broken)
        __syncwarp();
    out[t] = x[t ^ 1];
}

static __global__ void dynamic_shared_beyond_its_end(float *out, const float *in, bool broken)
{
    DYN_SHARED(float, x);
    int t = (int)threadIdx.x;
    x[N - 1 - t + (broken && t == 0)] = in[t];
    __syncthreads();
    out[t] = x[t];
}

static __global__ void fixed_shared_beyond_its_end(float *out, const float *in, bool broken)
{
    SHARED(float, x, N);
    int t = (int)threadIdx.x;
    x[N - 1 - t] = in[t];
    __syncthreads();
    out[t] = x[t + (broken && t == N - 1)];
}

static __global__ void shared_never_written(float *out, const float *in, bool broken)
{
    SHARED(float, x, N + 1);
    int t = (int)threadIdx.x;
    x[t] = in[t];
    if (t == 0 && !broken)
        x[N] = 0;
    __syncthreads();
    out[t] = x[N - 1 - t] + x[N];
}

static __global__ void output_not_written(float *out, const float *in, bool broken)
{
    int t = (int)threadIdx.x;
    if (t < N - (int)broken)
        out[t] = in[N - 1 - t];
}

static __global__ void global_beyond_its_end(float *out, const float *in, bool broken)
{
    int t = (int)threadIdx.x;
    out[t] = in[N - 1 - t + (broken && t == 0)];
}

static __global__ void wide_load_not_aligned(float *out, const float *in, bool broken)
{
    int t = (int)threadIdx.x, from = N - 4 - t / 4 * 4 - (broken && t == 4);
    pack<float> four = *(const pack<float> *)(in + from);
    out[t] = four.x[3 - t % 4];
}

/* In place: each element is read by another thread than the one that writes it. */
static __global__ void race_in_global_memory(float *out, const float *in, bool broken)
{
    int t = (int)threadIdx.x;
    out[t] = in[t];
    __syncthreads();
    float x = out[N - 1 - t];
    if (!broken)
        __syncthreads();
    out[t] = x;
}

/* What one block writes another may not read. */
static __global__ void race_between_blocks(float *out, const float *in, bool broken)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    out[i] = in[N - 1 - i];
    if (broken)
        out[i] += 0 * out[(i + (int)blockDim.x) % N];
}

static __global__ void barrier_in_a_branch(float *out, const float *in, bool broken)
{
    int t = (int)threadIdx.x;
    out[t] = in[N - 1 - t];
    if (!broken || t < 40)
        __syncthreads();
    else
        __syncthreads();
}

static __global__ void barrier_not_for_all(float *out, const float *in, bool broken)
{
    int t = (int)threadIdx.x;
    out[t] = in[N - 1 - t];
    if (!broken || t < 40)
        __syncthreads();
    __syncwarp();
    __syncthreads();
}

static __global__ void shuffle_in_a_branch(float *out, const float *in, bool broken)
{
    int t = (int)threadIdx.x;
    float x = in[N - 1 - (t ^ 1)];
    if (!broken || t % 32 < 16)
        x = __shfl_xor_sync(ALL_LANES, x, 1);
    out[t] = x;
}

static __global__ void shuffle_from_a_lane_that_has_gone(float *out, const float *in, bool broken)
{
    int t = (int)threadIdx.x;
    out[t] = in[N - 1 - t];
    if (broken && t % 32 == 31)
        return;
    float x = __shfl_sync(broken ? 0x7fffffffu : ALL_LANES, out[t], broken ? 31 : t % 32);
    out[t] = x;
}

/* Two groups of copies; the second has to be there, too. */
static __global__ void copy_not_waited_for(float *out, const float *in, bool broken)
{
    DYN_SHARED(float, x);
    int t = (int)threadIdx.x;
    for (int half = 0; half < 2; half++) {
        if (t < N / 8)
            cp_async16(x + half * N / 2 + t * 4, in + half * N / 2 + t * 4);
        cp_async_commit();
    }
    if (broken)
        cp_async_wait<1>();
    else
        cp_async_wait<0>();
    __syncthreads();
    out[t] = x[N - 1 - t];
    cp_async_wait<0>();
}

static __global__ void copy_seen_without_a_barrier(float *out, const float *in, bool broken)
{
    DYN_SHARED(float, x);
    int t = (int)threadIdx.x;
    if (t < N / 4)
        cp_async16(x + t * 4, in + t * 4);
    cp_async_commit();
    cp_async_wait<0>();
    if (!broken)
        __syncthreads();
    out[t] = x[N - 1 - t];
}

static __global__ void turn_around(float *out, const float *in)
{
    out[threadIdx.x] = in[N - 1 - threadIdx.x];
}

/* ---- running them ---- */

struct buffers {
    float *in, *out;
    float *pinned; /* of the host */
};

static cudaStream_t new_stream()
{
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    return s;
}

/* One stream writes what another reads. */
static void missing_event(const buffers &b, bool broken)
{
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t done;
    float *between;
    cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    cudaMalloc((void **)&between, N * sizeof *between);
    LAUNCH(turn_around, 1, N, 0, first, between, b.in);
    cudaEventRecord(done, first);
    if (!broken)
        cudaStreamWaitEvent(second, done, 0);
    cudaMemcpyAsync(b.out, between, N * sizeof *between, cudaMemcpyDeviceToDevice, second);
    cudaStreamSynchronize(second);
    cudaFree(between);
    cudaEventDestroy(done);
}

/* A buffer of the host is filled again before its copy has run. */
static void pinned_buffer_reused(const buffers &b, bool broken)
{
    cudaStream_t s = new_stream();
    cudaMemcpyAsync(b.pinned, b.in, N * sizeof *b.in, cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    cudaMemcpyAsync(b.in, b.pinned, N * sizeof *b.in, cudaMemcpyHostToDevice, s);
    LAUNCH(turn_around, 1, N, 0, s, b.out, b.in);
    if (!broken)
        cudaStreamSynchronize(s);
    memset(b.pinned, 0, N * sizeof *b.pinned);
    cudaStreamSynchronize(s);
}

/* The host reads before the device has written. */
static void result_read_too_early(const buffers &b, bool broken)
{
    cudaStream_t s = new_stream();
    LAUNCH(turn_around, 1, N, 0, s, b.out, b.in);
    cudaMemcpyAsync(b.pinned, b.out, N * sizeof *b.out, cudaMemcpyDeviceToHost, s);
    if (!broken)
        cudaStreamSynchronize(s);
    float last = b.pinned[N - 1];
    cudaStreamSynchronize(s);
    cudaMemcpy(b.out + N - 1, &last, sizeof last, cudaMemcpyHostToDevice);
}

/* dyn: bytes of DYN_SHARED */
#define BLOCKS(kernel, count, dyn)                                                                           \
    {                                                                                                        \
#kernel, [](const buffers &b,                                                                        \
                    bool broken) { LAUNCH(kernel, count, N / count, dyn, 0, b.out, b.in, broken); }          \
    }
#define BLOCK(kernel) BLOCKS(kernel, 1, 0)
#define BYTES         (N * sizeof(float))
static const struct {
    const char *name;
    void (*work)(const buffers &, bool broken);
} mistakes[] = {
    BLOCK(missing_barrier),
    BLOCK(write_after_read),
    BLOCK(missing_syncwarp),
    BLOCKS(dynamic_shared_beyond_its_end, 1, BYTES),
    BLOCK(fixed_shared_beyond_its_end),
    BLOCK(shared_never_written),
    BLOCK(output_not_written),
    BLOCK(global_beyond_its_end),
    BLOCK(wide_load_not_aligned),
    BLOCK(race_in_global_memory),
    BLOCKS(race_between_blocks, 4, 0),
    BLOCK(barrier_in_a_branch),
    BLOCK(barrier_not_for_all),
    BLOCK(shuffle_in_a_branch),
    BLOCK(shuffle_from_a_lane_that_has_gone),
    BLOCKS(copy_not_waited_for, 1, BYTES),
    BLOCKS(copy_seen_without_a_barrier, 1, BYTES),
    {"missing_event", missing_event},
    {"pinned_buffer_reused", pinned_buffer_reused},
    {"result_read_too_early", result_read_too_early},
};
#define MISTAKES (sizeof mistakes / sizeof mistakes[0])

static const struct order {
    const char *threads, *streams;
    uint64_t seed;
} orders[] = {{"fwd", "eager", 1}, {"rev", "lazy", 1}, {"rand", "lazy", 2}, {"rand", "lazy", 3}};
#define ORDERS (sizeof orders / sizeof orders[0])

/* 0 when the elements have been turned around. */
static int work(size_t number, bool broken, const order &o)
{
    buffers b;
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + 1);
    emu_schedule(o.threads, o.seed);
    emu_streams(o.streams, o.seed);
    cudaMalloc((void **)&b.in, sizeof x);
    cudaMalloc((void **)&b.out, sizeof x);
    cudaMallocHost((void **)&b.pinned, sizeof x);
    cudaMemcpy(b.in, x, sizeof x, cudaMemcpyHostToDevice);
    mistakes[number].work(b, broken);
    cudaMemcpy(x, b.out, sizeof x, cudaMemcpyDeviceToHost);
    cudaFree(b.in);
    cudaFree(b.out);
    cudaFreeHost(b.pinned);
    for (int i = 0; i < N; i++)
        if (x[i] != (float)(N - i)) {
            fprintf(stderr, "kernel %s: out[%d] is %g, not %d\n", mistakes[number].name, i, (double)x[i],
                    N - i);
            return 1;
        }
    return 0;
}

/* Makes one mistake in one order in a process of its own; what that says goes to *said. */
static int run_again(size_t number, size_t order, std::string *said)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        std::string which = std::to_string(number), how = std::to_string(order);
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        setenv("ASAN_OPTIONS", "log_path=stderr:detect_leaks=0:abort_on_error=0:exitcode=1", 1);
        setenv("UBSAN_OPTIONS", "log_path=stderr:print_stacktrace=1", 1);
        execl("/proc/self/exe", "planted", which.c_str(), how.c_str(), (char *)NULL);
        _exit(2);
    }
    close(ends[1]);
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        said->append(buffer, (size_t)n);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void sound_kernels_pass(void **)
{
    for (size_t i = 0; i < MISTAKES; i++)
        for (const order &o : orders)
            if (work(i, false, o) != 0)
                fail_msg("%s, which is sound, fails (%s, %s)", mistakes[i].name, o.threads, o.streams);
}

static void mistakes_are_found(void **)
{
    for (size_t i = 0; i < MISTAKES; i++) {
        std::string found, said;
        for (size_t o = 0; o < ORDERS && found.empty(); o++, said.clear())
            if (run_again(i, o, &said) != 0)
                found = said;
        if (found.empty())
            fail_msg("%s is not found", mistakes[i].name);
        if (found.find(mistakes[i].name) == std::string::npos)
            fail_msg("%s is found, but not named: %s", mistakes[i].name, found.c_str());
    }
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return work((size_t)atoi(argv[1]), true, orders[atoi(argv[2])]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_kernels_pass),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
