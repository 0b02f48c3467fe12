/* cluster: see cluster.h. cluster.json is written before the agents start, so what runs is never more than what it says. */
#include "launcher/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "schema/hostlist.h"

#define FILE_MAX_BYTES (1u << 20)
#define LOCK_WAIT_MS   30000

static int read_racks(const json_t *obj, struct cluster *out, struct err *err)
{
    json_t *racks;
    if (jsonx_array(obj, "rack_of_node", &racks, err) != 0)
        return -1;
    if ((int64_t)json_array_size(racks) != out->nodes)
        return err_set(err, "\"rack_of_node\" has %zu entries for %lld nodes", json_array_size(racks),
                       (long long)out->nodes);
    out->rack = mem_zero((size_t)out->nodes, sizeof *out->rack);
    for (size_t i = 0; i < (size_t)out->nodes; i++) {
        const json_t *v = json_array_get(racks, i);
        out->rack[i] = json_is_integer(v) ? json_integer_value(v) : -1;
        if (out->rack[i] < 0 || out->rack[i] >= out->racks)
            return err_set(err, "the rack of node%zu is not one from 0 to %lld", i,
                           (long long)out->racks - 1);
    }
    return 0;
}

/* What only a cluster of a file has. */
static int read_file_fields(const json_t *obj, struct cluster *out, struct err *err)
{
    const char *file = jsonx_str_or(obj, "file", NULL);
    json_t *names, *slots;
    if (!file)
        return 0;
    if (jsonx_array(obj, "names", &names, err) != 0 || jsonx_array(obj, "slots_of_node", &slots, err) != 0)
        return -1;
    if ((int64_t)json_array_size(names) != out->nodes || (int64_t)json_array_size(slots) != out->nodes)
        return err_set(err, "\"names\" and \"slots_of_node\" do not have %lld entries",
                       (long long)out->nodes);
    out->file = str_dup(file);
    out->name = mem_zero((size_t)out->nodes, sizeof *out->name);
    out->node_slots = mem_zero((size_t)out->nodes, sizeof *out->node_slots);
    for (size_t i = 0; i < (size_t)out->nodes; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        out->node_slots[i] = json_integer_value(json_array_get(slots, i));
        if (!name || !hostlist_is_name(name) || out->node_slots[i] < 1 || out->node_slots[i] > UP_SLOTS_MAX)
            return err_set(err, "node number %zu has no name or no number of slots", i);
        out->name[i] = str_dup(name);
    }
    return 0;
}

static int read_fields(const json_t *obj, struct cluster *out, struct err *err)
{
    if (jsonx_int(obj, "nodes", 1, UP_NODES_MAX, &out->nodes, err) != 0 ||
        jsonx_int(obj, "slots", 0, UP_SLOTS_MAX, &out->slots, err) != 0 ||
        jsonx_int(obj, "racks", 1, UP_NODES_MAX, &out->racks, err) != 0)
        return -1;
    return read_racks(obj, out, err) != 0 ? -1 : read_file_fields(obj, out, err);
}

int cluster_read(const char *dir, struct cluster *out, struct err *err)
{
    char *path = str_printf("%s/cluster.json", dir);
    int rc = 0;
    *out = (struct cluster){0};
    if (access(path, F_OK) == 0 || errno != ENOENT) {
        json_t *obj = jsonx_read_file(path, FILE_MAX_BYTES, err);
        rc = obj ? read_fields(obj, out, err) : -1;
        json_decref(obj);
    }
    if (rc != 0)
        err_prefix(err, "%s does not say what this cluster is", path);
    free(path);
    return rc;
}

static void write_file_fields(json_t *obj, const struct cluster *c)
{
    json_t *names = json_array(), *slots = json_array();
    for (int64_t i = 0; i < c->nodes; i++) {
        json_array_append_new(names, json_string(c->name[i]));
        json_array_append_new(slots, json_integer(c->node_slots[i]));
    }
    jsonx_set_str(obj, "file", c->file);
    jsonx_set(obj, "names", names);
    jsonx_set(obj, "slots_of_node", slots);
}

int cluster_write(const char *dir, const struct cluster *c, struct err *err)
{
    char *path = str_printf("%s/cluster.json", dir);
    json_t *obj = json_object(), *racks = json_array();
    for (int64_t i = 0; i < c->nodes; i++)
        json_array_append_new(racks, json_integer(c->rack[i]));
    jsonx_set(obj, "nodes", json_integer(c->nodes));
    jsonx_set(obj, "slots", json_integer(c->slots));
    jsonx_set(obj, "racks", json_integer(c->racks));
    jsonx_set(obj, "rack_of_node", racks);
    if (c->file)
        write_file_fields(obj, c);
    int rc = jsonx_write_file(path, obj, err);
    json_decref(obj);
    free(path);
    return rc;
}

void cluster_clear(struct cluster *c)
{
    for (int64_t i = 0; c->name && i < c->nodes; i++)
        free(c->name[i]);
    free(c->name);
    free(c->node_slots);
    free(c->file);
    free(c->rack);
    *c = (struct cluster){0};
}

/* The j-th of n nodes in contiguous blocks over racks first..first+count-1. */
static int64_t block(int64_t j, int64_t n, int64_t first, int64_t count)
{
    return first + j * count / n;
}

