/* capture: CUDA graphs. While a stream is captured, what it is given becomes nodes instead of steps; streams join by waiting for an event that was
 * recorded in the capture. A launch of the graph is one step of a stream, which runs copies of the nodes' steps; when lazy (queue.h) in an
 * order that is drawn among those that the edges allow, so that a missing edge is seen.
 *
 * What CUDA forbids meanwhile (programming guide, "Cross-stream dependencies and events", "Prohibited and unhandled operations") is refused and makes
 * the capture invalid. */
#include <functional>
#include <thread>

#include "tests/emu/streams.h"

typedef std::vector<emu::node> nodes;

struct CUgraph_st {
    std::shared_ptr<const nodes> all;
};
struct CUgraphExec_st {
    std::shared_ptr<const nodes> all;
};

namespace emu
{
static std::vector<std::shared_ptr<capture>> *captures = new std::vector<std::shared_ptr<capture>>;

static size_t this_thread()
{
    return std::hash<std::thread::id>()(std::this_thread::get_id());
}

void record(CUstream_st *s, step work, const char *what)
{
    std::vector<node> &all = s->recording->nodes;
    all.push_back({std::move(work), what, s->tail});
    s->tail.assign(1, all.size() - 1);
}

cudaError_t capture_forbids()
{
    locked lock(stream_lock);
    cudaError_t rc = cudaSuccess;
    for (auto &c : *captures) {
        bool mine = c->thread == this_thread() && c->mode == cudaStreamCaptureModeThreadLocal;
        if (c->mode != cudaStreamCaptureModeGlobal && !mine)
            continue;
        c->invalid = true;
        rc = cudaErrorStreamCaptureUnsupported;
    }
    return rc;
}

cudaError_t may_wait_for_all()
{
    return capture_forbids();
}

/* Work of the legacy default stream waits for all blocking streams, one of which is captured. */
static bool legacy_is_shut()
{
    bool shut = false;
    for (auto &c : *captures)
        for (CUstream_st *s : c->streams)
            if (s->blocking)
                shut = c->invalid = true;
    return shut;
}

cudaError_t may_enqueue(cudaStream_t stream)
{
    locked lock(stream_lock);
    CUstream_st *s = find_stream(stream);
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (!stream && legacy_is_shut())
        return cudaErrorStreamCaptureImplicit;
    return s->recording && s->recording->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

bool is_capturing(cudaStream_t stream)
{
    locked lock(stream_lock);
    CUstream_st *s = find_stream(stream);
    return s && s->recording;
}

cudaError_t join(CUstream_st *s, CUevent_st *event)
{
    if (!event->recording) { /* in a capture, for something outside of it */
        s->recording->invalid = true;
        return cudaErrorStreamCaptureIsolation;
    }
    if (s->recording && s->recording != event->recording) {
        s->recording->invalid = event->recording->invalid = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (!event->recording->origin->recording) /* it has ended */
        return cudaErrorStreamCaptureIsolation;
    if (!s->recording) {
        s->recording = event->recording;
        s->recording->streams.push_back(s);
    }
    s->tail.insert(s->tail.end(), event->tail.begin(), event->tail.end());
    return cudaSuccess;
}

/* Are all of a stream's nodes among those that the origin's last nodes wait for? */
static bool is_joined(const capture &c, const CUstream_st *s)
{
    std::vector<bool> seen(c.nodes.size());
    std::vector<size_t> open = c.origin->tail;
    while (!open.empty()) {
        size_t i = open.back();
        open.pop_back();
        if (seen[i])
            continue;
        seen[i] = true;
        open.insert(open.end(), c.nodes[i].after.begin(), c.nodes[i].after.end());
    }
    for (size_t i : s->tail)
        if (!seen[i])
            return false;
    return true;
}

static cudaError_t end_capture(std::shared_ptr<capture> c)
{
    cudaError_t rc = c->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    for (CUstream_st *s : c->streams)
        if (rc == cudaSuccess && !is_joined(*c, s))
            rc = cudaErrorStreamCaptureUnjoined;
    for (CUstream_st *s : c->streams) {
        s->recording.reset();
        s->tail.clear();
    }
    for (size_t i = 0; i < captures->size(); i++)
        if ((*captures)[i] == c)
            captures->erase(captures->begin() + (ptrdiff_t)i);
    return rc;
}

/* ---- launching ---- */

/* One launch: what is still to do. */
struct launched {
    std::shared_ptr<const nodes> all;
    nodes left;
    std::vector<bool> done;
    size_t todo;
};

static bool is_ready(const launched &l, size_t i)
{
    for (size_t before : l.left[i].after)
        if (!l.done[before])
            return false;
    return !l.done[i];
}

/* One node; false: none can be done now. */
static bool run_one(launched *l)
{
    std::vector<size_t> ready;
    for (size_t i = 0; i < l->left.size(); i++)
        if (is_ready(*l, i))
            ready.push_back(i);
    while (!ready.empty()) {
        size_t at = choose(ready.size()), i = ready[at];
        if (l->left[i].work()) {
            l->done[i] = true;
            l->todo--;
            return true;
        }
        ready.erase(ready.begin() + (ptrdiff_t)at);
    }
    return false;
}

static step launch_of(std::shared_ptr<const nodes> all)
{
    auto l = std::make_shared<launched>();
    l->all = all;
    l->left = *all;
    l->done.resize(all->size());
    l->todo = all->size();
    return [l] {
        while (l->todo > 0 && run_one(l.get()))
            ;
        return l->todo == 0;
    };
}
} // namespace emu

using namespace emu;

extern "C" {
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    locked lock(stream_lock);
    if (!stream)
        return report(cudaErrorStreamCaptureUnsupported);
    CUstream_st *s = find_stream(stream);
    if (!s)
        return report(cudaErrorInvalidResourceHandle);
    if (s->recording)
        return report(cudaErrorIllegalState);
    s->recording = std::make_shared<capture>(
        capture{s, mode, this_thread(), false, {}, std::vector<CUstream_st *>(1, s)});
    captures->push_back(s->recording);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    locked lock(stream_lock);
    CUstream_st *s = find_stream(stream);
    *graph = NULL;
    if (!s)
        return report(cudaErrorInvalidResourceHandle);
    if (!s->recording)
        return report(cudaErrorIllegalState);
    std::shared_ptr<capture> c = s->recording;
    if (c->origin != s) {
        c->invalid = true;
        return report(cudaErrorStreamCaptureUnmatched);
    }
    cudaError_t rc = end_capture(c);
    if (rc == cudaSuccess)
        *graph = new CUgraph_st{std::make_shared<const nodes>(std::move(c->nodes))};
    return report(rc);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    locked lock(stream_lock);
    CUstream_st *s = find_stream(stream);
    if (!s)
        return report(cudaErrorInvalidResourceHandle);
    if (!stream && legacy_is_shut())
        return report(cudaErrorStreamCaptureImplicit);
    *status = !s->recording           ? cudaStreamCaptureStatusNone
              : s->recording->invalid ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void *out, size_t *count)
{
    if (!graph || out)
        return report(cudaErrorInvalidValue);
    *count = graph->all->size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    if (!graph)
        return report(cudaErrorInvalidValue);
    *exec = new CUgraphExec_st{graph->all};
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    return report(exec ? may_enqueue(stream) : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t rc = exec ? may_enqueue(stream) : cudaErrorInvalidValue;
    if (rc == cudaSuccess && is_capturing(stream))
        rc = cudaErrorNotSupported; /* CUDA makes it a node of the outer graph */
    if (rc == cudaSuccess)
        enqueue(stream, launch_of(exec->all), "a graph");
    return report(rc);
}

/* What has been instantiated or launched keeps what it needs. */
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    if (!graph)
        return report(cudaErrorInvalidValue);
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    if (!exec)
        return report(cudaErrorInvalidValue);
    delete exec;
    return cudaSuccess;
}
}
