/* table: the tables of the device's kernels, filled in when the first is asked for. */
#include "kernels/cuda/table.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/gemm.h"

#define LOGITS                                                                                               \
    ((size_t)1                                                                                               \
     << 26) /* 256 MiB of float: more rows of a product than fill the device, little of its memory */
#define GIB (1024.0 * 1024 * 1024)

/* "580.65.06", from the line "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul…"; "" when the file is not there. */
static void driver_version(char *out, size_t size)
{
    char line[256] = "", *at = line, *end;
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    if (f && !fgets(line, sizeof line, f))
        line[0] = 0;
    if (f)
        (void)fclose(f);
    while (*at && !(at[0] == ' ' && at[1] >= '1' && at[1] <= '9' && strspn(at + 1, "0123456789") >= 3))
        at++;
    at += *at == ' ';
    end = at + strcspn(at, " \n");
    (void)snprintf(out, size, "%.*s", (int)(end - at), at);
}

/* For one line of a log; gemm.cu names its library. */
static void describe(char *out, size_t size)
{
    const struct cuda_device *d = device_properties();
    size_t lt = gemm_version();
    char driver[64];
    int runtime = 0;
    CHECK(cudaRuntimeGetVersion(&runtime));
    driver_version(driver, sizeof driver);
    (void)snprintf(out, size, "%s, %d SMs, %.1f GiB, CUDA %d.%d, %s%s%scuBLASLt %zu.%zu", d->name,
                   d->multiprocessors, (double)d->memory / GIB, runtime / 1000, runtime % 1000 / 10,
                   *driver ? "driver " : "", driver, *driver ? ", " : "", lt / 10000, lt / 100 % 100);
}

#define FILL_PART(part) cuda_fill_##part(table);

const struct kernels *kernels_cuda(enum kernel_type type)
{
    static struct kernels tables[2];
    struct kernels *table = &tables[type == KERNEL_BF16];
    if (!table->act_size) {
        table->type = type;
        table->act_size = type == KERNEL_BF16 ? 2 : 4;
        table->logits = LOGITS;
        table->describe = describe;
        CUDA_PARTS(FILL_PART)
    }
    return table;
}
