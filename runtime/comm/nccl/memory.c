/* memory: buffers of the backend, as comm uses them. A lane is a stream, a mark an event; events are kept and used again: a stream that waits for one waits
 * for what it was recorded behind at that call. */
#include <stdio.h>
#include <stdlib.h>

#include "common/mem.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/sums.h"
#include "runtime/comm/nccl/channel.h"

static cudaEvent_t *spare;
static size_t n_spare, spare_room;

cudaStream_t lane_stream(struct comm_lane *lane)
{
    return lane ? (cudaStream_t)(void *)lane : device_stream();
}

static cudaEvent_t event_of(const struct comm_mark *mark)
{
    return (cudaEvent_t)(uintptr_t)mark;
}

static void *cuda_alloc(size_t bytes)
{
    void *data = arena_take(bytes);
    if (!data && bytes > 0) {
        char reason[96];
        (void)snprintf(reason, sizeof reason,
                       "%zu bytes are not left; use a smaller batch.micro or recomputation", bytes);
        device_fail("taking memory for what ranks exchange", reason);
    }
    return data;
}

static void cuda_free(void *data)
{
    if (data)
        arena_give(data);
}

static void cuda_copy(struct comm_lane *lane, void *to, const void *from, size_t bytes)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, lane_stream(lane)));
}

static enum cuda_sum sum_of(enum comm_type type)
{
    switch (type) {
    case COMM_BF16:
        return CUDA_SUM_BF16;
    case COMM_DOUBLE:
        return CUDA_SUM_DOUBLE;
    default:
        return CUDA_SUM_FLOAT; /* `real` of this build; bytes are never summed */
    }
}

static void cuda_sum(struct comm_lane *lane, void *out, const struct comm_terms *terms, size_t count,
                     enum comm_type type)
{
    cuda_sum_ranks(out, terms->own, terms->others, terms->stride, terms->rank, terms->size, count,
                   sum_of(type), lane_stream(lane));
}

static void cuda_to_host(struct comm_lane *lane, void *pinned, const void *from, size_t bytes)
{
    CHECK(cudaMemcpyAsync(pinned, from, bytes, cudaMemcpyDeviceToHost, lane_stream(lane)));
}

static void cuda_from_host(struct comm_lane *lane, void *to, const void *pinned, size_t bytes)
{
    CHECK(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, lane_stream(lane)));
}

/* What ranks wait for comes before what they compute meanwhile. */
static struct comm_lane *cuda_lane(void)
{
    int least, greatest;
    cudaStream_t stream;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    return (struct comm_lane *)(void *)stream;
}

static void cuda_lane_free(struct comm_lane *lane)
{
    CHECK(cudaStreamDestroy(lane_stream(lane)));
}

static struct comm_mark *cuda_mark(struct comm_lane *lane)
{
    cudaEvent_t event;
    if (n_spare > 0)
        event = spare[--n_spare];
    else
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(event, lane_stream(lane)));
    return (struct comm_mark *)(void *)event;
}

static void cuda_after(struct comm_lane *lane, const struct comm_mark *mark)
{
    CHECK(cudaStreamWaitEvent(lane_stream(lane), event_of(mark), 0));
}

static bool cuda_reached(const struct comm_mark *mark)
{
    cudaError_t rc = cudaEventQuery(event_of(mark));
    if (rc == cudaErrorNotReady)
        (void)cudaGetLastError(); /* it is left there, and is no error */
    else
        device_check(rc, "what the GPU was given");
    return rc == cudaSuccess;
}

static void cuda_drop(struct comm_mark *mark)
{
    spare = mem_one_more(spare, n_spare, &spare_room, sizeof(cudaEvent_t));
    spare[n_spare++] = event_of(mark);
}

void lanes_close(void)
{
    while (n_spare > 0)
        CHECK(cudaEventDestroy(spare[--n_spare]));
    free(spare);
    spare = NULL;
    spare_room = 0;
}

const struct comm_memory comm_memory_cuda = {.alloc = cuda_alloc,
                                             .free = cuda_free,
                                             .copy = cuda_copy,
                                             .sum = cuda_sum,
                                             .pinned = pinned_take,
                                             .unpinned = pinned_give,
                                             .to_host = cuda_to_host,
                                             .from_host = cuda_from_host,
                                             .lane = cuda_lane,
                                             .lane_free = cuda_lane_free,
                                             .mark = cuda_mark,
                                             .after = cuda_after,
                                             .reached = cuda_reached,
                                             .drop = cuda_drop};
