/* The emulator's streams, events, copies and devices (tests/emu): what the tests of the backend rely on. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/device.cuh"
#include "tests/cuda/check.h"
#include "tests/emu/queue.h"

static __global__ void add_one(int *x)
{
    if (threadIdx.x == 0)
        ++*x;
}
static __global__ void times_ten(int *x)
{
    if (threadIdx.x == 0)
        *x *= 10;
}

static cudaStream_t new_stream()
{
    cudaStream_t s;
    assert_int_equal(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
    return s;
}

static cudaEvent_t new_event()
{
    cudaEvent_t e;
    assert_int_equal(cudaEventCreateWithFlags(&e, cudaEventDefault), cudaSuccess);
    return e;
}

/* One number on the device, 0, and two streams. */
struct two_streams {
    int *x;
    cudaStream_t a = new_stream(), b = new_stream();
    explicit two_streams(const char *mode, uint64_t seed = 1)
    {
        emu_streams(mode, seed);
        assert_int_equal(cudaMalloc((void **)&x, sizeof *x), cudaSuccess);
        *x = 0;
    }
    ~two_streams()
    {
        cudaFree(x);
        cudaStreamDestroy(a);
        cudaStreamDestroy(b);
        emu_streams("eager", 1);
    }
};

static void eager_work_is_done_at_once(void **)
{
    two_streams t("eager");
    LAUNCH(add_one, 1, 32, 0, t.a, t.x);
    assert_int_equal(*t.x, 1);
    assert_int_equal(cudaStreamQuery(t.a), cudaSuccess);
}

static void lazy_work_waits_for_somebody(void **)
{
    two_streams t("lazy");
    LAUNCH(add_one, 1, 32, 0, t.a, t.x);
    LAUNCH(add_one, 1, 32, 0, t.a, t.x);
    assert_int_equal(*t.x, 0);
    assert_int_equal(cudaStreamSynchronize(t.a), cudaSuccess);
    assert_int_equal(*t.x, 2);
}

/* How often of 40 seeds does b come first, when nothing orders a and b, and when an event does? */
static int times_b_is_first(bool ordered)
{
    int count = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        two_streams t("lazy", seed);
        cudaEvent_t e = new_event();
        LAUNCH(add_one, 1, 32, 0, t.a, t.x);
        cudaEventRecord(e, t.a);
        if (ordered)
            cudaStreamWaitEvent(t.b, e, 0);
        LAUNCH(times_ten, 1, 32, 0, t.b, t.x);
        cudaDeviceSynchronize();
        count += *t.x == 1;
        assert_true(*t.x == 1 || *t.x == 10);
        cudaEventDestroy(e);
    }
    return count;
}

static void an_event_orders_two_streams(void **)
{
    assert_int_equal(times_b_is_first(true), 0);
    assert_in_range(times_b_is_first(false), 8, 32);
}

/* An event is the place where it was recorded last before the wait. */
static void recording_again_leaves_earlier_waits_alone(void **)
{
    two_streams t("lazy");
    cudaEvent_t e = new_event();
    assert_int_equal(cudaEventQuery(e), cudaSuccess);
    cudaEventRecord(e, t.a);
    cudaStreamWaitEvent(t.b, e, 0);
    emu::enqueue(t.a, [] { return false; });
    cudaEventRecord(e, t.a);
    LAUNCH(add_one, 1, 32, 0, t.b, t.x);
    assert_int_equal(cudaStreamSynchronize(t.b), cudaSuccess);
    assert_int_equal(*t.x, 1);
    assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    fflush(NULL);
    _exit(0); /* stream a never ends; see in_a_child */
}

