/* cluster_read: walks the tree section by section. What a pod says is kept in a scope that its racks copy and change; a group of racks
 * then gets its nodes dealt out. Names that must be unique are noted with their places and compared once all are there; only when
 * all is well the nodes are sorted, and the what-ifs looked up among them. */
#include "schema/cluster_read.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/cluster_fields.h"
#include "schema/hostlist.h"
#include "schema/scalar.h"

#define MEMORY_MAX (INT64_C(1) << 50)

/* A name that may be there only once: a pod (pod, ""), a rack (pod, rack) or a node ("", node). */
struct given {
    char pod[CLUSTER_NAME_MAX + 1], name[CLUSTER_NAME_MAX + 1];
    struct mark at;
};

struct devices {
    char type[CLUSTER_NAME_MAX + 1]; /* as written, in small letters; "" = not said */
    int64_t per_node, cores, memory; /* 0 = not said */
};

enum { NVLINK_NONE = 0, NVLINK_RACK = -1 }; /* else nodes of a domain */

/* What holds for the racks of an entry. */
struct scope {
    const char *section; /* "pods" or "pods.racks" */
    struct hostlist pods;
    struct devices devices;
    int64_t nvlink;
    struct mark at, nvlink_at;
};

struct reader {
    struct diag *diag;
    size_t before; /* what diag held at the start */
    struct cluster_spec *spec;
    struct given *given;
    size_t n_given, given_room, nodes_room;
    size_t n_expanded; /* names that host lists stood for so far */
};

/* A node is named once by its rack, once as drained and once as taken, and there are never more racks and pods than nodes; twice that is
 * room enough. Without a limit a page of text could name billions. */
#define NAMES_MAX ((size_t)8 * CLUSTER_NODES_MAX)

/* ---- values ---- */

static const struct tree_node *value_of(const struct tree_node *section, const char *key)
{
    size_t at = tree_find(section, key);
    return at ? section->items[at] : NULL;
}

static const char *kind_name(const struct tree_node *node)
{
    if (tree_is_empty(node))
        return "empty";
    if (node->kind == TREE_SEQUENCE)
        return node->n_items ? "a list" : "an empty list";
    return node->kind == TREE_SCALAR ? "a single word" : "a mapping";
}

static int need_word(struct reader *r, const char *path, const struct tree_node *node)
{
    if (node->kind == TREE_SCALAR && node->text[0])
        return 0;
    diag_add(r->diag, node->at, "%s: must be a single value, not %s", path, kind_name(node));
    return -1;
}

/* Says what a reader of scalar.h or hostlist.h refused. */
static void refuse(struct reader *r, const char *path, const struct tree_node *node, const struct err *err)
{
    diag_add(r->diag, node->at, "%s: %s", path, err->text);
}

static void complain_unknown(struct reader *r, const char *section, const struct tree_node *key)
{
    char quoted[DIAG_QUOTE_SIZE], hint[300] = "";
    if (!diag_full(r->diag))
        cluster_field_explain(section, key->text, hint, sizeof hint);
    diag_add(r->diag, key->at, "unknown field %s%s%s%s", diag_quote(quoted, key->text),
             section[0] ? " in " : "", section, hint);
}

/* False when node is no mapping; complains about that, about keys that are unknown and about fields that are missing. */
static bool is_section(struct reader *r, const char *section, const struct tree_node *node)
{
    if (node->kind != TREE_MAPPING) {
        diag_add(r->diag, node->at, "%s%smust be a mapping of fields (key: value), not %s", section,
                 section[0] ? ": " : "a cluster file ", kind_name(node));
        return false;
    }
    for (size_t i = 0; i + 1 < node->n_items; i += 2)
        if (cluster_field_find(section, node->items[i]->text) == CLUSTER_FIELD_NONE)
            complain_unknown(r, section, node->items[i]);
    for (size_t i = 0; i < cluster_fields_count; i++)
        if (cluster_field_is_in(i, section) && cluster_field_required(i) &&
            !tree_find(node, cluster_field_key(i)))
            diag_add(r->diag, node->at, "%s is missing: %s", cluster_fields[i].path, cluster_fields[i].help);
    return true;
}

