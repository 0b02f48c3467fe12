/* convert: between act and real, and sums of acts. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

static void act_from_real(act *out, const real *x, size_t count)
{
    elem *to = elems(out);
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        to[i] = elem_store(x[i]);
}

static void real_from_act(real *out, const act *x, size_t count)
{
    const elem *from = elems_in(x);
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        out[i] = elem_load(from[i]);
}

static void add(act *out, const act *x, size_t count)
{
    elem *to = elems(out);
    const elem *from = elems_in(x);
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        to[i] = elem_store(elem_load(to[i]) + elem_load(from[i]));
}

void FILL(convert)(struct kernels *table)
{
    table->act_from_real = act_from_real;
    table->real_from_act = real_from_act;
    table->add = add;
}
