/* budget: see budget.h. One counter for the kernels of every type. */
#include "kernels/cpu/budget.h"

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

static _Atomic size_t taken, most;

static void raise_most(size_t to)
{
    size_t before = atomic_load(&most);
    while (before < to && !atomic_compare_exchange_weak(&most, &before, to)) {
    }
}

size_t budget_whole(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : SIZE_MAX / 2;
}

bool budget_take(size_t bytes)
{
    size_t before = atomic_load(&taken), whole = budget_whole();
    do {
        if (bytes > whole || before > whole - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(&taken, &before, before + bytes));
    raise_most(before + bytes);
    return true;
}

void budget_add(size_t bytes)
{
    raise_most(atomic_fetch_add(&taken, bytes) + bytes);
}

void budget_give(size_t bytes)
{
    atomic_fetch_sub(&taken, bytes);
}

size_t budget_taken(void)
{
    return atomic_load(&taken);
}

size_t budget_peak(void)
{
    return atomic_load(&most);
}
