/* arena: memory of the device, in blocks that are cut out of large pieces, and pinned memory of the host.
 *
 * cudaMalloc and cudaFree wait for the device and cost far more than a kernel's start, so a piece is kept until the end: what a step takes, the next one
 * finds again. Blocks of a piece lie beside each other; a freed one joins its free neighbours and waits in a bin by its size, from which the
 * smallest that is large enough is taken (best fit). Blocks of very different sizes have pieces of their own, so that a small one does not
 * take the place of a large one, nor keep it from joining its neighbours. Only when the device has nothing left are free blocks of larger
 * sizes cut, and after that pieces that are free as a whole given back, to become one of another size. */
#include "kernels/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/backend.h"

extern "C" {
#include "common/mem.h"
}

#define GIB         (1024.0 * 1024 * 1024)
#define MIB         ((size_t)1 << 20)
#define BINS        64 /* bin b: free blocks of 2^b to 2^(b+1)-1 bytes */
#define USED_CHAINS 4096

struct block {
    char *at;
    size_t bytes;
    int pool;
    bool used;
    struct block *before, *after; /* neighbours in the piece */
    struct block *next, **link;   /* of a bin or a chain of used blocks; what points here */
};

/* By the size of a block: its unit, the largest there, and the size of a piece, unless a block needs more. */
static const struct {
    size_t unit, most, piece;
} pools[] = {{256, MIB / 4, 4 * MIB}, {16 * 1024, 16 * MIB, 64 * MIB}, {512 * 1024, SIZE_MAX, 0}};
#define POOLS      (sizeof pools / sizeof *pools)
#define PIECE_UNIT (2 * MIB) /* of what the device gives */

static struct {
    bool chosen, exact;
    size_t held, peak, taken; /* bytes of blocks in use; of pieces */
    struct block *free[POOLS][BINS];
    struct block *used[USED_CHAINS];
    struct {
        void *at;
        size_t bytes;
    } scratch[SCRATCH_COUNT];
    void **outgrown; /* scratch that recorded calls may name */
    size_t n_outgrown, outgrown_room;
} arena;

/* ---- lists ---- */

static void enlist(struct block **head, struct block *b)
{
    b->next = *head;
    b->link = head;
    if (b->next)
        b->next->link = &b->next;
    *head = b;
}

static void unlist(struct block *b)
{
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
}

static int bin_of(size_t bytes)
{
    return 63 - __builtin_clzll(bytes);
}

static struct block **bin(const struct block *b)
{
    return &arena.free[b->pool][bin_of(b->bytes)];
}

static struct block **chain(const void *at)
{
    return &arena.used[((uintptr_t)at >> 8) * 0x9E3779B97F4A7C15u >> 52];
}

static struct block *new_block(char *at, size_t bytes, int pool)
{
    struct block *b = (struct block *)mem_zero(1, sizeof *b);
    b->at = at;
    b->bytes = bytes;
    b->pool = pool;
    return b;
}

/* ---- pieces ---- */

/* NULL when the device has not that much. */
static char *from_device(size_t bytes)
{
    void *at = NULL;
    cudaError_t rc = cudaMalloc(&at, bytes);
    if (rc == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); /* it is told by who asked for the memory */
        return NULL;
    }
    device_check(rc, "cudaMalloc");
    arena.taken += bytes;
    return (char *)at;
}

static void to_device(struct block *b)
{
    CHECK(cudaFree(b->at));
    arena.taken -= b->bytes;
    free(b);
}

/* Gives pieces back that are free as a whole. Were there any? */
static bool give_pieces_back(void)
{
    bool any = false;
    for (size_t i = 0; i < POOLS * BINS; i++)
        for (struct block *b = arena.free[i / BINS][i % BINS], *next; b; b = next) {
            next = b->next;
            if (b->before || b->after)
                continue;
            unlist(b);
            to_device(b);
            any = true;
        }
    return any;
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* A piece as one free block of at least `bytes`; NULL when the device has not that much. */
static struct block *new_piece(int pool, size_t bytes)
{
    size_t least = round_up(bytes, PIECE_UNIT), size = least > pools[pool].piece ? least : pools[pool].piece;
    char *at = from_device(size);
    if (!at && size > least)
        at = from_device(size = least);
    if (!at)
        return NULL;
    struct block *b = new_block(at, size, pool);
    enlist(bin(b), b);
    return b;
}

/* ---- blocks ---- */

static struct block *smallest(struct block *list, size_t bytes)
{
    struct block *best = NULL;
    for (struct block *b = list; b; b = b->next)
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes))
            best = b;
    return best;
}

