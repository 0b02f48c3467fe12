/* memorynote: see memorynote.h. The planner counts 16 bytes a parameter, as published figures do; the bundled runtime, which is all that
 * trains in host memory, keeps gradients in fp32 and has memory.fp32_gradients more. */
#include "launcher/memorynote.h"

#include <math.h>
#include <stdlib.h>

#include "common/mem.h"
#include "launcher/format.h"

#define MIB    1048576.0
#define GIB    (1024 * MIB)
#define NOTICE GIB /* a rank that needs less goes anywhere, also when nothing is set aside for it */

/* The next round size, as a job file has it: "96MiB", "7GiB", "130GiB". */
static char *round_size(double bytes)
{
    bool small = bytes <= GIB - 32 * MIB;
    double unit = small ? MIB : GIB;
    double step = small ? 32 : bytes <= 100 * GIB ? 1 : 10;
    return str_printf("%.0f%s", ceil(bytes / unit / step) * step, small ? "MiB" : "GiB");
}

/* " (6.2 GiB of it ...)": why it is more than the plan says. */
static char *of_gradients(double bytes)
{
    char size[FORMAT_SIZE];
    if (bytes <= 0)
        return str_dup("");
    return str_printf(" (%s of it because the bundled runtime keeps gradients in fp32)",
                      format_bytes((int64_t)bytes, size));
}

char *memorynote_host(const struct job_spec *spec, const struct memory *memory)
{
    char needs[FORMAT_SIZE], aside[FORMAT_SIZE];
    double bytes = memory->total + memory->fp32_gradients;
    if (spec->memory > 0 ? bytes <= (double)spec->memory : bytes < NOTICE)
        return NULL;
    char *why = of_gradients(memory->fp32_gradients), *size = round_size(bytes);
    char *note =
        str_printf("a rank is predicted to need %s%s%s and resources.memory sets %s aside; placement "
                   "counts only what is set aside: write resources.memory: %s",
                   format_bytes((int64_t)bytes, needs), spec->device == DEVICE_AUTO ? " on a CPU" : "", why,
                   spec->memory > 0 ? format_bytes(spec->memory, aside) : "nothing", size);
    free(why);
    free(size);
    return note;
}

char *memorynote_gradients(const struct plan *plan)
{
    const struct memory *m = &plan->memory;
    if (plan->memory_device == 0 || !plan->fits || m->total + m->fp32_gradients <= plan->memory_device)
        return NULL;
    return str_printf("gradients that are added up in fp32, as in Megatron-LM and the bundled runtime, take "
                      "%.1f GB more than is planned: %.1f of %.0f GB a device (docs/planning.md)",
                      m->fp32_gradients / 1e9, (m->total + m->fp32_gradients) / 1e9,
                      plan->memory_device / 1e9);
}
