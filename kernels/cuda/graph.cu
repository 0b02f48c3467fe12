/* graph: work that is the same each time. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/fill.h"

void graph_forbid(const char *what)
{
    (void)what;
}

bool graph_kept(void)
{
    return false;
}

void graph_close(void) {}

static void repeat(uint64_t number, void (*work)(void *owner), void *owner)
{
    (void)number;
    work(owner);
}

static void forget(void) {}

CUDA_FILL(graph)
{
    table->repeat = repeat;
    table->forget = forget;
}