static struct block *find(int pool, size_t bytes)
{
    struct block *b = NULL;
    for (int i = bin_of(bytes); i < BINS && !b; i++)
        b = smallest(arena.free[pool][i], bytes);
    return b;
}

/* What b has beyond `bytes` becomes a free block behind it. */
static void cut(struct block *b, size_t bytes)
{
    if (b->bytes == bytes)
        return;
    struct block *rest = new_block(b->at + bytes, b->bytes - bytes, b->pool);
    rest->before = b;
    rest->after = b->after;
    if (rest->after)
        rest->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    enlist(bin(rest), rest);
}

/* a, and its free neighbour b behind it, become a. */
static void join(struct block *a, struct block *b)
{
    a->bytes += b->bytes;
    a->after = b->after;
    if (a->after)
        a->after->before = a;
    free(b);
}

static struct block *free_block(int pool, size_t bytes)
{
    struct block *b = find(pool, bytes);
    if (!b)
        b = new_piece(pool, bytes);
    for (size_t larger = (size_t)pool + 1; larger < POOLS && !b; larger++)
        b = find((int)larger, bytes);
    if (!b && give_pieces_back())
        b = new_piece(pool, bytes);
    return b;
}

static struct block *take_block(size_t bytes)
{
    int pool = 0;
    while (bytes > pools[pool].most)
        pool++;
    bytes = round_up(bytes, pools[pool].unit);
    struct block *b = free_block(pool, bytes);
    if (!b)
        return NULL;
    unlist(b);
    cut(b, bytes);
    return b;
}

static void give_block(struct block *b)
{
    struct block *before = b->before;
    if (b->after && !b->after->used) {
        unlist(b->after);
        join(b, b->after);
    }
    if (before && !before->used) {
        unlist(before);
        join(before, b);
        b = before;
    }
    enlist(bin(b), b);
}

static struct block *take_exact(size_t bytes)
{
    char *at = from_device(bytes);
    return at ? new_block(at, bytes, 0) : NULL;
}

/* ---- what device.h declares ---- */

void arena_exact(bool exact)
{
    arena.chosen = true;
    arena.exact = exact;
}

static bool exact(void)
{
#ifdef __SANITIZE_ADDRESS__
    if (!arena.chosen)
        arena_exact(true);
#endif
    return arena.exact;
}

static size_t largest_free(void)
{
    size_t most = 0;
    for (size_t i = 0; i < POOLS * BINS; i++)
        for (struct block *b = arena.free[i / BINS][i % BINS]; b; b = b->next)
            most = b->bytes > most ? b->bytes : most;
    return most;
}

static void say_short(size_t bytes)
{
    size_t unused = 0, whole = 0;
    CHECK(cudaMemGetInfo(&unused, &whole));
    device_say(
        "the GPU has no %.3f GiB left: of its %.2f GiB %.2f GiB are free, and Belay has taken %.2f GiB, of "
        "which "
        "%.2f GiB are in use (at most %.2f GiB so far), and the largest part of the rest is %.2f GiB; other "
        "processes may hold the difference (nvidia-smi), else the job needs smaller micro-batches, "
        "recomputation or more ranks (belay plan)",
        (double)bytes / GIB, (double)whole / GIB, (double)unused / GIB, (double)arena.taken / GIB,
        (double)arena.held / GIB, (double)arena.peak / GIB, (double)largest_free() / GIB);
}

void *arena_take(size_t bytes)
{
    graph_forbid("taking memory of the GPU");
    (void)device_properties(); /* there is a device */
    bytes = bytes ? bytes : 1;
    struct block *b = bytes > SIZE_MAX / 2 ? NULL : exact() ? take_exact(bytes) : take_block(bytes);
    if (!b) {
        say_short(bytes);
        return NULL;
    }
    b->used = true;
    enlist(chain(b->at), b);
    arena.held += b->bytes;
    if (arena.held > arena.peak)
        arena.peak = arena.held;
    return b->at;
}

