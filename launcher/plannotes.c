/* plannotes: see plannotes.h. */
#include "launcher/plannotes.h"

#include <stdlib.h>

#include "common/mem.h"
#include "launcher/memorynote.h"

#define EMPTY (1.0 / 3) /* of a step: a bubble that is worth a word */

void plannotes_add(struct plannotes *notes, char *text)
{
    if (text && notes->count < PLANNOTES_MAX)
        notes->text[notes->count++] = text;
    else
        free(text);
}

static void note_size(struct plannotes *notes, const struct job_spec *spec)
{
    char range[JOB_RANGE_SIZE];
    if (job_elastic(spec))
        plannotes_add(notes,
                      str_printf("planned with dp %lld, the largest that %s allows; it goes on with fewer "
                                 "replicas, in proportion slower, where there is no room for all",
                                 (long long)spec->dp, job_range_print(range, spec)));
}

void plannotes_caution(struct plannotes *notes, const struct plan_request *request, const struct plan *plan)
{
    long long replicas = (long long)request->spec->dp * request->spec->cp;
    note_size(notes, request->spec);
    if (plan->unconfirmed)
        plannotes_add(notes,
                      str_printf("no published run confirms ZeRO-3 over %lld replicas: those of 2021 took "
                                 "1.4 to 2.8 times as long as predicted (docs/planning.md)",
                                 replicas));
    if (request->device->caution)
        plannotes_add(notes, str_printf("%s (docs/planning.md)", request->device->caution));
    plannotes_add(notes, request->device->gpu ? memorynote_gradients(plan)
                                              : memorynote_host(request->spec, &plan->memory));
    if (request->device->gpu)
        plannotes_add(notes, memorynote_images(request->spec, &plan->memory));
    if (request->spec->train.precision == PRECISION_FP8)
        plannotes_add(notes, str_dup("fp8 is planned as bf16: what its faster products gain is not predicted "
                                     "(docs/planning.md)"));
    if (plan->step.bubble > EMPTY * plan->step.total)
        plannotes_add(
            notes,
            str_printf("%.0f micro-batch%s cannot fill a pipeline of %lld ranks, which waits for %.0f %% "
                       "of the step: a larger global batch would",
                       plan->micro_batches, plan->micro_batches == 1 ? "" : "es",
                       (long long)request->spec->pp, 100 * plan->step.bubble / plan->step.total));
}

void plannotes_clear(struct plannotes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->text[i]);
    *notes = (struct plannotes){.count = 0};
}
