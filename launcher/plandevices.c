/* plandevices: counts the ranks on each device of the planner's table. Types that it does not know are not counted. */
#include "launcher/plandevices.h"

#include <stdlib.h>

#include "common/jsonx.h"
#include "common/mem.h"

#define KINDS_MAX 16 /* rows of the table */

static int kind_of(const struct cluster_spec *cluster, const char *name)
{
    struct err ignored;
    const struct cluster_node *node = cluster_find(cluster, name);
    const struct plan_device *device = node ? plan_device_find(node->device, &ignored) : NULL;
    for (int i = 0; device && i < KINDS_MAX && plan_device_at((size_t)i); i++)
        if (plan_device_at((size_t)i) == device)
            return i;
    return -1;
}

/* How many kinds there are. */
static int count_ranks(const struct planverdict *v, const struct cluster_spec *cluster,
                       int64_t ranks[KINDS_MAX])
{
    size_t i;
    int kinds = 0;
    const json_t *r;
    json_array_foreach(v->verdict.placement, i, r)
    {
        int kind = kind_of(cluster, jsonx_str_or(r, "node", ""));
        if (jsonx_int_or(r, "rank", 0) < 0) /* a spare */
            continue;
        if (kind >= 0 && ranks[kind]++ == 0)
            kinds++;
    }
    return kinds;
}

static const struct plan_device *slowest(const int64_t ranks[KINDS_MAX])
{
    const struct plan_device *least = NULL;
    for (size_t i = 0; i < KINDS_MAX; i++)
        if (ranks[i] > 0 && (!least || plan_device_at(i)->bf16 < least->bf16))
            least = plan_device_at(i);
    return least;
}

/* "64 of its ranks would be on b200, 64 on h100" */
static char *census(const int64_t ranks[KINDS_MAX])
{
    char *text = str_dup("");
    for (size_t i = 0; i < KINDS_MAX; i++) {
        if (ranks[i] == 0)
            continue;
        char *longer = str_printf("%s%s%lld %son %s", text, text[0] ? ", " : "", (long long)ranks[i],
                                  text[0] ? "" : "of its ranks would be ", plan_device_at(i)->name);
        free(text);
        text = longer;
    }
    return text;
}

char *plandevices_apply(const struct planverdict *v, const struct planask *ask, const struct planask_job *job,
                        struct plan_request *request)
{
    int64_t ranks[KINDS_MAX] = {0};
    bool counts = v->known && job->cluster && job->spec->device != DEVICE_CPU;
    int kinds = counts ? count_ranks(v, job->cluster, ranks) : 0;
    if (kinds == 0)
        return NULL;
    if (!ask->gpu)
        request->device = slowest(ranks);
    if (kinds == 1 && slowest(ranks) == request->device)
        return NULL;
    char *on = census(ranks);
    char *note = str_printf("%s: predicted as if all were %s; nothing in a job chooses among types", on,
                            request->device->name);
    free(on);
    return note;
}
