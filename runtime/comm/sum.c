/* sum: see sum.h. A block of the result is summed at a time in a small array: it stays in the nearest cache while the terms stream by, and out may
 * be one of the terms. Blocks are independent, so threads change no bit. */
#include "runtime/comm/sum.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "kernels/real.h"

#define BLOCK    1024              /* elements: 8 KiB of double */
#define THREADED ((size_t)1 << 18) /* from here on threads are worth waking up */

size_t comm_type_size(enum comm_type type)
{
    static const size_t sizes[] = {
        [COMM_BYTE] = 1, [COMM_REAL] = sizeof(real), [COMM_BF16] = 2, [COMM_DOUBLE] = sizeof(double)};
    return sizes[type];
}

/* Element `from` of the term of rank r. */
static const void *term(const struct comm_terms *t, int r, size_t from, size_t element)
{
    const char *base = t->own;
    if (r != t->rank)
        base = (const char *)t->others + (size_t)((r - t->rank + t->size) % t->size - 1) * t->stride;
    return base + from * element;
}

static void block_float(void *out, const struct comm_terms *t, size_t from, size_t n)
{
    float sum[BLOCK];
    memcpy(sum, term(t, 0, from, sizeof *sum), n * sizeof *sum);
    for (int r = 1; r < t->size; r++) {
        const float *x = term(t, r, from, sizeof *sum);
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            sum[i] += x[i];
    }
    memcpy((float *)out + from, sum, n * sizeof *sum);
}

static void block_double(void *out, const struct comm_terms *t, size_t from, size_t n)
{
    double sum[BLOCK];
    memcpy(sum, term(t, 0, from, sizeof *sum), n * sizeof *sum);
    for (int r = 1; r < t->size; r++) {
        const double *x = term(t, r, from, sizeof *sum);
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            sum[i] += x[i];
    }
    memcpy((double *)out + from, sum, n * sizeof *sum);
}

/* bf16 is the upper half of a float. */
static float widen(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest, ties to even; a NaN keeps being one (rounding could carry it over into infinity). */
static uint16_t narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static void block_bf16(void *out, const struct comm_terms *t, size_t from, size_t n)
{
    float sum[BLOCK];
    uint16_t *to = (uint16_t *)out + from;
    const uint16_t *x = term(t, 0, from, sizeof *x);
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        sum[i] = widen(x[i]);
    for (int r = 1; r < t->size; r++) {
        x = term(t, r, from, sizeof *x);
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            sum[i] += widen(x[i]);
    }
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        to[i] = narrow(sum[i]);
}

typedef void block_sum(void *out, const struct comm_terms *t, size_t from, size_t n);

static block_sum *block_of(enum comm_type type)
{
    switch (type) {
    case COMM_REAL:
        return sizeof(real) == sizeof(float) ? block_float : block_double;
    case COMM_BF16:
        return block_bf16;
    case COMM_DOUBLE:
        return block_double;
    case COMM_BYTE:
        break;
    }
    log_error("bytes cannot be summed over ranks; name the type of the numbers");
    abort();
}

void comm_sum(void *out, const struct comm_terms *terms, size_t count, enum comm_type type)
{
    block_sum *block = block_of(type);
#pragma omp parallel for if (count >= THREADED)
    for (size_t from = 0; from < count; from += BLOCK)
        block(out, terms, from, count - from < BLOCK ? count - from : BLOCK);
}