void arena_give(void *x)
{
    if (!x)
        return;
    graph_forbid("giving back memory of the GPU");
    struct block *b = *chain(x);
    while (b && b->at != x)
        b = b->next;
    if (!b)
        device_fail("giving back memory of the GPU", "the address is none that was taken");
    unlist(b);
    b->used = false;
    arena.held -= b->bytes;
    if (arena.exact)
        to_device(b);
    else
        give_block(b);
}

void arena_memory(struct kernel_memory *out)
{
    out->held = arena.held;
    out->peak = arena.peak;
    out->device = device_properties()->memory;
}

/* ---- scratch ---- */

/* Sizes in steps, so that it grows a few times only; exact where that shows an access beside it. */
static size_t scratch_size(size_t bytes)
{
    size_t size = 64 * 1024;
    if (exact())
        return bytes ? bytes : 1;
    while (size < bytes && size < 16 * MIB)
        size *= 2;
    return round_up(bytes > size ? bytes : size, size);
}

static void drop_scratch(void *at)
{
    if (!at)
        return;
    if (!graph_kept()) {
        arena_give(at);
        return;
    }
    arena.outgrown =
        (void **)mem_one_more(arena.outgrown, arena.n_outgrown, &arena.outgrown_room, sizeof *arena.outgrown);
    arena.outgrown[arena.n_outgrown++] = at;
}

void *arena_scratch(enum arena_scratch which, size_t bytes)
{
    size_t size = scratch_size(bytes);
    if (exact() ? arena.scratch[which].bytes == size : arena.scratch[which].bytes >= size)
        return arena.scratch[which].at;
    graph_forbid("a larger scratch buffer");
    drop_scratch(arena.scratch[which].at);
    arena.scratch[which].at = arena_take(size);
    arena.scratch[which].bytes = size;
    if (!arena.scratch[which].at)
        device_fail("memory for a kernel's intermediate results", "the GPU has none left");
    return arena.scratch[which].at;
}

void arena_forget(void)
{
    while (arena.n_outgrown > 0)
        arena_give(arena.outgrown[--arena.n_outgrown]);
}

/* ---- pinned memory ---- */

#define PINNED_LEAST 4096

struct pinned {
    void *at;
    size_t bytes; /* a power of 2 */
    bool used;
};
static struct pinned *pinned;
static size_t n_pinned, pinned_room;

static struct pinned *new_pinned(size_t bytes)
{
    char reason[160];
    void *at = NULL;
    (void)device_properties();
    cudaError_t rc = cudaMallocHost(&at, bytes);
    if (rc != cudaSuccess) {
        (void)snprintf(reason, sizeof reason,
                       "%s for %zu bytes; the host has no memory left that can be locked",
                       cudaGetErrorString(rc), bytes);
        device_fail("cudaMallocHost", reason);
    }
    pinned = (struct pinned *)mem_one_more(pinned, n_pinned, &pinned_room, sizeof *pinned);
    pinned[n_pinned].at = at;
    pinned[n_pinned].bytes = bytes;
    pinned[n_pinned].used = false;
    return &pinned[n_pinned++];
}

void *pinned_take(size_t bytes)
{
    size_t size = PINNED_LEAST;
    struct pinned *p = NULL;
    graph_forbid("taking pinned memory");
    while (size < bytes)
        size *= 2;
    for (size_t i = 0; i < n_pinned && !p; i++)
        if (!pinned[i].used && pinned[i].bytes == size)
            p = &pinned[i];
    if (!p)
        p = new_pinned(size);
    p->used = true;
    return p->at;
}

void pinned_give(void *x)
{
    for (size_t i = 0; i < n_pinned; i++)
        if (pinned[i].at == x)
            pinned[i].used = false;
}

/* ---- the end ---- */

static void close_pinned(void)
{
    for (size_t i = 0; i < n_pinned; i++)
        CHECK(cudaFreeHost(pinned[i].at));
    free(pinned);
    pinned = NULL;
    n_pinned = pinned_room = 0;
}

/* What nobody has given back lies in pieces that are not free as a whole, and goes with the process. */
void arena_close(void)
{
    arena_forget();
    for (int i = 0; i < SCRATCH_COUNT; i++) {
        arena_give(arena.scratch[i].at);
        arena.scratch[i].at = NULL;
        arena.scratch[i].bytes = 0;
    }
    (void)give_pieces_back();
    free(arena.outgrown);
    arena.outgrown = NULL;
    arena.outgrown_room = 0;
    close_pinned();
}
