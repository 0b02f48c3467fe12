/* graph: work that is the same each time, enqueued at once (CUDA graphs, by capture of the compute stream).
 *
 * A number's work is done plainly the first time, so that everything it loads, chooses or grows on first use is there; the second time it is recorded;
 * from then on it is one launch. What a graph names are addresses: memory must not be freed, nor scratch move, before `forget`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/fill.h"

extern "C" {
#include "common/mem.h"
}

#define CHAINS 256

struct graph {
    uint64_t number;
    cudaGraphExec_t work; /* NULL: done once so far */
    struct graph *next;
};

static struct {
    struct graph *chains[CHAINS];
    size_t kept;
    bool recording;
    uint64_t number; /* that is being recorded */
} graphs;

static bool wanted(void)
{
    static int answer = -1;
    if (answer < 0) {
        const char *text = getenv("BELAY_CUDA_GRAPHS");
        answer = !text || text[0] != '0';
    }
    return answer != 0;
}

void graph_forbid(const char *what)
{
    char reason[160];
    if (!graphs.recording)
        return;
    (void)snprintf(reason, sizeof reason,
                   "it cannot be part of what is repeated (number %llu): a mistake in the program, which "
                   "BELAY_CUDA_GRAPHS=0 avoids",
                   (unsigned long long)graphs.number);
    device_fail(what, reason);
}

bool graph_kept(void)
{
    return graphs.kept > 0;
}

static struct graph *find(uint64_t number)
{
    struct graph *g = graphs.chains[mix(number) % CHAINS];
    while (g && g->number != number)
        g = g->next;
    return g;
}

static void remember(uint64_t number)
{
    struct graph *g = (struct graph *)mem_zero(1, sizeof *g);
    g->number = number;
    g->next = graphs.chains[mix(number) % CHAINS];
    graphs.chains[mix(number) % CHAINS] = g;
}

static void record(struct graph *g, void (*work)(void *owner), void *owner)
{
    cudaGraph_t recorded;
    CHECK(cudaStreamBeginCapture(device_stream(), cudaStreamCaptureModeThreadLocal));
    graphs.recording = true;
    graphs.number = g->number;
    work(owner);
    graphs.recording = false;
    CHECK(cudaStreamEndCapture(device_stream(), &recorded));
    CHECK(cudaGraphInstantiate(&g->work, recorded, 0));
    CHECK(cudaGraphDestroy(recorded));
    graphs.kept++;
}

static void repeat(uint64_t number, void (*work)(void *owner), void *owner)
{
    struct graph *g = find(number);
    if (!wanted() || graphs.recording) {
        work(owner);
    } else if (!g) {
        remember(number);
        work(owner);
    } else {
        if (!g->work)
            record(g, work, owner);
        CHECK(cudaGraphLaunch(g->work, device_stream()));
    }
}

static void forget(void)
{
    for (size_t i = 0; i < CHAINS; i++)
        for (struct graph *g = graphs.chains[i], *next; g; g = next) {
            next = g->next;
            if (g->work)
                CHECK(cudaGraphExecDestroy(g->work));
            free(g);
        }
    memset(&graphs, 0, sizeof graphs);
    arena_forget();
}

void graph_close(void)
{
    forget();
}

CUDA_FILL(graph)
{
    table->repeat = repeat;
    table->forget = forget;
}