static void read_int(struct reader *r, const char *path, const struct tree_node *node, int64_t min,
                     int64_t max, int64_t *out)
{
    struct err err;
    if (node && need_word(r, path, node) == 0 && scalar_int(node->text, min, max, out, &err) < 0)
        refuse(r, path, node, &err);
}

static void read_size(struct reader *r, const char *path, const struct tree_node *node, int64_t *out)
{
    struct err err;
    if (node && need_word(r, path, node) == 0 && scalar_size(node->text, 0, MEMORY_MAX, out, &err) < 0)
        refuse(r, path, node, &err);
}

/* A name, in small letters when it is a type. */
static void read_name(struct reader *r, const char *path, const struct tree_node *node,
                      char out[CLUSTER_NAME_MAX + 1])
{
    char quoted[DIAG_QUOTE_SIZE];
    if (!node || need_word(r, path, node) < 0)
        return;
    if (hostlist_is_name(node->text))
        (void)snprintf(out, CLUSTER_NAME_MAX + 1, "%s", node->text);
    else
        diag_add(r->diag, node->at,
                 "%s: must be 1 to 63 letters, digits, \".\", \"_\" and \"-\", the first a letter or digit, "
                 "not %s",
                 path, diag_quote(quoted, node->text));
}

/* Counts the names of all lists together; says once when they are too many, and from then on no list is read. */
static void count_names(struct reader *r, const char *path, const struct tree_node *node,
                        struct hostlist *list)
{
    r->n_expanded += list->n;
    if (r->n_expanded <= NAMES_MAX)
        return;
    hostlist_clear(list);
    diag_add(r->diag, node->at,
             "%s: up to here the lists of this file stand for more than %zu names, and a cluster has at most "
             "%d nodes; name each node, rack and pod once",
             path, NAMES_MAX, CLUSTER_NODES_MAX);
}

/* The names of a host list; none when it is missing or wrong. */
static void read_names(struct reader *r, const char *path, const struct tree_node *node, struct hostlist *out)
{
    struct err err;
    *out = (struct hostlist){0};
    if (!node || r->n_expanded > NAMES_MAX || need_word(r, path, node) < 0)
        return;
    if (hostlist_expand(node->text, CLUSTER_NODES_MAX, out, &err) < 0)
        refuse(r, path, node, &err);
    else
        count_names(r, path, node, out);
}

/* "section.key" into a buffer; no word of the table has more than 31 bytes. Returns it. */
static const char *join(char out[64], const char *section, const char *key)
{
    (void)snprintf(out, 64, "%.31s%s%.31s", section, section[0] ? "." : "", key);
    return out;
}

/* ---- devices ---- */

