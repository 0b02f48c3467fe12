/* table: the tables of the device's kernels, filled in when the first is asked for. */
#include "kernels/cuda/fill.h"
#include "kernels/cuda/table.h"

#define FILL_PART(part) cuda_fill_##part(table);

const struct kernels *kernels_cuda(enum kernel_type type)
{
    static struct kernels tables[2];
    struct kernels *table = &tables[type == KERNEL_BF16];
    if (!table->act_size) {
        table->type = type;
        table->act_size = type == KERNEL_BF16 ? 2 : 4;
        CUDA_PARTS(FILL_PART)
    }
    return table;
}
