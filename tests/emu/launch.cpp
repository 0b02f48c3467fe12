/* launch: kernels. The launch is checked at the call, as CUDA does; the blocks run one after another when its turn in the stream has come. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>

#include "tests/emu/block.h"
#ifdef EMU_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#define SHARED_BY_DEFAULT ((size_t)48 << 10) /* more needs cudaFuncSetAttribute */

namespace emu
{
static const char *running = NULL; /* the kernel */
static std::map<const void *, size_t> *limits =
    new std::map<const void *, size_t>; /* of DYN_SHARED, by kernel */

/* ---- messages ---- */

static void tell_place()
{
    if (running)
        fprintf(stderr, " kernel %s", running);
    if (running && cur)
        fprintf(stderr, " block(%u,%u,%u) thread(%u,%u,%u)", B.bidx.x, B.bidx.y, B.bidx.z, cur->tidx.x,
                cur->tidx.y, cur->tidx.z);
    fputc('\n', stderr);
}

void die(const char *msg, const char *file, int line)
{
    fflush(stdout);
    fprintf(stderr, "EMU ERROR: %s at %s:%d", msg, file, line);
    tell_place();
    fflush(stderr);
    _Exit(99);
}

#ifdef EMU_ASAN
/* After the report of a sanitizer. */
static void tell_kernel()
{
    if (!running)
        return;
    fprintf(stderr, "EMU: that was in");
    tell_place();
}
#endif

/* ---- launching ---- */

static size_t threads_of(const grid &l)
{
    return (size_t)l.threads.x * l.threads.y * l.threads.z;
}

static cudaError_t launch_fits(const grid &l)
{
    auto limit = limits->find(l.key);
    size_t n = threads_of(l), most = limit == limits->end() ? SHARED_BY_DEFAULT : limit->second;
    bool blocks = l.blocks.x > 0 && l.blocks.y > 0 && l.blocks.z > 0 && l.blocks.x <= INT32_MAX &&
                  l.blocks.y <= 65535 && l.blocks.z <= 65535;
    if (blocks && n > 0 && n <= MOST_THREADS && l.threads.z <= 64 && l.dyn <= most)
        return cudaSuccess;
    fprintf(stderr,
            "EMU: invalid launch of %s: (%u,%u,%u) blocks of %zu threads, %zu bytes of DYN_SHARED (limit "
            "%zu)\n",
            l.name, l.blocks.x, l.blocks.y, l.blocks.z, n, l.dyn, most);
    return l.dyn > most ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration;
}

static void run_grid(const grid &l, const std::function<void()> &work)
{
    size_t count = (size_t)l.blocks.x * l.blocks.y * l.blocks.z;
    running = l.name;
    B.bdim = l.threads;
    B.gdim = l.blocks;
    B.dyn_size = l.dyn;
    for (size_t i = 0; i < count; i++) {
        size_t number = current_order() == REVERSE ? count - 1 - i : i;
        size_t row = number / l.blocks.x;
        B.bidx = {(unsigned)(number % l.blocks.x), (unsigned)(row % l.blocks.y),
                  (unsigned)(row / l.blocks.y)};
        run_block(work);
    }
    running = NULL;
}

void launch_grid(const grid &l, cudaStream_t stream, std::function<void()> work)
{
    if (cur)
        die("launch from a kernel");
#ifdef EMU_ASAN
    __sanitizer_set_death_callback(tell_kernel);
#endif
    cudaError_t rc = device_number() < 0 ? cudaErrorNoDevice : launch_fits(l);
    if (rc == cudaSuccess)
        rc = may_enqueue(stream);
    if (report(rc) != cudaSuccess)
        return;
    enqueue(
        stream,
        [l, work = std::move(work)] {
            run_grid(l, work);
            return true;
        },
        l.name);
}
} // namespace emu

using namespace emu;

extern "C" cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || (size_t)value > device_shared_limit())
        return report(cudaErrorInvalidValue);
    (*limits)[kernel] = (size_t)value;
    return cudaSuccess;
}