/* A step that waits for a peer holds up what is behind it, and streams that wait for that. */
static void a_peer_holds_up_a_stream(void **)
{
    two_streams t("eager");
    bool here = false;
    int asked = 0;
    emu::enqueue(t.a, [&here, &asked] {
        asked++;
        return here;
    });
    LAUNCH(add_one, 1, 32, 0, t.a, t.x);
    cudaEvent_t e = new_event();
    cudaEventRecord(e, t.a);
    cudaStreamWaitEvent(t.b, e, 0);
    LAUNCH(add_one, 1, 32, 0, t.b, t.x);
    assert_int_equal(cudaStreamQuery(t.b), cudaErrorNotReady);
    cudaGetLastError();
    assert_true(asked > 0 && *t.x == 0);
    here = true;
    emu::pump();
    assert_int_equal(*t.x, 2);
    cudaEventDestroy(e);
}

static void the_default_stream_waits_for_blocking_ones(void **)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        two_streams t("lazy", seed);
        cudaStream_t blocking;
        cudaStreamCreate(&blocking);
        LAUNCH(add_one, 1, 32, 0, blocking, t.x);
        LAUNCH(times_ten, 1, 32, 0, 0, t.x);
        LAUNCH(add_one, 1, 32, 0, blocking, t.x);
        cudaStreamSynchronize(blocking);
        assert_int_equal(*t.x, 11);
        cudaStreamDestroy(blocking);
    }
}

static void pageable_memory_is_read_at_the_call(void **)
{
    two_streams t("lazy");
    int pageable = 1, *pinned;
    assert_int_equal(cudaMallocHost((void **)&pinned, sizeof *pinned), cudaSuccess);
    cudaMemcpyAsync(t.x, &pageable, sizeof pageable, cudaMemcpyHostToDevice, t.a);
    pageable = 2;
    cudaStreamSynchronize(t.a);
    assert_int_equal(*t.x, 1);
    *pinned = 3;
    cudaMemcpyAsync(t.x, pinned, sizeof *pinned, cudaMemcpyHostToDevice, t.a);
    *pinned = 4;
    cudaStreamSynchronize(t.a);
    assert_int_equal(*t.x, 4);
    /* to pageable memory the call waits, to pinned memory it does not */
    cudaMemcpyAsync(&pageable, t.x, sizeof pageable, cudaMemcpyDeviceToHost, t.a);
    assert_int_equal(pageable, 4);
    LAUNCH(add_one, 1, 32, 0, t.a, t.x);
    cudaMemcpyAsync(pinned, t.x, sizeof *pinned, cudaMemcpyDeviceToHost, t.a);
    assert_int_equal(*pinned, 4);
    cudaStreamSynchronize(t.a);
    assert_int_equal(*pinned, 5);
    cudaFreeHost(pinned);
}

static void rows_are_copied_with_their_pitches(void **)
{
    char *to, from[3][5] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}};
    cudaMalloc((void **)&to, 3 * 7 - 5);
    memset(to, 0, 3 * 7 - 5);
    assert_int_equal(cudaMemcpy2DAsync(to, 7, from, 5, 2, 3, cudaMemcpyHostToDevice, 0), cudaSuccess);
    static const char want[16] = {1, 2, 0, 0, 0, 0, 0, 6, 7, 0, 0, 0, 0, 0, 11, 12};
    assert_memory_equal(to, want, sizeof want);
    assert_int_equal(cudaMemcpy2DAsync(to, 7, from, 5, 3, 3, cudaMemcpyHostToDevice, 0),
                     cudaErrorInvalidValue); /* the last row does not fit */
    assert_int_equal(cudaMemcpy2DAsync(to, 2, from, 5, 3, 3, cudaMemcpyHostToDevice, 0),
                     cudaErrorInvalidPitchValue);
    assert_int_equal(cudaMemcpy(to, to + 8, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    cudaGetLastError();
    cudaFree(to);
}

static void launches_that_cannot_be_are_refused(void **)
{
    static const struct {
        dim3 blocks, threads;
        size_t dyn;
        cudaError_t rc;
    } rows[] = {
        {1, 1025, 0, cudaErrorInvalidConfiguration},
        {0, 32, 0, cudaErrorInvalidConfiguration},
        {dim3(1, 65536), 32, 0, cudaErrorInvalidConfiguration},
        {1, dim3(1, 1, 65), 0, cudaErrorInvalidConfiguration},
        {1, 32, 49153, cudaErrorInvalidValue},
    };
    for (auto &r : rows) {
        emu::launch("add_one", r.blocks, r.threads, r.dyn, 0, add_one, (int *)NULL);
        assert_int_equal(cudaGetLastError(), r.rc);
    }
    assert_int_equal(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 163 << 10),
                     cudaSuccess);
    assert_int_equal(
        cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, (163 << 10) + 1),
        cudaErrorInvalidValue);
    cudaGetLastError();
}

