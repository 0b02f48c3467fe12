/* plannotes: see plannotes.h. */
#include "launcher/plannotes.h"

#include <stdlib.h>

#include "common/mem.h"

void plannotes_add(struct plannotes *notes, char *text)
{
    if (text && notes->count < PLANNOTES_MAX)
        notes->text[notes->count++] = text;
    else
        free(text);
}

void plannotes_caution(struct plannotes *notes, const struct plan_request *request, const struct plan *plan)
{
    long long replicas = (long long)request->spec->dp * request->spec->cp;
    if (plan->unconfirmed)
        plannotes_add(notes,
                      str_printf("no published run confirms ZeRO-3 over %lld replicas: those of 2021 took "
                                 "1.4 to 2.8 times as long as predicted (docs/planning.md)",
                                 replicas));
    if (request->device->caution)
        plannotes_add(notes, str_printf("%s (docs/planning.md)", request->device->caution));
}

void plannotes_clear(struct plannotes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->text[i]);
    *notes = (struct plannotes){.count = 0};
}
