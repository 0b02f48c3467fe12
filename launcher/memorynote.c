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

/* " (6.2 GiB of it because …, 1.1 GiB for …)": why it is more than the plan says. */
static char *of_it(const struct job_spec *spec, const struct memory *m)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    char *gradients = m->fp32_gradients > 0
                          ? str_printf("%s of it because the bundled runtime keeps gradients in fp32",
                                       format_bytes((int64_t)m->fp32_gradients, a))
                          : str_dup("");
    char *images = spec->checkpoint.memory_every > 0
                       ? str_printf("%s%s for checkpoint.memory", gradients[0] ? ", " : "",
                                    format_bytes((int64_t)m->images, b))
                       : str_dup("");
    bool any = gradients[0] || images[0];
    char *text = str_printf("%s%s%s%s", any ? " (" : "", gradients, images, any ? ")" : "");
    free(gradients);
    free(images);
    return text;
}

static bool is_enough(const struct job_spec *spec, double bytes)
{
    return spec->memory > 0 ? bytes <= (double)spec->memory : bytes < NOTICE;
}

static char *write_more(const struct job_spec *spec, double bytes, const char *what)
{
    char needs[FORMAT_SIZE], aside[FORMAT_SIZE];
    char *size = round_size(bytes);
    char *note = str_printf("a rank is predicted to need %s%s and resources.memory sets %s aside; placement "
                            "counts only what is set aside: write resources.memory: %s",
                            format_bytes((int64_t)bytes, needs), what,
                            spec->memory > 0 ? format_bytes(spec->memory, aside) : "nothing", size);
    free(size);
    return note;
}

char *memorynote_host(const struct job_spec *spec, const struct memory *memory)
{
    double bytes = memory->total + memory->fp32_gradients + memory->images;
    if (is_enough(spec, bytes))
        return NULL;
    char *why = of_it(spec, memory);
    char *what = str_printf("%s%s", spec->device == DEVICE_AUTO ? " on a CPU" : "", why);
    char *note = write_more(spec, bytes, what);
    free(why);
    free(what);
    return note;
}

char *memorynote_images(const struct job_spec *spec, const struct memory *memory)
{
    if (spec->checkpoint.memory_every == 0 || is_enough(spec, memory->images))
        return NULL;
    return write_more(spec, memory->images, " of its node's memory for checkpoint.memory");
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