static void events_measure_time(void **)
{
    two_streams t("eager");
    cudaEvent_t from = new_event(), to = new_event();
    float ms = -1;
    assert_int_equal(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle);
    cudaEventRecord(from, t.a);
    emu::enqueue(t.a, [] { return usleep(2000) == 0; });
    cudaEventRecord(to, t.a);
    assert_int_equal(cudaEventElapsedTime(&ms, from, to), cudaSuccess);
    assert_true(ms >= 2 && ms < 2000);
    cudaGetLastError();
    cudaEventDestroy(from);
    cudaEventDestroy(to);
}

/* ---- graphs ---- */

/* The work of `give` as a graph. */
static cudaGraphExec_t captured(cudaStream_t stream, const std::function<void()> &give, size_t nodes)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t count;
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    give();
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphGetNodes(graph, NULL, &count), cudaSuccess);
    assert_int_equal(count, nodes);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    return exec;
}

static void a_graph_is_recorded_once_and_launched_often(void **)
{
    for (const char *mode : {"eager", "lazy"}) {
        two_streams t(mode);
        cudaGraphExec_t exec = captured(
            t.a,
            [&] {
                LAUNCH(add_one, 1, 32, 0, t.a, t.x);
                LAUNCH(times_ten, 1, 32, 0, t.a, t.x);
            },
            2);
        cudaStreamSynchronize(t.a);
        assert_int_equal(*t.x, 0); /* nothing has run */
        for (int i = 0; i < 3; i++)
            assert_int_equal(cudaGraphLaunch(exec, t.b), cudaSuccess);
        assert_int_equal(cudaGraphExecDestroy(exec), cudaSuccess);
        cudaStreamSynchronize(t.b);
        assert_int_equal(*t.x, 1110);
    }
}

/* In how many of 40 launches does the branch on b come before the work on a which it does or does not wait for? */
static int times_the_branch_is_first(bool ordered)
{
    two_streams t("lazy");
    cudaEvent_t fork = new_event(), middle = new_event(), join = new_event();
    cudaGraphExec_t exec = captured(
        t.a,
        [&] {
            cudaMemsetAsync(t.x, 0, sizeof *t.x, t.a);
            cudaEventRecord(fork, t.a);
            LAUNCH(add_one, 1, 32, 0, t.a, t.x);
            cudaEventRecord(middle, t.a);
            cudaStreamWaitEvent(t.b, ordered ? middle : fork, 0);
            LAUNCH(times_ten, 1, 32, 0, t.b, t.x);
            cudaEventRecord(join, t.b);
            cudaStreamWaitEvent(t.a, join, 0);
        },
        3);
    int count = 0;
    for (int i = 0; i < 40; i++) {
        cudaGraphLaunch(exec, t.a);
        cudaStreamSynchronize(t.a);
        count += *t.x == 1;
    }
    cudaGraphExecDestroy(exec);
    for (cudaEvent_t e : {fork, middle, join})
        cudaEventDestroy(e);
    return count;
}

static void branches_of_a_graph_are_ordered_by_events_only(void **)
{
    assert_int_equal(times_the_branch_is_first(true), 0);
    assert_in_range(times_the_branch_is_first(false), 5, 35);
}

