/* memory: aligned arrays and the plain element-wise functions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/parts.h"
#include "kernels/kernels.h"

#define LANES     32
#define HUGE_PAGE ((size_t)2 << 20)

/* What this host could ever give. Linux promises more than it has and kills the program that uses it: better to refuse. */
static size_t physical_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : SIZE_MAX / 2;
}

/* Large arrays begin on a huge page and ask for more of them: 2,048 tokens of logits would otherwise need 100,000 page table entries. */
real *kernel_alloc(size_t count)
{
    if (count > physical_bytes() / sizeof(real))
        return NULL;
    size_t bytes = count * sizeof(real), unit = bytes < 2 * HUGE_PAGE ? 64 : HUGE_PAGE;
    bytes = bytes ? (bytes + unit - 1) / unit * unit : unit;
    real *x = aligned_alloc(unit, bytes);
    if (!x)
        return NULL;
    if (unit == HUGE_PAGE)
        (void)madvise(x, bytes, MADV_HUGEPAGE); /* only advice: without it everything works, slower */
    kernel_zero(x, bytes / sizeof(real));       /* by all threads: each page lands near who uses it */
    return x;
}

void kernel_free(real *x)
{
    free(x);
}

void kernel_zero(real *x, size_t count)
{
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < PARTS_SUM; i++) {
        size_t begin = parts_begin(count, PARTS_SUM, i);
        memset(x + begin, 0, (parts_begin(count, PARTS_SUM, i + 1) - begin) * sizeof *x);
    }
}

void kernel_copy(real *out, const real *x, size_t count)
{
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < PARTS_SUM; i++) {
        size_t begin = parts_begin(count, PARTS_SUM, i);
        memcpy(out + begin, x + begin, (parts_begin(count, PARTS_SUM, i + 1) - begin) * sizeof *x);
    }
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

double kernel_sum_of_squares(const real *x, size_t count)
{
    double part[PARTS_SUM];
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < PARTS_SUM; i++)
        part[i] = squares(x, parts_begin(count, PARTS_SUM, i), parts_begin(count, PARTS_SUM, i + 1));
    double sum = 0;
    for (size_t i = 0; i < PARTS_SUM; i++)
        sum += part[i];
    return sum;
}

bool kernel_all_finite(const real *x, size_t count)
{
    int bad = 0;
#pragma omp parallel for simd schedule(static) reduction(| : bad) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        bad |= !(x[i] - x[i] == 0);
    return !bad;
}
