/* link_order: ORDER, one attempt on one node. Encoding trusts its struct; decoding trusts nothing: every number has a range,
 * every text and list a size, ranks are within the world and named once, and a `go` has the map of all nodes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "schema/job.h"
#include "schema/link.h"
#include "schema/link_read.h"

#define TEXT_MAX 4096 /* names, paths, reasons */
#define SPEC_MAX                                                                                             \
    (4u << 20) /* a completed job file; the written form may be longer than the one that was read */
#define ARGS_MAX         4096
#define ARG_MAX_LEN      (128u << 10) /* the kernel's MAX_ARG_STRLEN */
#define ENV_MAX          4096
#define RESUME_MAX       64
#define ENV_KEY_MAX      1024
#define GRACE_MAX        (INT64_C(366) * 24 * 3600 * 1000)
#define DOMAIN_MAX       127 /* two names of the inventory and what is between them */
#define MEMORY_TIER_KEYS 16
#define UID_MAX_ID       (INT64_C(0xfffffffe))

static json_t *encode_ranks(const struct link_order *o)
{
    json_t *ranks = json_array();
    for (size_t i = 0; i < o->n_ranks; i++) {
        json_t *rank = json_object();
        jsonx_set(rank, "rank", json_integer(o->ranks[i].rank));
        jsonx_set(rank, "slot", json_integer(o->ranks[i].slot));
        (void)json_array_append_new(ranks, rank);
    }
    return ranks;
}

static json_t *encode_map_node(const struct link_map_node *m)
{
    json_t *node = json_object();
    json_t *ranks = json_array();
    for (size_t i = 0; i < m->n_ranks; i++)
        (void)json_array_append_new(ranks, json_integer(m->ranks[i]));
    jsonx_set(node, "node", link_json_text(m->node));
    jsonx_set(node, "addr", link_json_text(m->addr));
    if (m->domain && m->domain[0])
        jsonx_set(node, "domain", link_json_text(m->domain));
    jsonx_set(node, "port", json_integer(m->port));
    jsonx_set(node, "master_port", json_integer(m->master_port));
    jsonx_set(node, "ranks", ranks);
    return node;
}

json_t *link_map_encode(const struct link_map_node *map, size_t n_map)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_map; i++)
        (void)json_array_append_new(list, encode_map_node(&map[i]));
    return list;
}

static json_t *encode_argv(const struct link_order *o)
{
    json_t *argv = json_array();
    for (size_t i = 0; i < o->argc; i++)
        (void)json_array_append_new(argv, link_json_text(o->argv[i]));
    return argv;
}

static json_t *encode_resume(const struct link_order *o)
{
    json_t *paths = json_array();
    for (size_t i = 0; i < o->n_resume; i++)
        (void)json_array_append_new(paths, link_json_text(o->resume[i]));
    return paths;
}

static json_t *encode_env(const struct link_order *o)
{
    json_t *env = json_object();
    for (size_t i = 0; i < o->n_env; i++)
        jsonx_set(env, o->env_keys[i], link_json_text(o->env_values[i]));
    return env;
}

static void encode_numbers(json_t *obj, const struct link_order *o)
{
    jsonx_set(obj, "uid", json_integer(o->uid));
    jsonx_set(obj, "gid", json_integer(o->gid));
    jsonx_set(obj, "cpus", json_integer(o->cpus));
    jsonx_set(obj, "memory", json_integer(o->memory));
    jsonx_set(obj, "world", json_integer(o->world));
    jsonx_set(obj, "node_rank", json_integer(o->node_rank));
    jsonx_set(obj, "nodes", json_integer(o->nodes));
    jsonx_set(obj, "grace_ms", json_integer(o->grace_ms));
    jsonx_set(obj, "checkpoint", json_integer(o->checkpoint));
    jsonx_set(obj, "kill", json_boolean(o->kill));
    if (o->memory_tier)
        jsonx_set(obj, "memory_tier", json_pack("{s:b}", "buddy", (int)o->buddy));
}