static int refuse_change(const struct cluster *c, int64_t nodes, int64_t slots, int64_t racks,
                         struct err *err)
{
    const char *what = nodes < c->nodes ? "nodes" : racks < c->racks ? "racks" : NULL;
    int64_t asked = nodes < c->nodes ? nodes : racks;
    if (what)
        return err_set(
            err,
            "this cluster has %lld node%s in %lld rack%s and cannot shrink to %lld %.*s: leave --%s "
            "away, or make "
            "another cluster with another --dir",
            (long long)c->nodes, c->nodes == 1 ? "" : "s", (long long)c->racks, c->racks == 1 ? "" : "s",
            (long long)asked, asked == 1 ? 4 : 5, what, what); /* "node" or "rack" */
    if (slots != c->slots)
        return err_set(
            err,
            "this cluster has %lld slots a node and keeps them: leave --slots away, or make another cluster "
            "with another --dir",
            (long long)c->slots);
    return 0;
}

static int64_t first_slots(int64_t nodes, int64_t slots, int64_t cores)
{
    if (slots || nodes == 1)
        return slots;
    return cores / nodes > 0 ? cores / nodes : 1;
}

int cluster_ask(struct cluster *c, int64_t nodes, int64_t slots, int64_t racks, int64_t cores,
                struct err *err)
{
    bool first = c->nodes == 0;
    int64_t old_nodes = c->nodes, old_racks = c->racks;
    nodes = nodes ? nodes : first ? 1 : c->nodes;
    racks = racks ? racks : first ? 1 : c->racks;
    slots = first ? first_slots(nodes, slots, cores) : slots ? slots : c->slots;
    if (!first && refuse_change(c, nodes, slots, racks, err) != 0)
        return -1;
    if (racks - old_racks > nodes - old_nodes)
        return err_set(err,
                       "%lld new racks cannot be filled by %lld new nodes: give at least one node per rack",
                       (long long)(racks - old_racks), (long long)(nodes - old_nodes));
    int64_t base = racks > old_racks ? old_racks : 0, count = racks - base;
    c->rack = mem_grow(c->rack, (size_t)nodes, sizeof *c->rack);
    for (int64_t i = old_nodes; i < nodes; i++)
        c->rack[i] = block(i - old_nodes, nodes - old_nodes, base, count);
    c->nodes = nodes;
    c->racks = racks;
    c->slots = slots;
    return 0;
}

/* ---- nodes of a cluster file ---- */

static int check_file(const struct cluster *c, const struct cluster_spec *spec, const char *path,
                      int64_t nodes, struct err *err)
{
    if (nodes > (int64_t)spec->n_nodes)
        return err_set(err, "%s lists %zu node%s, not %lld", path, spec->n_nodes,
                       spec->n_nodes == 1 ? "" : "s", (long long)nodes);
    if (nodes > UP_FILE_NODES_MAX)
        return err_set(
            err, "%s lists %zu nodes; on one host the first %d of them at most can be played: give --nodes",
            path, spec->n_nodes, UP_FILE_NODES_MAX);
    if (c->nodes > 0 && (!c->file || strcmp(c->file, path) != 0))
        return err_set(err,
                       "this cluster was not made from %s but %s%s: make another cluster with another --dir",
                       path, c->file ? "from " : "without a cluster file", c->file ? c->file : "");
    if (nodes < c->nodes)
        return err_set(
            err,
            "this cluster has %lld nodes and cannot shrink to %lld: make another cluster with another --dir",
            (long long)c->nodes, (long long)nodes);
    for (int64_t i = 0; i < c->nodes; i++)
        if (strcmp(c->name[i], spec->nodes[i].name) != 0)
            return err_set(err,
                           "%s has changed: its node number %lld is %s now, and was %s; make another cluster "
                           "with another --dir",
                           path, (long long)i + 1, spec->nodes[i].name, c->name[i]);
    return 0;
}

int cluster_ask_file(struct cluster *c, const struct cluster_spec *spec, const char *path, int64_t nodes,
                     struct err *err)
{
    nodes = nodes ? nodes : c->nodes ? c->nodes : (int64_t)spec->n_nodes;
    if (check_file(c, spec, path, nodes, err) != 0)
        return -1;
    if (!c->file)
        c->file = str_dup(path);
    c->rack = mem_grow(c->rack, (size_t)nodes, sizeof *c->rack);
    c->name = mem_grow(c->name, (size_t)nodes, sizeof *c->name);
    c->node_slots = mem_grow(c->node_slots, (size_t)nodes, sizeof *c->node_slots);
    for (int64_t i = c->nodes; i < nodes; i++) {
        const struct cluster_node *node = &spec->nodes[i];
        bool another =
            i == 0 || strcmp(node[-1].pod, node->pod) != 0 || strcmp(node[-1].rack, node->rack) != 0;
        c->racks += another;
        c->rack[i] = c->racks - 1;
        c->name[i] = str_dup(node->name);
        c->node_slots[i] = node->slots;
    }
    c->nodes = nodes;
    return 0;
}

char *cluster_node_name(const struct cluster *c, int64_t node)
{
    return c->file ? str_dup(c->name[node]) : str_printf("node%lld", (long long)node);
}

int64_t cluster_node_slots(const struct cluster *c, int64_t node)
{
    return c->file ? c->node_slots[node] : c->slots;
}

char *cluster_agent_dir(const char *dir, const char *name)
{
    return str_printf("%s/agents/%s", dir, name);
}

int cluster_lock(const char *dir, struct err *err)
{
    char *path = str_printf("%s/cluster.lock", dir);
    int64_t end = clock_boot_ms() + LOCK_WAIT_MS;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), rc = -1;
    if (fd < 0) {
        err_sys(err, "cannot open %s", path);
        goto out;
    }
    while ((rc = flock(fd, LOCK_EX | LOCK_NB)) != 0 && errno == EWOULDBLOCK && clock_boot_ms() < end)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (rc != 0) {
        err_sys(err, "another `belay up` or `belay down` is working on %s: wait for it to end", dir);
        close(fd);
        fd = -1;
    }
out:
    free(path);
    return fd;
}
