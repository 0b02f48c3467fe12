/* link: the C forms of what controller, agent and shim tell each other (docs/protocols.md), with encoders and decoders.
 *
 * Decoders check every field (they read what a peer sent), return -1 with a sentence and leave *out zeroed on error.
 * Decoded structs own their strings; free them with the matching *_clear, which is safe on a zeroed struct. */
#ifndef BELAY_SCHEMA_LINK_H
#define BELAY_SCHEMA_LINK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "schema/states.h"

#define LINK_VERSION            1
#define LINK_NODE_NAME_MAX      63
#define LINK_RANKS_PER_NODE_MAX 1024

struct link_rank_slot {
    int64_t rank, slot;
};

struct link_map_node {
    char *node, *addr;
    char *
        domain; /* its rack, with its pod where racks have one; nodes of one domain may fail together. "" = not known */
    int64_t port, master_port;
    int64_t *ranks;
    size_t n_ranks;
};

/* ORDER */
struct link_order {
    int64_t job, attempt;
    enum order_phase phase;
    char *token, *name, *user, *cwd, *spec, *device,
        *reason; /* device: cpu, gpu, or auto = what the node has */
    int64_t uid, gid;
    char **argv; /* NULL-terminated */
    size_t argc;
    char **env_keys, **env_values;
    size_t n_env;
    char **
        resume; /* paths of checkpoints that a program announced, newest first: BELAY_RESUME_FROM is the first that is there */
    size_t n_resume;
    int64_t cpus, memory, world, node_rank, nodes, grace_ms, checkpoint;
    bool kill;
    bool memory_tier, buddy; /* copies in memory; and on another node, too */
    struct link_rank_slot *ranks;
    size_t n_ranks;
    struct link_map_node *map; /* from go on; else n_map 0 */
    size_t n_map;
    bool map_borrowed; /* the map belongs to somebody else and outlives the order */
};

struct link_rank {
    int64_t rank, slot, pid;
    uint64_t start;
    enum rank_state state;
    int code, signal;
    bool connected, finalized;
    int64_t started_ms, ended_ms;
    char why[128];
};

/* REPORT */
struct link_report {
    int64_t job, attempt, rev;
    enum report_phase phase;
    char reason[512];
    int64_t port, master_port;
    struct link_rank *ranks;
    size_t n_ranks;
};

struct link_gpu {
    int64_t index, memory;
    char name[64], uuid[64];
};

struct link_inventory {
    int64_t slots, cores, memory;
    bool gpu;
    char hostname[64], address[64], rack[64], pod[64], version[32];
    char nvlink[64]; /* its NVLink domain when that is wider than the node, else "" */
    struct link_gpu *gpus;
    size_t n_gpus;
};

struct link_progress {
    int64_t job, attempt, rank;
    json_t *values; /* object of strings */
};

/* type_or_null: the "t" of the message; NULL for an element of a list. Texts that are not UTF-8 are sent with '?' in place of the
 * wrong bytes. */
json_t *link_order_encode(const struct link_order *order, const char *type_or_null);
int link_order_decode(const json_t *obj, struct link_order *out, struct err *err);
void link_order_clear(struct link_order *order);
/* The map alone, as it stands in an order. */
json_t *link_map_encode(const struct link_map_node *map, size_t n_map);
void link_map_free(struct link_map_node *map, size_t n_map); /* takes NULL */

json_t *link_report_encode(const struct link_report *report, const char *type_or_null);
int link_report_decode(const json_t *obj, struct link_report *out, struct err *err);
void link_report_clear(struct link_report *report);
/* Replaces *to (zeroed or valid) by a deep copy. */
void link_report_copy(struct link_report *to, const struct link_report *from);

json_t *link_inventory_encode(const struct link_inventory *inventory);
int link_inventory_decode(const json_t *obj, struct link_inventory *out, struct err *err);
void link_inventory_clear(struct link_inventory *inventory);

/* Encoding puts "t" itself and copies the values; decoding shares them with obj (a reference, not a copy). */
json_t *link_progress_encode(const struct link_progress *progress);
int link_progress_decode(const json_t *obj, struct link_progress *out, struct err *err);
void link_progress_clear(struct link_progress *progress);

#endif
