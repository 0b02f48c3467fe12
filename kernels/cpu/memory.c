/* memory: aligned arrays, and the plain functions of bytes and reals. */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/budget.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/hash.h"
#include "kernels/cpu/parts.h"

#define LANES     32
#define HUGE_PAGE ((size_t)2 << 20)

static void zero(void *x, size_t bytes)
{
    size_t chunks = parts_chunks(bytes);
#pragma omp parallel for schedule(static) if (bytes > PARTS_BYTES)
    for (size_t i = 0; i < chunks; i++)
        memset((char *)x + i * PARTS_CHUNK, 0, parts_chunk(bytes, i));
}

/* Large arrays begin on a huge page and ask for more of them: 2,048 tokens of logits would otherwise need 100,000 page table entries. */
static void *alloc(size_t bytes)
{
    size_t unit = bytes < 2 * HUGE_PAGE ? 64 : HUGE_PAGE;
    if (bytes > SIZE_MAX - unit)
        return NULL;
    bytes = bytes ? (bytes + unit - 1) / unit * unit : unit;
    if (!budget_take(bytes))
        return NULL;
    void *x = aligned_alloc(unit, bytes);
    if (!x) {
        budget_give(bytes);
        return NULL;
    }
    budget_add(malloc_usable_size(x) - bytes); /* what it will give back: a few bytes more */
    if (unit == HUGE_PAGE)
        (void)madvise(x, bytes, MADV_HUGEPAGE); /* only advice: without it everything works, slower */
    zero(x, bytes);                             /* by all threads: each page lands near who uses it */
    return x;
}

static void release(void *x)
{
    if (x)
        budget_give(malloc_usable_size(x));
    free(x);
}

static void copy(void *out, const void *x, size_t bytes)
{
    size_t chunks = parts_chunks(bytes);
#pragma omp parallel for schedule(static) if (bytes > PARTS_BYTES)
    for (size_t i = 0; i < chunks; i++)
        memcpy((char *)out + i * PARTS_CHUNK, (const char *)x + i * PARTS_CHUNK, parts_chunk(bytes, i));
}

static void memory(struct kernel_memory *out)
{
    *out = (struct kernel_memory){budget_taken(), budget_peak(), budget_whole()};
}

/* Everything is computed when its function returns, and nothing is kept of it. */
static void sync_nothing(void) {}
static void forget_nothing(void) {}

static void repeat(uint64_t number, void (*work)(void *owner), void *owner)
{
    (void)number;
    work(owner);
}

/* What fails here fails at once. */
static void doing(const char *what, int64_t number, int64_t step)
{
    (void)step;
    (void)what;
    (void)number;
}

static void add_real(real *out, const real *x, size_t count)
{
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        out[i] += x[i];
}

static void scale_real(real *x, real factor, size_t count)
{
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

/* Each lane sums every LANES-th element: enough independent chains to keep up with memory, and the same order on every processor. */
static double squares(const real *x, size_t begin, size_t end)
{
    double lane[LANES] = {0}, sum = 0;
    size_t whole = begin + (end - begin) / LANES * LANES;
    for (size_t i = begin; i < whole; i += LANES) {
#pragma omp simd
        for (size_t j = 0; j < LANES; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    }
    for (size_t i = whole; i < end; i++)
        lane[i - whole] += (double)x[i] * (double)x[i];
    for (size_t j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

static void sum_of_squares(double *sum, const real *x, size_t count)
{
    double part[PARTS_SUM];
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < PARTS_SUM; i++)
        part[i] = squares(x, parts_begin(count, PARTS_SUM, i), parts_begin(count, PARTS_SUM, i + 1));
    double all = 0;
    for (size_t i = 0; i < PARTS_SUM; i++)
        all += part[i];
    *sum += all;
}

static bool all_finite(const real *x, size_t count)
{
    int bad = 0;
#pragma omp parallel for simd schedule(static) reduction(| : bad) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        bad |= !(x[i] - x[i] == 0);
    return !bad;
}

static uint64_t hash_word(uint64_t word, size_t i)
{
    return mix64(word ^ mix64(i + MIX_GOLDEN));
}

static uint64_t hash(const void *x, size_t bytes)
{
    const char *at = x;
    uint64_t sum = 0;
    size_t words = bytes / sizeof sum;
#pragma omp parallel for schedule(static) reduction(+ : sum) if (bytes > PARTS_BYTES)
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, at + i * sizeof word, sizeof word);
        sum += hash_word(word, i);
    }
    if (bytes % sizeof sum > 0) {
        uint64_t last = 0;
        memcpy(&last, at + words * sizeof last, bytes % sizeof last);
        sum += hash_word(last, words);
    }
    return sum;
}

static void copy_rows(void *out, size_t out_stride, const void *x, size_t x_stride, size_t rows, size_t bytes)
{
#pragma omp parallel for schedule(static) if (rows * bytes > PARTS_SERIAL * sizeof(real))
    for (size_t i = 0; i < rows; i++)
        memcpy((char *)out + i * out_stride, (const char *)x + i * x_stride, bytes);
}

void FILL(memory)(struct kernels *table)
{
    table->alloc = alloc;
    table->free = release;
    table->zero = zero;
    table->copy_rows = copy_rows;
    table->copy = table->to_host = table->from_host = copy;
    table->sync = sync_nothing;
    table->memory = memory;
    table->repeat = repeat;
    table->forget = forget_nothing;
    table->doing = doing;
    table->add_real = add_real;
    table->scale_real = scale_real;
    table->sum_of_squares = sum_of_squares;
    table->all_finite = all_finite;
    table->hash = hash;
}
