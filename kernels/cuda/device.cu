/* device: see device.h.
 *
 * The device computes behind the host, so an error shows at some later call: what was being done is what the model said last (device_doing), and a sentence
 * of advice goes with the errors that have a usual reason. The process then ends at once, without giving anything back: after most errors of
 * CUDA every call fails, and the other ranks are ended by who started them. */
#include "kernels/cuda/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/memory.h"

extern "C" {
#include "common/clock.h"
#include "common/log.h"
}

#define PATIENCE_S     600.0
#define BLOCKS_PER_SM  8    /* of 256 threads: as many as an SM holds */
#define SPIN_S         5e-5 /* wait this long without pausing: most waits within a step are shorter */
#define SHORT_WAIT_S   0.01
#define SHORT_PAUSE_NS 20000
#define LONG_PAUSE_NS  200000
#define LEAST_MAJOR    8 /* compute capability: bf16 in tensor cores, cp.async */

static struct {
    bool open;
    bool ranked;
    int rank;
    int blocks;
    struct cuda_device is;
    cudaStream_t compute, copy;
    const char *doing;
    int64_t number, step;
    void (*watcher)(bool late);
} device;

/* ---- errors ---- */

static const char SEE_DRIVER_LOG[] = "the kernel's log says whether the GPU itself failed (dmesg | grep Xid)";
static const char FIND_KERNEL[] = "run once more with CUDA_LAUNCH_BLOCKING=1 and BELAY_CUDA_GRAPHS=0 to "
                                  "learn which kernel it was, and look "
                                  "into the kernel's log for what the driver saw (dmesg | grep Xid)";

static const char *advice(cudaError_t rc)
{
    switch (rc) {
    case cudaErrorMemoryAllocation:
        return "other processes may hold memory of this GPU (nvidia-smi), else the job needs smaller "
               "micro-batches, recomputation or more ranks (belay plan)";
    case cudaErrorInsufficientDriver:
        return "install a newer NVIDIA driver on this node";
    case cudaErrorNoKernelImageForDevice:
        return "libbelay_cuda.so was built without code for this kind of GPU; build it on this node";
    case cudaErrorDevicesUnavailable:
        return "another process has the GPU for itself (nvidia-smi shows which, and the compute mode)";
    case cudaErrorECCUncorrectable:
        return "the GPU's memory is damaged: drain this node and reset the GPU (nvidia-smi -q -d ECC)";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
        return FIND_KERNEL;
    default:
        return SEE_DRIVER_LOG;
    }
}

void device_say(const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (device.ranked)
        log_error("rank %d: %s", device.rank, text);
    else
        log_error("%s", text);
}

/* "CALL failed: REASON, while WHAT; ADVICE": the call without its arguments. */
__attribute__((noreturn)) static void fail(const char *call, const char *reason, const char *then)
{
    char doing[256] = "";
    if (device.doing)
        (void)snprintf(doing, sizeof doing, device.doing, (long long)device.number);
    if (device.doing && strlen(doing) < sizeof doing - 1)
        (void)snprintf(doing + strlen(doing), sizeof doing - strlen(doing), " in step %lld",
                       (long long)device.step);
    device_say("%.*s failed: %s%s%s%s%s", (int)strcspn(call, "("), call, reason,
               *doing ? ", while computing " : "", doing, then ? "; " : "", then ? then : "");
    (void)fflush(NULL);
    _exit(1);
}

void device_fail(const char *call, const char *reason)
{
    fail(call, reason, NULL);
}

void device_check(cudaError_t rc, const char *call)
{
    if (rc != cudaSuccess)
        fail(call, cudaGetErrorString(rc), advice(rc));
}

/* `kernel` is what LAUNCH was given: a template's name has brackets around it. */
void device_launched(const char *kernel)
{
    cudaError_t rc = cudaGetLastError();
    if (rc == cudaSuccess)
        return;
    char call[256];
    size_t bracket = kernel[0] == '(';
    (void)snprintf(call, sizeof call, "starting the kernel %.*s", (int)strcspn(kernel + bracket, ")"),
                   kernel + bracket);
    device_check(rc, call);
}

void device_doing(const char *what, int64_t number, int64_t step)
{
    device.step = step;
    device.doing = what;
    device.number = number;
}

/* ---- opening ---- */

static int no_device(cudaError_t rc, struct err *err)
{
    int driver = 0, runtime = 0;
    if (rc == cudaSuccess || rc == cudaErrorNoDevice)
        return err_set(err, "no NVIDIA GPU is visible here (see nvidia-smi, and CUDA_VISIBLE_DEVICES)");
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (rc == cudaErrorInsufficientDriver && driver == 0)
        return err_set(err, "there is no NVIDIA driver on this node (libcuda.so.1 was not found)");
    if (rc == cudaErrorInsufficientDriver)
        return err_set(err,
                       "the NVIDIA driver of this node is for CUDA %d.%d at most, libbelay_cuda.so needs "
                       "%d.%d: install a newer driver",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return err_set(err, "the GPUs cannot be used: cudaGetDeviceCount failed: %s; %s", cudaGetErrorString(rc),
                   advice(rc));
}

int device_count(struct err *err)
{
    int count = 0;
    cudaError_t rc = cudaGetDeviceCount(&count);
    if (rc == cudaSuccess && count > 0)
        return count;
    (void)cudaGetLastError(); /* it is told here, not by the next check */
    (void)no_device(rc, err);
    return 0;
}

/* The UUID as nvidia-smi shows it, without "GPU-". */
static void print_id(char *out, size_t size, const char *bytes)
{
    size_t at = 0;
    for (int i = 0; i < 16 && at + 4 < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)bytes[i]);
}