/* Each of these is refused, and ends the capture. */
static void what_a_capture_forbids(void **)
{
    two_streams t("eager");
    int pageable = 0, *pinned;
    void *p;
    cudaEvent_t e = new_event(), before = new_event();
    cudaMallocHost((void **)&pinned, sizeof *pinned);
    cudaEventRecord(before, t.b);
    const struct {
        const char *what;
        std::function<cudaError_t()> call;
        cudaError_t rc;
    } rows[] = {
        {"cudaMalloc", [&] { return cudaMalloc(&p, 8); }, cudaErrorStreamCaptureUnsupported},
        {"cudaFree", [&] { return cudaFree(t.x); }, cudaErrorStreamCaptureUnsupported},
        {"cudaMallocHost", [&] { return cudaMallocHost(&p, 8); }, cudaErrorStreamCaptureUnsupported},
        {"synchronise it", [&] { return cudaStreamSynchronize(t.a); }, cudaErrorStreamCaptureUnsupported},
        {"query another", [&] { return cudaStreamQuery(t.b); }, cudaErrorStreamCaptureUnsupported},
        {"synchronise all", [] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported},
        {"query an event", [&] { return cudaEventQuery(before); }, cudaErrorStreamCaptureUnsupported},
        {"query one of it", [&] { return cudaEventRecord(e, t.a), cudaEventQuery(e); },
         cudaErrorCapturedEvent},
        {"wait for one outside", [&] { return cudaStreamWaitEvent(t.a, before, 0); },
         cudaErrorStreamCaptureIsolation},
        {"copy pageable memory",
         [&] { return cudaMemcpyAsync(t.x, &pageable, 4, cudaMemcpyHostToDevice, t.a); },
         cudaErrorStreamCaptureUnsupported},
        {"cudaMemcpy", [&] { return cudaMemcpy(pinned, t.x, 4, cudaMemcpyDeviceToHost); },
         cudaErrorStreamCaptureUnsupported},
    };
    for (auto &row : rows) {
        cudaGraph_t graph;
        enum cudaStreamCaptureStatus status;
        assert_int_equal(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeGlobal), cudaSuccess);
        cudaError_t rc = row.call();
        if (rc != row.rc)
            fail_msg("%s gives %s", row.what, cudaGetErrorName(rc));
        assert_int_equal(cudaStreamIsCapturing(t.a, &status), cudaSuccess);
        assert_int_equal(status, cudaStreamCaptureStatusInvalidated);
        assert_int_equal(cudaMemsetAsync(t.x, 0, 4, t.a), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureInvalidated);
        assert_null(graph);
    }
    cudaGetLastError();
    cudaEventDestroy(e);
    cudaEventDestroy(before);
    cudaFreeHost(pinned);
}

