/* events: places in streams that others wait for (queue.h), and when they were reached. */
#include <time.h>

#include "tests/emu/streams.h"

using namespace emu;

static double milliseconds()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

extern "C" {
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    if (device_number() < 0)
        return report(cudaErrorNoDevice);
    if (flags & ~(unsigned)(cudaEventBlockingSync | cudaEventDisableTiming))
        return report(cudaErrorInvalidValue);
    *event = new CUevent_st;
    (*event)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event)
        return report(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t rc = event ? may_enqueue(stream) : cudaErrorInvalidResourceHandle;
    if (rc != cudaSuccess)
        return report(rc);
    locked lock(stream_lock);
    CUstream_st *s = find_stream(stream);
    event->recording = s->recording;
    event->tail = s->tail;
    if (s->recording)
        return cudaSuccess;
    std::shared_ptr<double> ms = event->ms = std::make_shared<double>();
    enqueue(
        stream,
        [ms] {
            *ms = milliseconds();
            return true;
        },
        "the record of an event");
    event->at = end_of(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    cudaError_t rc = event ? may_enqueue(stream) : cudaErrorInvalidResourceHandle;
    if (rc != cudaSuccess)
        return report(rc);
    locked lock(stream_lock);
    CUstream_st *s = find_stream(stream);
    if (event->recording || (s->recording && event->at.stream))
        return report(join(s, event));
    stream_waits(stream, event->at);
    return cudaSuccess;
}

/* Of an event that is to be waited for or asked about. */
static cudaError_t may_ask(cudaEvent_t event)
{
    locked lock(stream_lock);
    if (!event)
        return cudaErrorInvalidResourceHandle;
    if (!event->recording)
        return capture_forbids();
    event->recording->invalid = true;
    return cudaErrorCapturedEvent;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t rc = may_ask(event);
    if (rc != cudaSuccess)
        return report(rc);
    return report(ask(event->at) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t rc = may_ask(event);
    if (rc != cudaSuccess)
        return report(rc);
    wait_for(event->at);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    if (!start || !end || !start->timed || !end->timed || !start->at.stream || !end->at.stream)
        return report(cudaErrorInvalidResourceHandle);
    if (start->recording || end->recording)
        return report(cudaErrorCapturedEvent);
    if (!ask(start->at) || !ask(end->at))
        return report(cudaErrorNotReady);
    *ms = (float)(*end->ms - *start->ms);
    return cudaSuccess;
}
}
