/* memory: what cudaMalloc and cudaMallocHost give, and copies.
 *
 * Each piece is an allocation of its own, so AddressSanitizer sees an access beside it, and is full of NaN. Copies know from the addresses what
 * kind of memory they work on: a wrong cudaMemcpyKind is refused, and a copy from pinned memory reads it when its turn in the
 * stream has come, so a buffer that is written too early is seen. */
#include <stdlib.h>
#include <string.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/emu/guard.h"
#include "tests/emu/machine.h"

namespace emu
{
enum place { PAGEABLE, PINNED, DEVICE };

struct piece {
    size_t bytes;
    place where;
    int device;
};

static std::mutex guard;
static std::map<uintptr_t, piece> *pieces = new std::map<uintptr_t, piece>; /* by address */
static std::map<int, size_t> *held = new std::map<int, size_t>;             /* bytes by device */

/* Not memset: AddressSanitizer's would refuse the margins of shared memory, and it is the same speed. */
void poison(void *p, size_t bytes)
{
    volatile unsigned char *c = (volatile unsigned char *)p;
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8)
        *(volatile uint64_t *)(c + i) = ~(uint64_t)0;
    for (; i < bytes; i++)
        c[i] = 0xff;
}

/* The piece with this address in it, or NULL; *offset: how far in. */
static const piece *find(const void *p, size_t *offset)
{
    auto next = pieces->upper_bound((uintptr_t)p);
    if (next == pieces->begin())
        return NULL;
    --next;
    *offset = (uintptr_t)p - next->first;
    return *offset < next->second.bytes || *offset == 0 ? &next->second : NULL;
}

/* Where it lies; *fits: does all of it lie in one piece? */
static place where(const void *p, size_t bytes, bool *fits)
{
    std::lock_guard<std::mutex> lock(guard);
    size_t offset;
    const piece *found = find(p, &offset);
    *fits = !found || bytes <= found->bytes - offset;
    return found ? found->where : PAGEABLE;
}

bool is_in_piece(const void *p, size_t bytes)
{
    bool fits;
    return where(p, bytes, &fits) == DEVICE && fits;
}

/* Memory for a piece, full of NaN; NULL when there is none. */
static void *new_piece(size_t bytes, place where)
{
    void *p;
    bytes += bytes == 0;
    if (where == DEVICE && guard_is_wanted())
        p = guard_take(bytes);
    else if (posix_memalign(&p, 256, bytes) != 0)
        p = NULL;
    device_at_work now;
    if (p)
        poison(p, bytes);
    return p;
}

static void free_piece(void *p, const piece &it)
{
    if (it.where == DEVICE && guard_is_wanted())
        guard_give(p, it.bytes + (it.bytes == 0));
    else
        free(p);
}

static cudaError_t take(void **p, size_t bytes, place where, int device)
{
    *p = NULL;
    cudaError_t rc = device < 0 ? cudaErrorNoDevice : may_wait_for_all();
    if (rc != cudaSuccess)
        return rc;
    std::lock_guard<std::mutex> lock(guard);
    if (where == DEVICE && bytes > device_memory() - (*held)[device])
        return cudaErrorMemoryAllocation;
    *p = new_piece(bytes, where);
    if (!*p)
        return cudaErrorMemoryAllocation;
    (*pieces)[(uintptr_t)*p] = {bytes, where, device};
    if (where == DEVICE)
        (*held)[device] += bytes;
    return cudaSuccess;
}

static cudaError_t give(void *p, place where)
{
    if (!p)
        return cudaSuccess;
    cudaError_t rc = may_wait_for_all();
    if (rc != cudaSuccess)
        return rc;
    wait_for_all(); /* as the driver does */
    std::lock_guard<std::mutex> lock(guard);
    auto found = pieces->find((uintptr_t)p);
    if (found == pieces->end() || found->second.where != where)
        return cudaErrorInvalidValue;
    if (where == DEVICE)
        (*held)[found->second.device] -= found->second.bytes;
    free_piece(p, found->second);
    pieces->erase(found);
    return cudaSuccess;
}

/* ---- copies ---- */

struct copy {
    char *to;
    size_t to_pitch;
    const char *from;
    size_t from_pitch, width, rows;
};

static void copy_rows(const copy &c)
{
    for (size_t i = 0; i < c.rows && c.width > 0; i++)
        memcpy(c.to + i * c.to_pitch, c.from + i * c.from_pitch, c.width);
}