static void a_branch_that_is_not_joined_is_refused(void **)
{
    two_streams t("eager");
    cudaEvent_t e = new_event();
    cudaGraph_t graph;
    cudaStreamBeginCapture(t.a, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(e, t.a);
    cudaStreamWaitEvent(t.b, e, 0);
    LAUNCH(add_one, 1, 32, 0, t.b, t.x);
    assert_int_equal(cudaStreamEndCapture(t.b, &graph), cudaErrorStreamCaptureUnmatched);
    assert_int_equal(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    cudaStreamBeginCapture(t.a, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(e, t.a);
    cudaStreamWaitEvent(t.b, e, 0);
    LAUNCH(add_one, 1, 32, 0, t.b, t.x);
    assert_int_equal(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureUnjoined);
    cudaGetLastError();
    LAUNCH(add_one, 1, 32, 0, t.b, t.x); /* runs: b has left the capture */
    assert_int_equal(*t.x, 1);
    cudaEventDestroy(e);
}

/* ---- EMU_GUARD ---- */

/* In a child: the device may touch its memory, the host may not. */
static void touch_memory_of_the_device(void **)
{
    volatile int *x;
    int y = 4;
    cudaMalloc((void **)&x, sizeof *x);
    cudaMemcpy((void *)x, &y, sizeof y, cudaMemcpyHostToDevice);
    LAUNCH(add_one, 1, 32, 0, 0, (int *)x);
    cudaMemcpy(&y, (void *)x, sizeof y, cudaMemcpyDeviceToHost);
    if (y == 5)
        *x = 6;
    _exit(0);
}

static void the_host_does_not_touch_memory_of_the_device(void **)
{
    if (system("grep -qw ospke /proc/cpuinfo") != 0)
        skip();
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        setenv("EMU_GUARD", "1", 1);
        touch_memory_of_the_device(NULL);
    }
    close(ends[1]);
    std::string said(4096, 0);
    ssize_t n = read(ends[0], &said[0], said.size());
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_true(n > 0 && said.find("the host touches memory of the device") != std::string::npos);
}

/* Runs a test in a process of its own, with a setting of the environment that the emulator reads once. */
static void in_a_child(void (*test)(void **), const char *name, const char *value)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (name)
            setenv(name, value, 1);
        test(NULL);
        fflush(NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void two_of_four_are_visible(void **)
{
    setenv("EMU_DEVICES", "4", 1);
    setenv("EMU_MEMORY", "1000", 1);
    int count;
    struct cudaDeviceProp p;
    assert_int_equal(cudaGetDeviceCount(&count), cudaSuccess);
    assert_int_equal(count, 2);
    assert_int_equal(cudaGetDeviceProperties(&p, 0), cudaSuccess);
    assert_int_equal(p.uuid.bytes[15], 3);
    assert_int_equal(cudaGetDeviceProperties(&p, 1), cudaSuccess);
    assert_int_equal(p.uuid.bytes[15], 1);
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    void *x, *y, *z;
    assert_int_equal(cudaMalloc(&x, 600), cudaSuccess);
    assert_int_equal(cudaMalloc(&y, 401), cudaErrorMemoryAllocation);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(cudaMalloc(&z, 401), cudaSuccess);
    cudaFree(x);
    cudaFree(z);
}

static void there_is_none(void **)
{
    int count = -1;
    assert_int_equal(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    assert_int_equal(count, 0);
    void *x;
    assert_int_equal(cudaMalloc(&x, 8), cudaErrorNoDevice);
    assert_string_equal(cudaGetErrorName(cudaPeekAtLastError()), "cudaErrorNoDevice");
    assert_string_equal(cudaGetErrorString(cudaGetLastError()), "no CUDA-capable device is detected");
}

static void devices_are_as_the_environment_says(void **)
{
    in_a_child(two_of_four_are_visible, "CUDA_VISIBLE_DEVICES", "3,1,7,0");
    in_a_child(there_is_none, "EMU_DEVICES", "0");
    in_a_child(there_is_none, "CUDA_VISIBLE_DEVICES", "");
}

static void an_event_is_a_place(void **)
{
    in_a_child(recording_again_leaves_earlier_waits_alone, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_as_the_environment_says), /* first: settings are read once */
        cmocka_unit_test(the_host_does_not_touch_memory_of_the_device),
        cmocka_unit_test(eager_work_is_done_at_once),
        cmocka_unit_test(lazy_work_waits_for_somebody),
        cmocka_unit_test(an_event_orders_two_streams),
        cmocka_unit_test(an_event_is_a_place),
        cmocka_unit_test(a_peer_holds_up_a_stream),
        cmocka_unit_test(the_default_stream_waits_for_blocking_ones),
        cmocka_unit_test(pageable_memory_is_read_at_the_call),
        cmocka_unit_test(rows_are_copied_with_their_pitches),
        cmocka_unit_test(launches_that_cannot_be_are_refused),
        cmocka_unit_test(events_measure_time),
        cmocka_unit_test(a_graph_is_recorded_once_and_launched_often),
        cmocka_unit_test(branches_of_a_graph_are_ordered_by_events_only),
        cmocka_unit_test(what_a_capture_forbids),
        cmocka_unit_test(a_branch_that_is_not_joined_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
