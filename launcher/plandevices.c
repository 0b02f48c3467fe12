/* plandevices: counts the ranks on each device of the planner's table. Types that it does not know are not counted. */
#include "launcher/plandevices.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"

#define KINDS_MAX 16 /* rows of the table */

struct where {
    const struct cluster_spec *cluster; /* of a file, or NULL */
    json_t *kinds;                      /* of the cluster that runs, by name of the node: "cpu" or "gpu" */
    bool all_cpu;                       /* they are "cpu", and the job may go there */
    const struct plan_device *gpu;      /* what its GPUs are taken for */
};

static const struct plan_device *cpu(void)
{
    struct err ignored;
    return plan_device_find("cpu", &ignored);
}

static struct where where_of(const struct planverdict *v, const struct planask_job *job,
                             const struct plan_request *request)
{
    struct where w = {.cluster = job->cluster, .kinds = json_object(), .gpu = request->device};
    size_t i, n_cpu = 0;
    const json_t *node;
    json_array_foreach(v->nodes, i, node)
    {
        const char *kind = jsonx_str_or(node, "device", "");
        jsonx_set_str(w.kinds, jsonx_str_or(node, "name", ""), kind);
        n_cpu += strcmp(kind, "cpu") == 0;
    }
    w.all_cpu = job->spec->device == DEVICE_AUTO && n_cpu > 0 && n_cpu == json_array_size(v->nodes);
    return w;
}

static const struct plan_device *device_of(const struct where *w, const char *name)
{
    struct err ignored;
    if (!w->cluster)
        return strcmp(jsonx_str_or(w->kinds, name, ""), "cpu") == 0 ? cpu() : w->gpu;
    const struct cluster_node *node = cluster_find(w->cluster, name);
    return node ? plan_device_find(node->device, &ignored) : NULL;
}

static int row_of(const struct plan_device *device)
{
    for (int i = 0; device && i < KINDS_MAX && plan_device_at((size_t)i); i++)
        if (plan_device_at((size_t)i) == device)
            return i;
    return -1;
}

/* How many kinds there are. */
static int count_ranks(const struct planverdict *v, const struct where *w, int64_t ranks[KINDS_MAX])
{
    size_t i;
    int kinds = 0;
    const json_t *r;
    json_array_foreach(v->verdict.placement, i, r)
    {
        int kind = row_of(device_of(w, jsonx_str_or(r, "node", "")));
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

static void take(struct plan_request *request, const struct plan_device *device, bool live)
{
    struct plan_request fresh;
    request->device = device;
    if (!live) /* a cluster file says which links there are */
        return;
    plan_request_init(request->spec, device, &fresh);
    fresh.tokens = request->tokens;
    fresh.watts = request->watts;
    fresh.mfu = request->mfu;
    *request = fresh;
}

static char *several(const int64_t ranks[KINDS_MAX], const struct plan_device *device)
{
    char *on = census(ranks);
    char *note = str_printf("%s: predicted as if all were %s; %s", on, device->name,
                            ranks[row_of(cpu())] > 0 ? "resources.device chooses between CPUs and GPUs"
                                                     : "nothing in a job chooses among types");
    free(on);
    return note;
}

/* ranks: on each device; all zero where there is no placement. */
static char *apply(const int64_t ranks[KINDS_MAX], int kinds, const struct where *w, bool given,
                   struct plan_request *request)
{
    const struct plan_device *before = request->device;
    const struct plan_device *device = kinds > 0 ? slowest(ranks) : w->all_cpu ? cpu() : before;
    if (!given && device != before)
        take(request, device, !w->cluster);
    if (kinds > 1 || (kinds == 1 && device != request->device))
        return several(ranks, request->device);
    if (w->cluster || request->device == before)
        return NULL;
    return str_printf("%s CPUs, so it is predicted for them; --gpu TYPE says what else to predict for",
                      kinds > 0 ? "its ranks would be on" : "the nodes of this cluster are");
}

char *plandevices_apply(const struct planverdict *v, const struct planask *ask, const struct planask_job *job,
                        struct plan_request *request)
{
    int64_t ranks[KINDS_MAX] = {0};
    if (!v->known || job->spec->device == DEVICE_CPU)
        return NULL;
    struct where w = where_of(v, job, request);
    char *note = apply(ranks, count_ranks(v, &w, ranks), &w, ask->gpu != NULL, request);
    json_decref(w.kinds);
    return note;
}