static bool kind_fits(cudaMemcpyKind kind, place to, place from)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return to != DEVICE && from != DEVICE;
    case cudaMemcpyHostToDevice:
        return to == DEVICE && from != DEVICE;
    case cudaMemcpyDeviceToHost:
        return to != DEVICE && from == DEVICE;
    case cudaMemcpyDeviceToDevice:
        return to == DEVICE && from == DEVICE;
    default:
        return true;
    }
}

/* The source as it is now, in memory of its own. */
static std::shared_ptr<std::vector<char>> snapshot(copy *c)
{
    auto kept = std::make_shared<std::vector<char>>(c->width * c->rows);
    copy_rows({kept->data(), c->width, c->from, c->from_pitch, c->width, c->rows});
    c->from = kept->data();
    c->from_pitch = c->width;
    return kept;
}

static cudaError_t enqueue_copy(copy c, cudaMemcpyKind kind, cudaStream_t stream, bool wait)
{
    if (device_number() < 0)
        return cudaErrorNoDevice;
    cudaError_t rc = wait ? may_wait_for_all() : may_enqueue(stream);
    if (rc != cudaSuccess)
        return rc;
    if (c.width > c.to_pitch || c.width > c.from_pitch)
        return cudaErrorInvalidPitchValue;
    if (c.width == 0 || c.rows == 0)
        return cudaSuccess;
    bool to_fits, from_fits;
    place to = where(c.to, (c.rows - 1) * c.to_pitch + c.width, &to_fits);
    place from = where(c.from, (c.rows - 1) * c.from_pitch + c.width, &from_fits);
    if (!to_fits || !from_fits || !kind_fits(kind, to, from))
        return cudaErrorInvalidValue;
    if ((from == PAGEABLE || to == PAGEABLE) && is_capturing(stream))
        return may_wait_for_all();
    std::shared_ptr<std::vector<char>> kept = from == PAGEABLE ? snapshot(&c) : NULL;
    enqueue(
        stream,
        [c, kept] {
            copy_rows(c);
            return true;
        },
        "a copy");
    if (to == PAGEABLE || wait)
        wait_for_stream(stream);
    return cudaSuccess;
}

static cudaError_t enqueue_set(void *p, int value, size_t bytes, cudaStream_t stream)
{
    if (device_number() < 0)
        return cudaErrorNoDevice;
    cudaError_t rc = stream ? may_enqueue(stream) : may_wait_for_all();
    if (rc != cudaSuccess)
        return rc;
    bool fits;
    if (bytes > 0 && (where(p, bytes, &fits) == PAGEABLE || !fits))
        return cudaErrorInvalidValue;
    enqueue(
        stream,
        [=] {
            memset(p, value, bytes);
            return true;
        },
        "a memset");
    return cudaSuccess;
}
} // namespace emu

using namespace emu;

extern "C" {
cudaError_t cudaMalloc(void **p, size_t bytes)
{
    return report(take(p, bytes, DEVICE, device_number()));
}

cudaError_t cudaFree(void *p)
{
    return report(give(p, DEVICE));
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    return report(take(p, bytes, PINNED, device_number()));
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
    return report(give(p, PINNED));
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    if (device_number() < 0)
        return report(cudaErrorNoDevice);
    std::lock_guard<std::mutex> lock(emu::guard);
    *total = device_memory();
    *available = *total - (*held)[device_number()];
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p)
{
    std::lock_guard<std::mutex> lock(emu::guard);
    size_t offset;
    const piece *found = find(p, &offset);
    *out = {};
    out->device = found ? found->device : -1;
    out->type = !found                   ? cudaMemoryTypeUnregistered
                : found->where == PINNED ? cudaMemoryTypeHost
                                         : cudaMemoryTypeDevice;
    out->devicePointer = found ? (void *)p : NULL;
    out->hostPointer = found && found->where == PINNED ? (void *)p : NULL;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    bool wait = kind != cudaMemcpyDeviceToDevice;
    return report(enqueue_copy({(char *)to, bytes, (const char *)from, bytes, bytes, 1}, kind, NULL, wait));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return report(
        enqueue_copy({(char *)to, bytes, (const char *)from, bytes, bytes, 1}, kind, stream, false));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t rows, cudaMemcpyKind kind, cudaStream_t stream)
{
    return report(enqueue_copy({(char *)to, to_pitch, (const char *)from, from_pitch, width, rows}, kind,
                               stream, false));
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    return report(enqueue_set(p, value, bytes, NULL));
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return report(enqueue_set(p, value, bytes, stream));
}
}