/* Changes *out by what the section says; node is the value of `devices` and may be NULL. */
static void read_devices(struct reader *r, const char *section, const struct tree_node *node,
                         struct devices *out)
{
    char at[64], path[64];
    if (!node || tree_is_empty(node) || !is_section(r, join(at, section, "devices"), node))
        return;
    read_name(r, join(path, at, "type"), value_of(node, "type"), out->type);
    read_int(r, join(path, at, "per_node"), value_of(node, "per_node"), 1, LINK_RANKS_PER_NODE_MAX,
             &out->per_node);
    read_int(r, join(path, at, "cores"), value_of(node, "cores"), 0, 65536, &out->cores);
    read_size(r, join(path, at, "memory"), value_of(node, "memory"), &out->memory);
    for (char *c = out->type; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

/* ---- links ---- */

/* The levels as in the file; the first two are of one device. */
enum { LINK_MEMORY, LINK_PCIE, LINK_LEVELS, LINK_COUNT = LINK_LEVELS + DOMAIN_COUNT };
static const char *const link_names[LINK_COUNT] = {
    "links.memory", "links.pcie", "links.node", "links.nvlink", "links.rack", "links.pod", "links.cluster"};

static struct cluster_link *link_of(struct cluster_spec *spec, size_t i)
{
    if (i == LINK_MEMORY)
        return &spec->device_memory;
    return i == LINK_PCIE ? &spec->pcie : &spec->links[i - LINK_LEVELS];
}

/* Returns the node that gives the bandwidth, or NULL. */
static const struct tree_node *read_link(struct reader *r, const char *section, const struct tree_node *node,
                                         struct cluster_link *out)
{
    char path[64];
    struct err err;
    if (!node || tree_is_empty(node) || !is_section(r, section, node))
        return NULL;
    const struct tree_node *rate = value_of(node, "bandwidth"), *latency = value_of(node, "latency");
    (void)join(path, section, "bandwidth");
    if (rate && need_word(r, path, rate) == 0 && scalar_rate(rate->text, &out->bytes_per_s, &err) < 0)
        refuse(r, path, rate, &err);
    (void)join(path, section, "latency");
    if (latency && need_word(r, path, latency) == 0 &&
        scalar_latency(latency->text, &out->latency_s, &err) < 0)
        refuse(r, path, latency, &err);
    return rate;
}

/* A wider level never has more than a narrower one: a default gives way, what the file says is refused. */
static void order_link(struct reader *r, size_t level, const struct tree_node *given)
{
    struct cluster_link *wide = &r->spec->links[level], *narrow = &r->spec->links[level - 1];
    char more[SCALAR_PRINT_SIZE], less[SCALAR_PRINT_SIZE];
    if (wide->bytes_per_s <= narrow->bytes_per_s)
        return;
    if (given)
        diag_add(r->diag, given->at,
                 "%s.bandwidth: %s is more than the %s of %s; a wider part of the cluster cannot be faster",
                 link_names[LINK_LEVELS + level], scalar_print_rate(more, wide->bytes_per_s),
                 scalar_print_rate(less, narrow->bytes_per_s), link_names[LINK_LEVELS + level - 1]);
    wide->bytes_per_s = narrow->bytes_per_s;
}

static void read_links(struct reader *r, const struct tree_node *node)
{
    const struct tree_node *given[LINK_COUNT] = {NULL};
    if (node && !tree_is_empty(node)) {
        if (!is_section(r, "links", node))
            return;
        for (size_t i = 0; i < LINK_COUNT; i++)
            given[i] = read_link(r, link_names[i], value_of(node, link_names[i] + strlen("links.")),
                                 link_of(r->spec, i));
    }
    for (size_t level = 1; level < DOMAIN_COUNT; level++)
        order_link(r, level, given[LINK_LEVELS + level]);
}

/* ---- names that may be there only once ---- */

static void note_given(struct reader *r, const char *pod, const char *name, struct mark at)
{
    r->given = mem_one_more(r->given, r->n_given, &r->given_room, sizeof *r->given);
    struct given *g = &r->given[r->n_given++];
    (void)snprintf(g->pod, sizeof g->pod, "%s", pod);
    (void)snprintf(g->name, sizeof g->name, "%s", name);
    g->at = at;
}

static int compare_places(const struct mark *a, const struct mark *b)
{
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->column == b->column ? 0 : a->column < b->column ? -1 : 1;
}

static int compare_given(const void *pa, const void *pb)
{
    const struct given *a = pa, *b = pb;
    int c = strcmp(a->pod, b->pod);
    if (c == 0)
        c = strcmp(a->name, b->name);
    return c ? c : compare_places(&a->at, &b->at);
}

static void complain_twice(struct reader *r, const struct given *g, const struct mark *first)
{
    const char *what = !g->pod[0] ? "node" : g->name[0] ? "rack" : "pod";
    const char *of = g->pod[0] && g->name[0] ? " of pod " : "";
    diag_add(r->diag, g->at, "%s %s%s%s is given twice; it is already in line %zu, column %zu", what,
             g->name[0] ? g->name : g->pod, of, of[0] ? g->pod : "", first->line, first->column);
}

static void check_unique(struct reader *r)
{
    if (r->n_given > 1)
        qsort(r->given, r->n_given, sizeof *r->given, compare_given);
    for (size_t i = 1; i < r->n_given; i++)
        if (strcmp(r->given[i - 1].pod, r->given[i].pod) == 0 &&
            strcmp(r->given[i - 1].name, r->given[i].name) == 0)
            complain_twice(r, &r->given[i], &r->given[i - 1].at);
}

/* ---- dealing out nodes ---- */

static void add_node(struct reader *r, const struct scope *s, const char *pod, const char *rack, int domain,
                     const char *name)
{
    struct cluster_spec *spec = r->spec;
    spec->nodes = mem_one_more(spec->nodes, spec->n_nodes, &r->nodes_room, sizeof *spec->nodes);
    struct cluster_node *node = &spec->nodes[spec->n_nodes++];
    *node = (struct cluster_node){.gpu = strcmp(s->devices.type, "cpu") != 0,
                                  .slots = s->devices.per_node,
                                  .cores = s->devices.cores,
                                  .memory = s->devices.memory};
    (void)snprintf(node->name, sizeof node->name, "%s", name);
    (void)snprintf(node->pod, sizeof node->pod, "%s", pod);
    (void)snprintf(node->rack, sizeof node->rack, "%s", rack);
    if (strcmp(s->devices.type, "gpu") != 0)
        (void)snprintf(node->device, sizeof node->device, "%s", s->devices.type);
    if (domain > 0)
        (void)snprintf(node->nvlink, sizeof node->nvlink, "%.48s-nvl%d", rack, domain);
    else if (s->nvlink != NVLINK_NONE)
        (void)snprintf(node->nvlink, sizeof node->nvlink, "%s", rack);
}

/* n nodes into one rack. */
static void fill_rack(struct reader *r, const struct scope *s, const char *pod, const char *rack,
                      char *const *names, size_t n, struct mark at)
{
    bool cut = s->nvlink > 0 && (size_t)s->nvlink < n; /* several domains in this rack */
    for (size_t i = 0; i < n; i++) {
        note_given(r, "", names[i], at);
        add_node(r, s, pod, rack, cut ? (int)(i / (size_t)s->nvlink) + 1 : 0, names[i]);
    }
}

static bool deals_evenly(struct reader *r, const struct scope *s, size_t n_racks, size_t n_nodes,
                         struct mark at)
{
    if (n_nodes % n_racks == 0)
        return true;
    diag_add(r->diag, at,
             "%s.nodes: %zu node%s cannot be dealt evenly over %zu racks (pods: %zu, racks in each: %zu); "
             "make them a multiple of %zu, or give the racks one by one",
             s->section, n_nodes, n_nodes == 1 ? "" : "s", n_racks, s->pods.n, n_racks / s->pods.n, n_racks);
    return false;
}

static bool domains_fit(struct reader *r, const struct scope *s, size_t per_rack)
{
    if (s->nvlink <= 0 || per_rack % (size_t)s->nvlink == 0)
        return true;
    diag_add(r->diag, s->nvlink_at,
             "%s.nvlink: racks of %zu nodes cannot be cut into NVLink domains of %" PRId64 " nodes",
             s->section, per_rack, s->nvlink);
    return false;
}

static bool devices_are_said(struct reader *r, const struct scope *s)
{
    if (!s->devices.type[0])
        diag_add(r->diag, s->at,
                 "%s: its nodes have no type of devices; give devices.type here or at the top, such as "
                 "h100, gpu or cpu",
                 s->section);
    else if (s->devices.per_node == 0)
        diag_add(r->diag, s->at,
                 "%s: its nodes have no number of devices; give devices.per_node here or at the top",
                 s->section);
    return s->devices.type[0] && s->devices.per_node > 0;
}

static bool is_room(struct reader *r, const struct scope *s, size_t n_nodes, struct mark at)
{
    if (n_nodes <= CLUSTER_NODES_MAX - r->spec->n_nodes)
        return true;
    diag_add(r->diag, at, "%s.nodes: more than %d nodes in all, which is the most that a cluster may have",
             s->section, CLUSTER_NODES_MAX);
    return false;
}

/* Every pod of the scope gets all the racks; the nodes are dealt over them in order. */
static void deal(struct reader *r, const struct scope *s, const struct hostlist *racks, struct mark racks_at,
                 const struct hostlist *nodes, struct mark nodes_at)
{
    size_t n_racks = s->pods.n * racks->n;
    if (n_racks == 0 || nodes->n == 0) /* already said why */
        return;
    size_t per_rack = nodes->n / n_racks;
    if (!deals_evenly(r, s, n_racks, nodes->n, nodes_at) || !domains_fit(r, s, per_rack) ||
        !devices_are_said(r, s) || !is_room(r, s, nodes->n, nodes_at))
        return;
    char *const *names = nodes->names;
    for (size_t p = 0; p < s->pods.n; p++)
        for (size_t k = 0; k < racks->n; k++, names += per_rack) {
            note_given(r, s->pods.names[p], racks->names[k], racks_at);
            fill_rack(r, s, s->pods.names[p], racks->names[k], names, per_rack, nodes_at);
        }
}

/* ---- pods and racks ---- */

static void read_nvlink(struct reader *r, struct scope *s, const struct tree_node *node)
{
    char path[64], quoted[DIAG_QUOTE_SIZE];
    if (!node || need_word(r, join(path, s->section, "nvlink"), node) < 0)
        return;
    s->nvlink_at = node->at;
    if (strcmp(node->text, "none") == 0)
        s->nvlink = NVLINK_NONE;
    else if (strcmp(node->text, "rack") == 0)
        s->nvlink = NVLINK_RACK;
    else if (scalar_int(node->text, 2, CLUSTER_NODES_MAX, &s->nvlink, NULL) < 0)
        diag_add(r->diag, node->at, "%s: must be none, rack or a number of nodes from 2 to %d, not %s", path,
                 CLUSTER_NODES_MAX, diag_quote(quoted, node->text));
}

static void read_rack(struct reader *r, const struct scope *pod, const struct tree_node *node)
{
    struct scope s = *pod;
    struct hostlist racks, nodes;
    s.section = "pods.racks";
    s.at = node->at;
    if (!is_section(r, s.section, node))
        return;
    const struct tree_node *name = value_of(node, "name"), *list = value_of(node, "nodes");
    read_devices(r, s.section, value_of(node, "devices"), &s.devices);
    read_nvlink(r, &s, value_of(node, "nvlink"));
    read_names(r, "pods.racks.name", name, &racks);
    read_names(r, "pods.racks.nodes", list, &nodes);
    if (name && list)
        deal(r, &s, &racks, name->at, &nodes, list->at);
    hostlist_clear(&racks);
    hostlist_clear(&nodes);
}

static void read_rack_list(struct reader *r, const struct scope *s, const struct tree_node *racks,
                           const struct tree_node *nodes)
{
    if (nodes)
        diag_add(r->diag, nodes->at,
                 "pods.nodes: each of the racks names its own nodes; move these into pods.racks");
    if (racks->n_items == 0)
        diag_add(r->diag, racks->at, "pods.racks: must have at least one rack");
    for (size_t i = 0; i < racks->n_items; i++)
        read_rack(r, s, racks->items[i]);
}

static void read_alike_racks(struct reader *r, const struct scope *s, const struct tree_node *racks,
                             const struct tree_node *nodes)
{
    struct hostlist rack_names, node_names;
    read_names(r, "pods.racks", racks, &rack_names);
    read_names(r, "pods.nodes", nodes, &node_names);
    if (!nodes)
        diag_add(r->diag, s->at, "pods.nodes is missing: which nodes are in these racks?");
    else
        deal(r, s, &rack_names, racks->at, &node_names, nodes->at);
    hostlist_clear(&rack_names);
    hostlist_clear(&node_names);
}

static void read_pod(struct reader *r, const struct devices *devices, const struct tree_node *node)
{
    struct scope s = {.section = "pods", .devices = *devices, .at = node->at, .nvlink_at = node->at};
    if (!is_section(r, s.section, node))
        return;
    const struct tree_node *name = value_of(node, "name"), *racks = value_of(node, "racks");
    read_names(r, "pods.name", name, &s.pods);
    for (size_t i = 0; i < s.pods.n; i++)
        note_given(r, s.pods.names[i], "", name->at);
    read_devices(r, s.section, value_of(node, "devices"), &s.devices);
    read_nvlink(r, &s, value_of(node, "nvlink"));
    if (racks && racks->kind == TREE_SEQUENCE)
        read_rack_list(r, &s, racks, value_of(node, "nodes"));
    else if (racks)
        read_alike_racks(r, &s, racks, value_of(node, "nodes"));
    hostlist_clear(&s.pods);
}

static void read_pods(struct reader *r, const struct devices *devices, const struct tree_node *pods)
{
    if (pods->kind != TREE_SEQUENCE || pods->n_items == 0) {
        diag_add(r->diag, pods->at, "pods: must be a list of at least one pod, not %s", kind_name(pods));
        return;
    }
    for (size_t i = 0; i < pods->n_items; i++)
        read_pod(r, devices, pods->items[i]);
}

/* ---- what-ifs ---- */

static struct cluster_node *named(struct reader *r, const char *field, const char *name, struct mark at)
{
    const struct cluster_node *node = cluster_find(r->spec, name);
    if (!node)
        diag_add(r->diag, at, "%s: no pod of this file has a node %s", field, name);
    return node ? &r->spec->nodes[node - r->spec->nodes] : NULL;
}

static bool take(struct reader *r, const char *name, int64_t slots, struct mark at)
{
    struct cluster_node *node = named(r, "taken", name, at);
    if (node && slots > node->slots)
        diag_add(r->diag, at, "taken: node %s has %" PRId64 " slot%s, so %" PRId64 " cannot be in use", name,
                 node->slots, node->slots == 1 ? "" : "s", slots);
    else if (node)
        node->taken = slots;
    return node && slots <= node->slots;
}

static void read_taken(struct reader *r, const struct tree_node *node)
{
    if (!node || tree_is_empty(node))
        return;
    if (node->kind != TREE_MAPPING) {
        diag_add(r->diag, node->at, "taken: must be a mapping such as {\"gpu[1-4]\": 8}, not %s",
                 kind_name(node));
        return;
    }
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        struct hostlist names;
        int64_t slots = 0;
        read_names(r, "taken", node->items[i], &names);
        read_int(r, "taken", node->items[i + 1], 0, LINK_RANKS_PER_NODE_MAX, &slots);
        for (size_t k = 0; k < names.n && take(r, names.names[k], slots, node->items[i]->at); k++) {
        }
        hostlist_clear(&names);
    }
}

static void drain_names(struct reader *r, const struct tree_node *node)
{
    struct hostlist names;
    read_names(r, "drained", node, &names);
    for (size_t i = 0; i < names.n; i++) {
        struct cluster_node *found = named(r, "drained", names.names[i], node->at);
        if (!found)
            break;
        found->drained = true;
    }
    hostlist_clear(&names);
}

static void read_drained(struct reader *r, const struct tree_node *node)
{
    if (!node || tree_is_empty(node))
        return;
    if (node->kind != TREE_SEQUENCE)
        drain_names(r, node);
    else
        for (size_t i = 0; i < node->n_items; i++)
            drain_names(r, node->items[i]);
}

/* ---- the file ---- */

static void read_root(struct reader *r, const struct tree_node *root)
{
    struct devices devices = {0};
    if (!is_section(r, "", root))
        return;
    read_name(r, "name", value_of(root, "name"), r->spec->name);
    read_devices(r, "", value_of(root, "devices"), &devices);
    read_links(r, value_of(root, "links"));
    if (value_of(root, "pods"))
        read_pods(r, &devices, value_of(root, "pods"));
    check_unique(r);
    if (diag_count(r->diag) > r->before) /* the nodes are not all there */
        return;
    cluster_spec_finish(r->spec);
    read_taken(r, value_of(root, "taken"));
    read_drained(r, value_of(root, "drained"));
}

struct cluster_spec *cluster_read_tree(const struct tree_node *root, struct diag *d)
{
    struct reader r = {.diag = d, .before = diag_count(d), .spec = cluster_spec_new("cluster")};
    read_root(&r, root);
    free(r.given);
    if (diag_count(d) == r.before)
        return r.spec;
    cluster_spec_free(r.spec);
    return NULL;
}