static void encode_texts(json_t *obj, const struct link_order *o)
{
    jsonx_set(obj, "token", link_json_text(o->token));
    jsonx_set(obj, "name", link_json_text(o->name));
    jsonx_set(obj, "user", link_json_text(o->user));
    jsonx_set(obj, "cwd", link_json_text(o->cwd));
    jsonx_set(obj, "spec", link_json_text(o->spec));
    jsonx_set(obj, "device", link_json_text(o->device));
    jsonx_set(obj, "reason", link_json_text(o->reason));
}

json_t *link_order_encode(const struct link_order *order, const char *type_or_null)
{
    json_t *obj = json_object();
    if (type_or_null)
        jsonx_set(obj, "t", link_json_text(type_or_null));
    jsonx_set(obj, "job", json_integer(order->job));
    jsonx_set(obj, "attempt", json_integer(order->attempt));
    jsonx_set(obj, "phase", link_json_text(order_phase_name(order->phase)));
    encode_texts(obj, order);
    encode_numbers(obj, order);
    jsonx_set(obj, "argv", encode_argv(order));
    jsonx_set(obj, "env", encode_env(order));
    jsonx_set(obj, "ranks", encode_ranks(order));
    if (order->n_resume > 0)
        jsonx_set(obj, "resume", encode_resume(order));
    if (order->n_map > 0)
        jsonx_set(obj, "map", link_map_encode(order->map, order->n_map));
    return obj;
}

/* ---- decoding ---- */

static void decode_texts(struct link_reader *r, struct link_order *o)
{
    o->token = link_text(r, "token", TEXT_MAX);
    o->name = link_text(r, "name", JOB_NAME_MAX);
    o->user = link_text(r, "user", TEXT_MAX);
    o->cwd = link_text(r, "cwd", TEXT_MAX);
    o->spec = link_text(r, "spec", SPEC_MAX);
    o->device = link_text(r, "device", TEXT_MAX);
    o->reason = link_text_or_empty(r, "reason", TEXT_MAX);
    if (r->failed)
        return;
    if (strlen(o->token) != 32 || strspn(o->token, "0123456789abcdef") != 32)
        link_fail(r, "\"token\" is not 32 lower-case hex digits");
    if (o->cwd[0] != '/')
        link_fail(r, "\"cwd\" is not an absolute path");
    if (strcmp(o->device, "cpu") != 0 && strcmp(o->device, "gpu") != 0 && strcmp(o->device, "auto") != 0)
        link_fail(r, "\"device\" is none of cpu, gpu and auto");
}

static void decode_numbers(struct link_reader *r, struct link_order *o)
{
    o->job = link_int(r, "job", 1, INT64_MAX);
    o->attempt = link_int(r, "attempt", 1, INT64_MAX);
    o->uid = link_int(r, "uid", 0, UID_MAX_ID);
    o->gid = link_int(r, "gid", 0, UID_MAX_ID);
    o->cpus = link_int(r, "cpus", 1, 65536);
    o->memory = link_int(r, "memory", 0, INT64_MAX);
    o->world = link_int(r, "world", 1, JOB_RANKS_MAX);
    o->nodes = link_int(r, "nodes", 1, o->world);
    o->node_rank = link_int(r, "node_rank", 0, o->nodes - 1);
    o->grace_ms = link_int(r, "grace_ms", 0, GRACE_MAX);
    o->checkpoint = link_int_or(r, "checkpoint", 0, INT64_MAX, 0);
    o->kill = link_bool_or(r, "kill", false);
}

static void decode_memory_tier(struct link_reader *r, struct link_order *o)
{
    const json_t *tier = link_object_or(r, "memory_tier", MEMORY_TIER_KEYS);
    o->memory_tier = tier != NULL;
    if (!tier)
        return;
    struct link_reader e = link_reader_child(r, tier, "order memory_tier");
    o->buddy = link_bool_or(&e, "buddy", false);
    link_reader_join(r, &e);
}

