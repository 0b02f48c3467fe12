/* open: the tables of the CPU's kernels, filled in when the first is asked for. */
#include "kernels/cpu/blas.h"
#include "kernels/cpu/fill.h"

#define FILL_FP32(part) kernels_fill_##part##_fp32(table);
#define FILL_BF16(part) kernels_fill_##part##_bf16(table);

static void fill_fp32(struct kernels *table)
{
    table->type = KERNEL_FP32;
    table->act_size = sizeof(real);
    FILL_PARTS(FILL_FP32)
}

#ifdef BELAY_REAL_DOUBLE
static int fill_bf16(struct kernels *table, struct err *err)
{
    (void)table;
    return err_set(err, "the reference build computes in double and has no bf16: ask it for fp32");
}
#else
static int fill_bf16(struct kernels *table, struct err *err)
{
    (void)err;
    table->type = KERNEL_BF16;
    table->act_size = sizeof(uint16_t);
    FILL_PARTS(FILL_BF16)
    return 0;
}
#endif

const struct kernels *kernels_cpu(enum kernel_type type, struct err *err)
{
    static struct kernels fp32, bf16;
    if (blas_open(err) != 0)
        return NULL;
    if (type == KERNEL_BF16)
        return bf16.act_size || fill_bf16(&bf16, err) == 0 ? &bf16 : NULL;
    if (!fp32.act_size)
        fill_fp32(&fp32);
    return &fp32;
}
