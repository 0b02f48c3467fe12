/* cluster: the way from bytes to a spec (tree.c, then cluster_read.c), and looking things up in one. */
#include "schema/cluster.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "schema/cluster_read.h"

/* ---- defaults ---- */

/* Per device and direction. NVLink 4 has 900 GB/s and PCIe 5.0 x16 has 128 GB/s in both directions together (NVIDIA H100 datasheet);
 * HBM is rounded from its 3.35 TB/s; between nodes one 400 Gb/s adapter for each device. */
static const struct cluster_link default_memory = {3e12, 100e-9};
static const struct cluster_link default_pcie = {64e9, 1e-6};

void cluster_links_default(struct cluster_link links[DOMAIN_COUNT])
{
    static const struct cluster_link defaults[DOMAIN_COUNT] = {
        [DOMAIN_NODE] = {450e9, 5e-6}, [DOMAIN_NVLINK] = {450e9, 5e-6}, [DOMAIN_RACK] = {50e9, 2e-6},
        [DOMAIN_POD] = {50e9, 3e-6},   [DOMAIN_CLUSTER] = {50e9, 5e-6},
    };
    memcpy(links, defaults, sizeof defaults);
}

struct cluster_spec *cluster_spec_new(const char *name)
{
    struct cluster_spec *spec = mem_zero(1, sizeof *spec);
    (void)snprintf(spec->name, sizeof spec->name, "%s", name);
    cluster_links_default(spec->links);
    spec->pcie = default_pcie;
    spec->device_memory = default_memory;
    return spec;
}

/* ---- reading ---- */

static int finish(struct diag *d, struct cluster_spec *spec, struct cluster_spec **out,
                  struct job_diagnostics *diagnostics)
{
    *out = spec;
    diag_finish(d, diagnostics);
    diag_free(d);
    return spec ? 0 : -1;
}

int cluster_spec_parse(const char *text, size_t len, const char *file, struct cluster_spec **out,
                       struct job_diagnostics *diagnostics)
{
    struct diag *d = diag_new(file);
    diag_set_kind(d, "cluster");
    struct tree_node *root = tree_parse(text, len, NULL, d);
    struct cluster_spec *spec = root ? cluster_read_tree(root, d) : NULL;
    tree_free(root);
    if (spec && diag_count(d) > 0) { /* keys that were there twice */
        cluster_spec_free(spec);
        spec = NULL;
    }
    return finish(d, spec, out, diagnostics);
}

int cluster_spec_load(const char *path, struct cluster_spec **out, struct job_diagnostics *diagnostics)
{
    bool standard = strcmp(path, "-") == 0;
    struct err err;
    size_t len = 0;
    char *text = fs_read(standard ? "/dev/stdin" : path, JOB_FILE_MAX, &len, &err);
    if (!text) {
        struct diag *d = diag_new(standard ? "stdin" : path);
        diag_add(d, (struct mark){1, 1, NULL}, "%s", err.text);
        return finish(d, NULL, out, diagnostics);
    }
    int rc = cluster_spec_parse(text, len, standard ? "stdin" : path, out, diagnostics);
    free(text);
    return rc;
}

void cluster_spec_free(struct cluster_spec *spec)
{
    if (!spec)
        return;
    free(spec->nodes);
    free(spec->index);
    free(spec);
}

/* ---- finding ---- */

/* Open addressing with linear probing, at most half full. */
struct cluster_index {
    size_t mask;
    uint32_t slots[]; /* number of a node + 1; 0 = empty */
};

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t hash_name(const char *name)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return h ^ h >> 32;
}

static struct cluster_index *index_new(const struct cluster_node *nodes, size_t n_nodes)
{
    size_t size = 16;
    while (size < 2 * n_nodes)
        size *= 2;
    struct cluster_index *index = mem_zero(1, sizeof *index + size * sizeof(uint32_t));
    index->mask = size - 1;
    for (size_t i = 0; i < n_nodes; i++) {
        size_t at = hash_name(nodes[i].name) & index->mask;
        while (index->slots[at])
            at = (at + 1) & index->mask;
        index->slots[at] = (uint32_t)i + 1;
    }
    return index;
}

static const struct cluster_node *find_slowly(const struct cluster_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_nodes; i++)
        if (strcmp(spec->nodes[i].name, name) == 0)
            return &spec->nodes[i];
    return NULL;
}

const struct cluster_node *cluster_find(const struct cluster_spec *spec, const char *name)
{
    const struct cluster_index *index = spec->index;
    if (!index)
        return find_slowly(spec, name);
    for (size_t at = hash_name(name) & index->mask; index->slots[at]; at = (at + 1) & index->mask) {
        const struct cluster_node *node = &spec->nodes[index->slots[at] - 1];
        if (strcmp(node->name, name) == 0)
            return node;
    }
    return NULL;
}

static int compare_nodes(const void *a, const void *b)
{
    return cluster_topology_compare(a, b);
}

void cluster_spec_finish(struct cluster_spec *spec)
{
    if (spec->n_nodes > 1)
        qsort(spec->nodes, spec->n_nodes, sizeof *spec->nodes, compare_nodes);
    free(spec->index);
    spec->index = index_new(spec->nodes, spec->n_nodes);
}

/* ---- order ---- */

static size_t digits(const char *s)
{
    size_t n = 0;
    while (isdigit((unsigned char)s[n]))
        n++;
    return n;
}

/* Compares the numbers at the front of a and b: shorter without leading zeros is less. */
static int compare_numbers(const char **a, const char **b)
{
    while (**a == '0' && isdigit((unsigned char)(*a)[1]))
        (*a)++;
    while (**b == '0' && isdigit((unsigned char)(*b)[1]))
        (*b)++;
    size_t na = digits(*a), nb = digits(*b);
    int c = na != nb ? (na < nb ? -1 : 1) : strncmp(*a, *b, na);
    *a += na;
    *b += nb;
    return c;
}

int cluster_name_compare(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x && *y) {
        if (isdigit((unsigned char)*x) && isdigit((unsigned char)*y)) {
            int c = compare_numbers(&x, &y);
            if (c != 0)
                return c;
        } else if (*x != *y) {
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++;
            y++;
        }
    }
    if (*x || *y)
        return *x ? 1 : -1;
    return strcmp(a, b); /* node01 and node1 are two names */
}

int cluster_topology_compare(const struct cluster_node *a, const struct cluster_node *b)
{
    int c = cluster_name_compare(a->pod, b->pod);
    if (c == 0)
        c = cluster_name_compare(a->rack, b->rack);
    if (c == 0)
        c = cluster_name_compare(a->nvlink, b->nvlink);
    return c != 0 ? c : cluster_name_compare(a->name, b->name);
}
