/* layout: compares field by field; each difference is one piece of the sentence. */
#include "daemon/core/layout.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/core/core_private.h"

#define GIB ((double)(INT64_C(1) << 30))

static void differs(struct layout_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void differs(struct layout_finding *f, const char *fmt, ...)
{
    char piece[256], before[sizeof f->text.text];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(piece, sizeof piece, fmt, args);
    va_end(args);
    (void)snprintf(before, sizeof before, "%s", f->text.text);
    err_set(&f->text, "%s%s%s", before, f->kind ? ", " : "differs from the cluster file: ", piece);
    f->kind = "node_mismatch";
}

/* ---- types of GPU ---- */

/* Does a model begin here: one or two letters, two to four digits, perhaps one more letter (H100, A10G, GB200)? Its length, or 0. */
static size_t model_at(const char *c)
{
    size_t letters = 0, digits = 0;
    while (isalpha((unsigned char)c[letters]))
        letters++;
    while (isdigit((unsigned char)c[letters + digits]))
        digits++;
    size_t end = letters + digits;
    end += isalpha((unsigned char)c[end]) != 0;
    return letters >= 1 && letters <= 2 && digits >= 2 && digits <= 4 && !isalnum((unsigned char)c[end]) ? end
                                                                                                         : 0;
}

static bool same_letters(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i]))
            return false;
    return true;
}

/* Is it the device of the file? "h100" and "h100-80g" are H100; "b200" is GB200 too, which is B200 beside a Grace. */
static bool is_model(const char *model, size_t len, const char *device)
{
    size_t n = strcspn(device, "-._");
    if (len == n && same_letters(model, device, n))
        return true;
    return len == n + 1 && toupper((unsigned char)model[0]) == 'G' && same_letters(model + 1, device, n);
}

/* True unless the name has a model that is not the device of the file. */
static bool may_be(const char *name, const char *device)
{
    bool other = false;
    for (const char *c = name; *c;) {
        size_t len = model_at(c);
        if (len > 0 && is_model(c, len, device))
            return true;
        other |= len > 0;
        c += strcspn(c, " -_/");
        c += strspn(c, " -_/");
    }
    return !other;
}

/* ---- comparing ---- */

static const char *devices(bool gpu)
{
    return gpu ? "GPUs" : "CPUs";
}

static void compare_slots(const struct cluster_node *want, const struct link_inventory *have,
                          struct layout_finding *out)
{
    if (have->slots != want->slots)
        differs(out, "%" PRId64 " slot%s instead of %" PRId64, have->slots, have->slots == 1 ? "" : "s",
                want->slots);
}

static void compare_devices(const struct cluster_node *want, const struct link_inventory *have,
                            struct layout_finding *out)
{
    if (have->gpu != want->gpu)
        differs(out, "%s instead of %s", devices(have->gpu), devices(want->gpu));
    for (size_t i = 0; want->gpu && want->device[0] && i < have->n_gpus; i++)
        if (!may_be(have->gpus[i].name, want->device)) {
            differs(out, "%s instead of %s", have->gpus[i].name, want->device);
            break;
        }
}

static void compare_host(const struct cluster_node *want, const struct link_inventory *have,
                         struct layout_finding *out)
{
    if (have->cores < want->cores)
        differs(out, "%" PRId64 " core%s instead of %" PRId64, have->cores, have->cores == 1 ? "" : "s",
                want->cores);
    if (have->memory < want->memory - want->memory / 20)
        differs(out, "%.1f GiB of memory instead of %.1f", (double)have->memory / GIB,
                (double)want->memory / GIB);
}

/* What the agent does not say is no difference. */
static void take_place(const char *what, char to[64], const char *want, struct layout_finding *out)
{
    if (to[0] && strcmp(to, want) != 0)
        differs(out, "%s %s instead of %s", what, to, want[0] ? want : "none");
    (void)snprintf(to, 64, "%s", want);
}

void layout_apply(const struct cluster_spec *cluster, bool played, const char *node,
                  struct link_inventory *inventory, struct layout_finding *out)
{
    const struct cluster_node *want = cluster_find(cluster, node);
    *out = (struct layout_finding){0};
    if (!want) {
        out->kind = "node_unlisted";
        err_set(&out->text, "is not in the cluster file: its pod and rack are what its agent says");
        return;
    }
    compare_slots(want, inventory, out);
    if (!played) {
        compare_devices(want, inventory, out);
        compare_host(want, inventory, out);
    }
    take_place("pod", inventory->pod, want->pod, out);
    take_place("rack", inventory->rack, want->rack, out);
    take_place("NVLink domain", inventory->nvlink, want->nvlink, out);
}

const struct cluster_spec *layout_cluster(const struct core *core)
{
    return core->config.cluster;
}
