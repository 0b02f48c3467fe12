/* cluster_fields: the table, and looking things up in it. */
#include "schema/cluster_fields.h"

#include <stdio.h>
#include <string.h>

#include "schema/suggest.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* Devices can be said at the top, for a pod and for a rack. */
#define DEVICES(at, otherwise)                                                                               \
    {at, "section", otherwise, "what each node has"},                                                        \
        {at ".type", "name", otherwise,                                                                      \
         "type of GPU such as h100 (`belay plan` lists those it knows), gpu for GPUs of no known type, or "  \
         "cpu"},                                                                                             \
        {at ".per_node", "whole number, 1 to 1024", otherwise, "devices of a node: its slots"},              \
        {at ".cores", "whole number, 0 to 65536", otherwise, "cores of a node; 0 = not said"},               \
    {                                                                                                        \
        at ".memory", "size", otherwise, "host memory of a node; 0 = not said"                               \
    }

#define LINK(level, rate, latency, what)                                                                     \
    {"links." level, "section", "", what}, {"links." level ".bandwidth", "rate", rate, "of one device"},     \
    {                                                                                                        \
        "links." level ".latency", "latency", latency, "of one message"                                      \
    }

#define INHERITED "as around it"

const struct cluster_field cluster_fields[] = {
    {"name", "name", "cluster", "what listings call the cluster"},

    DEVICES("devices", ""),

    {"links", "section", "", "how fast two devices talk, by the smallest part that holds both"},
    LINK("memory", "3TB/s", "100ns", "a device and its own memory"),
    LINK("pcie", "64GB/s", "1us", "a device and its host"),
    LINK("node", "450GB/s", "5us", "two devices of one node"),
    LINK("nvlink", "450GB/s, or that of node if less", "5us", "two nodes of one NVLink domain"),
    LINK("rack", "50GB/s, or that of nvlink if less", "2us", "two NVLink domains of one rack"),
    LINK("pod", "50GB/s, or that of rack if less", "3us", "two racks of one pod"),
    LINK("cluster", "50GB/s, or that of pod if less", "5us", "two pods"),

    {"pods", "list of sections", "required", "the pods, in any order"},
    {"pods.name", "host list", "required", "one pod, or several alike"},
    {"pods.racks", "host list, or list of sections", "required",
     "racks that are alike, each pod having all of them; or one section for each kind of rack"},
    {"pods.nodes", "host list", "",
     "dealt evenly over all racks, the first nodes into the first rack; only when racks is a host list"},
    {"pods.nvlink", "none, rack or a number of nodes", "none",
     "NVLink domains wider than a node: each rack is one, or runs of that many nodes of a rack are"},
    DEVICES("pods.devices", INHERITED),
    {"pods.racks.name", "host list", "required", "one rack, or several alike"},
    {"pods.racks.nodes", "host list", "required", "dealt evenly over these racks"},
    {"pods.racks.nvlink", "none, rack or a number of nodes", INHERITED, "as pods.nvlink"},
    DEVICES("pods.racks.devices", INHERITED),

    {"taken", "mapping of host lists to whole numbers", "",
     "what-if for plan and sim: so many slots of each of these nodes are in use"},
    {"drained", "host list, or list of host lists", "", "what-if for plan and sim: these nodes are drained"},
};
const size_t cluster_fields_count = COUNT(cluster_fields);

bool cluster_field_is_in(size_t field, const char *section)
{
    const char *path = cluster_fields[field].path;
    size_t len = strlen(section);
    if (len == 0)
        return !strchr(path, '.');
    return strncmp(path, section, len) == 0 && path[len] == '.' && !strchr(path + len + 1, '.');
}

const char *cluster_field_key(size_t field)
{
    const char *dot = strrchr(cluster_fields[field].path, '.');
    return dot ? dot + 1 : cluster_fields[field].path;
}

bool cluster_field_required(size_t field)
{
    return strcmp(cluster_fields[field].fallback, "required") == 0;
}

size_t cluster_field_find(const char *section, const char *key)
{
    for (size_t i = 0; i < cluster_fields_count; i++)
        if (cluster_field_is_in(i, section) && strcmp(cluster_field_key(i), key) == 0)
            return i;
    return CLUSTER_FIELD_NONE;
}

void cluster_field_explain(const char *section, const char *key, char *out, size_t size)
{
    const char *words[COUNT(cluster_fields)];
    size_t n = 0, used = 0;
    for (size_t i = 0; i < cluster_fields_count; i++)
        if (cluster_field_is_in(i, section))
            words[n++] = cluster_field_key(i);
    const char *nearest = suggest_nearest(key, words, n);
    if (nearest) {
        (void)snprintf(out, size, "; did you mean \"%s\"?", nearest);
        return;
    }
    for (size_t i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "; allowed here: ", words[i]);
}

void cluster_field_document(size_t field, char *out, size_t size)
{
    const struct cluster_field *f = &cluster_fields[field];
    (void)snprintf(out, size, "| `%s` | %s | %s | %s |", f->path, f->type, f->fallback, f->help);
}
