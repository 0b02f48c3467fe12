/* cuda_runtime: the part of CUDA's runtime that kernels/cuda and runtime/comm/nccl use, on the host (tests/emu, docs/cuda.md). Names, values and
 * meaning are the toolkit's: what a function does is said there; here stands only what is peculiar to the emulator.
 *
 * Settings from the environment, read at the first call: EMU_DEVICES (1), EMU_MEMORY (bytes of each device, 2 GiB), EMU_CAPABILITY (8.0),
 * CUDA_VISIBLE_DEVICES (numbers), EMU_STREAMS=eager|lazy and EMU_SEED (queue.h), EMU_SCHED (emu_device.h). */
#ifndef BELAY_TESTS_EMU_CUDA_RUNTIME_H
#define BELAY_TESTS_EMU_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

/* name, value, what cudaGetErrorString says */
#define EMU_ERRORS(X)                                                                                        \
    X(cudaSuccess, 0, "no error")                                                                            \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                          \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                                         \
    X(cudaErrorInitializationError, 3, "initialization error")                                               \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                    \
    X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                              \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                              \
    X(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version")       \
    X(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable")                  \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                         \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                          \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                 \
    X(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device")      \
    X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")                                 \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                        \
    X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")                  \
    X(cudaErrorSymbolNotFound, 500, "named symbol not found")                                                \
    X(cudaErrorNotReady, 600, "device not ready")                                                            \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                              \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                         \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                                \
    X(cudaErrorAssert, 710, "device-side assert triggered")                                                  \
    X(cudaErrorMisalignedAddress, 716, "misaligned address")                                                 \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                             \
    X(cudaErrorNotSupported, 801, "operation not supported")                                                 \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")            \
    X(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")     \
    X(cudaErrorStreamCaptureMerge, 902, "operation would result in a merge of separate capture sequences")   \
    X(cudaErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began")          \
    X(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                             \
    X(cudaErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream")       \
    X(cudaErrorStreamCaptureImplicit, 906,                                                                   \
      "operation would make the legacy stream depend on a capturing blocking stream")                        \
    X(cudaErrorCapturedEvent, 907,                                                                           \
      "operation not permitted on an event last recorded in a capturing stream")                             \
    X(cudaErrorUnknown, 999, "unknown error")

#define EMU_ERROR_ENUM(name, value, text) name = (value),
typedef enum cudaError { EMU_ERRORS(EMU_ERROR_ENUM) } cudaError_t;
#undef EMU_ERROR_ENUM

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2 };

enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0,
    cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2
};

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2
};

#define cudaHostAllocDefault       0x00
#define cudaHostAllocPortable      0x01
#define cudaHostAllocMapped        0x02
#define cudaHostAllocWriteCombined 0x04
#define cudaStreamDefault          0x00
#define cudaStreamNonBlocking      0x01
#define cudaEventDefault           0x00
#define cudaEventBlockingSync      0x01
#define cudaEventDisableTiming     0x02

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef void (*cudaHostFn_t)(void *owner);

typedef struct CUuuid_st {
    char bytes[16];
} cudaUUID_t;

struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid; /* by the device's number: the same for all processes */
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int major, minor, multiProcessorCount, warpSize, maxThreadsPerBlock, regsPerBlock, l2CacheSize;
    int maxThreadsPerMultiProcessor, memoryBusWidth;
    int pciDomainID, pciBusID, pciDeviceID;
};

struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
#endif
};

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---- */

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t rc);
const char *cudaGetErrorName(cudaError_t rc);

/* ---- devices ---- */

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value);

/* ---- memory ---- */

/* Filled with NaN. Waits never; cudaFree waits for everything that has been enqueued. */
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
/* Filled with NaN, too. */
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
/* From pageable memory of the host the source is read at the call, from pinned memory when the copy runs. To pageable memory: the call waits. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t rows, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);

/* ---- streams and events (queue.h) ---- */

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
/* As on a GPU, cudaErrorNotReady becomes the last error, too: who asks clears it with cudaGetLastError. */
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t work, void *owner);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

/* ---- graphs (capture.cpp) ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status);
/* The number of nodes; nodes must be NULL. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void *nodes, size_t *count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

#ifdef __cplusplus
}

/* The forms for C++ that the toolkit has beside them. */
template <class T> inline cudaError_t cudaMalloc(T **p, size_t bytes)
{
    return cudaMalloc((void **)(void *)p, bytes);
}
template <class T> inline cudaError_t cudaMallocHost(T **p, size_t bytes)
{
    return cudaMallocHost((void **)(void *)p, bytes);
}
template <class T> inline cudaError_t cudaHostAlloc(T **p, size_t bytes, unsigned flags)
{
    return cudaHostAlloc((void **)(void *)p, bytes, flags);
}
template <class T> inline cudaError_t cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value)
{
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph)
{
    return cudaGraphInstantiate(exec, graph, 0);
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event)
{
    return cudaStreamWaitEvent(stream, event, 0);
}
#endif

#ifdef __cplusplus
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#endif

#endif