static void decode_phase(struct link_reader *r, struct link_order *o)
{
    char word[32];
    link_text_into(r, "phase", word, sizeof word, true);
    int phase = order_phase_parse(word);
    if (phase < 0)
        link_fail(r, "\"phase\" is \"%s\", allowed is prepare, go or stop", word);
    else
        o->phase = (enum order_phase)phase;
}

static void decode_argv(struct link_reader *r, struct link_order *o)
{
    const json_t *array = link_array(r, "argv", 1, ARGS_MAX);
    size_t n = json_array_size(array);
    o->argv = mem_zero(n + 1, sizeof *o->argv);
    for (size_t i = 0; i < n && !r->failed; i++)
        o->argv[o->argc++] = str_dup(link_element_text(r, "argv", json_array_get(array, i), ARG_MAX_LEN - 1));
}

static void decode_env_entry(struct link_reader *r, struct link_order *o, const char *key,
                             const json_t *value)
{
    const char *text = link_element_text(r, "env", value, ARG_MAX_LEN - 1);
    if (!text)
        return;
    if (key[0] == '\0' || strchr(key, '=') || strlen(key) > ENV_KEY_MAX) {
        link_fail(r, "\"env\" has a name that is empty, too long or holds '='");
        return;
    }
    o->env_keys[o->n_env] = str_dup(key);
    o->env_values[o->n_env++] = str_dup(text);
}

static void decode_env(struct link_reader *r, struct link_order *o)
{
    json_t *env = link_object_or(r, "env", ENV_MAX);
    const char *key = NULL;
    json_t *value = NULL;
    size_t n = json_object_size(env);
    o->env_keys = mem_zero(n + 1, sizeof *o->env_keys);
    o->env_values = mem_zero(n + 1, sizeof *o->env_values);
    json_object_foreach(env, key, value)
    {
        decode_env_entry(r, o, key, value);
    }
}

static void decode_resume(struct link_reader *r, struct link_order *o)
{
    const json_t *array = link_array_or(r, "resume", RESUME_MAX);
    size_t n = json_array_size(array);
    o->resume = mem_zero(n + 1, sizeof *o->resume);
    for (size_t i = 0; i < n && !r->failed; i++) {
        const char *path = link_element_text(r, "resume", json_array_get(array, i), ARG_MAX_LEN - 1);
        if (path && path[0] != '/')
            link_fail(r, "\"resume\" holds a path that is not absolute");
        o->resume[o->n_resume++] = str_dup(path);
    }
}

static void check_unique_ranks(struct link_reader *r, const struct link_order *o, size_t i)
{
    for (size_t k = 0; k < i && !r->failed; k++)
        if (o->ranks[k].rank == o->ranks[i].rank)
            link_fail(r, "\"ranks\" names rank %" PRId64 " twice", o->ranks[i].rank);
}

static void decode_ranks(struct link_reader *r, struct link_order *o)
{
    const json_t *array = link_array(r, "ranks", 1, LINK_RANKS_PER_NODE_MAX);
    size_t n = json_array_size(array);
    o->ranks = mem_zero(n + 1, sizeof *o->ranks);
    for (size_t i = 0; i < n && !r->failed; i++) {
        struct link_reader e = link_reader_child(r, json_array_get(array, i), "order rank");
        o->ranks[i].rank = link_int(&e, "rank", 0, o->world - 1);
        o->ranks[i].slot = link_int(&e, "slot", 0, LINK_RANKS_PER_NODE_MAX - 1);
        link_reader_join(r, &e);
        check_unique_ranks(r, o, i);
        o->n_ranks++;
    }
}