static int refused(int number, cudaError_t rc, const char *call, struct err *err)
{
    (void)cudaGetLastError();
    return err_set(err, "GPU %d cannot be used: %.*s failed: %s; %s", number, (int)strcspn(call, "("), call,
                   cudaGetErrorString(rc), advice(rc));
}
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        cudaError_t rc_ = (call);                                                                            \
        if (rc_ != cudaSuccess)                                                                              \
            return refused(number, rc_, #call, err);                                                         \
    } while (0)

static int learn(int number, struct cuda_device *out, struct err *err)
{
    struct cudaDeviceProp p;
    TRY(cudaGetDeviceProperties(&p, number));
    memset(out, 0, sizeof *out);
    TRY(cudaDeviceGetAttribute(&out->clock_khz, cudaDevAttrClockRate, number));
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    print_id(out->id, sizeof out->id, p.uuid.bytes);
    out->major = p.major;
    out->minor = p.minor;
    out->memory = p.totalGlobalMem;
    out->multiprocessors = p.multiProcessorCount;
    if (out->major < LEAST_MAJOR)
        return err_set(err, "GPU %d (%s) has compute capability %d.%d; Belay needs %d.0 (A100) or newer",
                       number, out->name, out->major, out->minor, LEAST_MAJOR);
    return 0;
}

int device_open(int number, int rank, struct err *err)
{
    if (device.open)
        return err_set(err, "GPU %d cannot be opened: this process has one already (%s)", number,
                       device.is.name);
    int count = device_count(err);
    if (count == 0)
        return -1;
    if (number < 0 || number >= count)
        return err_set(err,
                       "there is no GPU %d: this process sees %d (CUDA_VISIBLE_DEVICES), numbered from 0",
                       number, count);
    if (learn(number, &device.is, err) != 0)
        return -1;
    TRY(cudaSetDevice(number));
    /* Behind the default stream: nothing here uses that, but tests do, to fill memory. */
    TRY(cudaStreamCreateWithFlags(&device.compute, cudaStreamDefault));
    TRY(cudaStreamCreateWithFlags(&device.copy, cudaStreamNonBlocking));
    device.blocks = device.is.multiprocessors * BLOCKS_PER_SM;
    device.ranked = true;
    device.rank = rank;
    device.open = true;
    return 0;
}

/* Programs that only call kernels have not opened anything. */
static void need_device(void)
{
    struct err err = {{0}};
    if (device.open)
        return;
    if (device_open(0, 0, &err) != 0)
        device_fail("opening the GPU", err.text);
    device.ranked = false;
}

void device_close(void)
{
    if (!device.open)
        return;
    CHECK(cudaStreamSynchronize(device.copy));
    CHECK(cudaStreamSynchronize(device.compute));
    graph_close();
    gemm_close();
    memory_close();
    arena_close();
    CHECK(cudaStreamDestroy(device.copy));
    CHECK(cudaStreamDestroy(device.compute));
    memset(&device, 0, sizeof device);
}

cudaStream_t device_stream(void)
{
    need_device();
    return device.compute;
}

cudaStream_t device_copy_stream(void)
{
    need_device();
    return device.copy;
}

const struct cuda_device *device_properties(void)
{
    need_device();
    return &device.is;
}

int device_blocks(void)
{
    need_device();
    return device.blocks;
}

/* ---- waiting ---- */

double device_patience_s(void)
{
    static double patience;
    if (patience > 0)
        return patience;
    const char *text = getenv("BELAY_COMM_TIMEOUT");
    char *end = NULL;
    patience = text && *text ? strtod(text, &end) : PATIENCE_S;
    if (patience > 0 && (!end || !*end))
        return patience;
    patience = PATIENCE_S;
    log_warn("BELAY_COMM_TIMEOUT is \"%s\", which is no number of seconds above 0: waiting ends after %.0f s",
             text, patience);
    return patience;
}

void device_watch(void (*watcher)(bool late))
{
    device.watcher = watcher;
}

/* One turn of a wait that began at `begin`. */
static void wait_on(double begin)
{
    (void)cudaGetLastError(); /* "not ready" is left there, and is no error */
    double waited = clock_monotonic_s() - begin;
    if (waited < SPIN_S)
        return;
    bool late = waited > device_patience_s();
    if (device.watcher)
        device.watcher(late);
    if (late) {
        char reason[128];
        (void)snprintf(reason, sizeof reason, "it has not done its work after %.0f s (BELAY_COMM_TIMEOUT)",
                       waited);
        fail("waiting for the GPU", reason, SEE_DRIVER_LOG);
    }
    struct timespec pause = {0, waited < SHORT_WAIT_S ? SHORT_PAUSE_NS : LONG_PAUSE_NS};
    (void)nanosleep(&pause, NULL); /* a signal only makes it shorter */
}

void device_wait(cudaStream_t stream)
{
    cudaError_t rc;
    graph_forbid("waiting for the GPU");
    for (double begin = clock_monotonic_s(); (rc = cudaStreamQuery(stream)) == cudaErrorNotReady;)
        wait_on(begin);
    device_check(rc, "what the GPU was given");
}

void device_wait_event(cudaEvent_t event)
{
    cudaError_t rc;
    graph_forbid("waiting for the GPU");
    for (double begin = clock_monotonic_s(); (rc = cudaEventQuery(event)) == cudaErrorNotReady;)
        wait_on(begin);
    device_check(rc, "what the GPU was given");
}
