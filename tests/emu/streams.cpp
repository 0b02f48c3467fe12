/* streams: CUDA's functions of streams, on the queues of queue.cpp. */
#include "tests/emu/streams.h"

using namespace emu;

/* The same for asking. */
static cudaError_t may_wait(cudaStream_t stream)
{
    locked lock(stream_lock);
    CUstream_st *s = find_stream(stream);
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (!s->recording)
        return capture_forbids();
    s->recording->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

extern "C" {
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    locked lock(stream_lock);
    if (device_number() < 0)
        return report(cudaErrorNoDevice);
    if (flags & ~(unsigned)cudaStreamNonBlocking)
        return report(cudaErrorInvalidValue);
    CUstream_st *s = new CUstream_st;
    s->number = (int)all_streams().size();
    s->blocking = !(flags & cudaStreamNonBlocking);
    all_streams().push_back(s);
    *stream = s;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* What it was given is still done. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    locked lock(stream_lock);
    if (!stream || !find_stream(stream))
        return report(cudaErrorInvalidResourceHandle);
    stream->destroyed = true;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t rc = may_wait(stream);
    if (rc != cudaSuccess)
        return report(rc);
    return report(ask(end_of(stream)) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t rc = may_wait(stream);
    if (rc != cudaSuccess)
        return report(rc);
    wait_for(end_of(stream));
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    if (device_number() < 0)
        return report(cudaErrorNoDevice);
    cudaError_t rc = capture_forbids();
    if (rc != cudaSuccess)
        return report(rc);
    wait_for_all();
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t work, void *owner)
{
    cudaError_t rc = work ? may_enqueue(stream) : cudaErrorInvalidValue;
    if (rc != cudaSuccess)
        return report(rc);
    enqueue(
        stream,
        [=] {
            work(owner);
            return true;
        },
        "a function of the host");
    return cudaSuccess;
}
}