/* seen: one byte a rank of the world, so that no rank lives on two nodes. */
static void decode_map_ranks(struct link_reader *r, struct link_map_node *m, int64_t world,
                             unsigned char *seen)
{
    const json_t *array = link_array(r, "ranks", 1, LINK_RANKS_PER_NODE_MAX);
    size_t n = json_array_size(array);
    m->ranks = mem_zero(n + 1, sizeof *m->ranks);
    for (size_t i = 0; i < n && !r->failed; i++) {
        const json_t *value = json_array_get(array, i);
        int64_t rank = json_is_integer(value) ? json_integer_value(value) : -1;
        if (rank < 0 || rank >= world)
            link_fail(r, "\"ranks\" holds something that is not a rank from 0 to %" PRId64, world - 1);
        else if (seen[rank]++)
            link_fail(r, "rank %" PRId64 " is on the map twice", rank);
        else
            m->ranks[m->n_ranks++] = rank;
    }
}

static void decode_map_node(struct link_reader *r, const json_t *obj, struct link_order *o,
                            unsigned char *seen)
{
    struct link_map_node *m = &o->map[o->n_map++];
    struct link_reader e = link_reader_child(r, obj, "order map");
    m->node = link_text(&e, "node", LINK_NODE_NAME_MAX);
    m->addr = link_text(&e, "addr", 255);
    m->domain = link_text_or_empty(&e, "domain", DOMAIN_MAX);
    m->port = link_int(&e, "port", 1, 65535);
    m->master_port = link_int_or(&e, "master_port", 0, 65535, 0);
    decode_map_ranks(&e, m, o->world, seen);
    link_reader_join(r, &e);
}

static size_t ranks_on_map(const struct link_order *o)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n_map; i++)
        n += o->map[i].n_ranks;
    return n;
}

static void decode_map(struct link_reader *r, struct link_order *o)
{
    const json_t *array = link_array_or(r, "map", JOB_RANKS_MAX);
    size_t n = json_array_size(array);
    if (n == 0 && o->phase == ORDER_GO)
        link_fail(r, "phase go without \"map\"");
    if (n > 0 && n != (size_t)o->nodes)
        link_fail(r, "\"map\" has %zu nodes, \"nodes\" says %" PRId64, n, o->nodes);
    if (n == 0 || r->failed)
        return;
    o->map = mem_zero(n, sizeof *o->map);
    unsigned char *seen = mem_zero((size_t)o->world, 1);
    for (size_t i = 0; i < n && !r->failed; i++)
        decode_map_node(r, json_array_get(array, i), o, seen);
    free(seen);
    if (ranks_on_map(o) != (size_t)o->world)
        link_fail(r, "\"map\" has %zu ranks, \"world\" says %" PRId64, ranks_on_map(o), o->world);
}

int link_order_decode(const json_t *obj, struct link_order *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    struct link_reader r = link_reader_new(obj, "order", err);
    decode_numbers(&r, out);
    decode_memory_tier(&r, out);
    decode_phase(&r, out);
    decode_texts(&r, out);
    decode_argv(&r, out);
    decode_env(&r, out);
    decode_resume(&r, out);
    decode_ranks(&r, out);
    decode_map(&r, out);
    if (r.failed)
        link_order_clear(out);
    return r.failed ? -1 : 0;
}

static void free_strings(char **strings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(strings[i]);
    free(strings);
}

void link_map_free(struct link_map_node *map, size_t n_map)
{
    for (size_t i = 0; map && i < n_map; i++) {
        free(map[i].node);
        free(map[i].addr);
        free(map[i].domain);
        free(map[i].ranks);
    }
    free(map);
}

void link_order_clear(struct link_order *order)
{
    char *texts[] = {order->token, order->name,   order->user,  order->cwd,
                     order->spec,  order->device, order->reason};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    free_strings(order->argv, order->argc);
    free_strings(order->env_keys, order->n_env);
    free_strings(order->env_values, order->n_env);
    free_strings(order->resume, order->n_resume);
    free(order->ranks);
    if (!order->map_borrowed)
        link_map_free(order->map, order->n_map);
    memset(order, 0, sizeof *order);
}
