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

static int read_fields(const json_t *obj, struct cluster *out, struct err *err)
{
    if (jsonx_int(obj, "nodes", 1, CLUSTER_NODES_MAX, &out->nodes, err) != 0 ||
        jsonx_int(obj, "slots", 0, CLUSTER_SLOTS_MAX, &out->slots, err) != 0 ||
        jsonx_int(obj, "racks", 1, CLUSTER_NODES_MAX, &out->racks, err) != 0)
        return -1;
    return read_racks(obj, out, err);
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
    int rc = jsonx_write_file(path, obj, err);
    json_decref(obj);
    free(path);
    return rc;
}

void cluster_clear(struct cluster *c)
{
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

char *cluster_agent_dir(const char *dir, int64_t node)
{
    return str_printf("%s/agents/node%lld", dir, (long long)node);
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
