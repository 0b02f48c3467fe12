/* link: REPORT, inventory and progress (ORDER is in link_order.c). Encoding trusts its struct; decoding trusts nothing. */
#include "schema/link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "schema/job.h"
#include "schema/link_read.h"

#define TIME_MAX        INT64_C(253402300799999) /* the year 9999 in UTC milliseconds */
#define PROGRESS_KEYS   64                       /* a datagram of 4,096 bytes rarely has ten */
#define PROGRESS_TEXT   4096
#define GPUS_MAX        1024
#define EXIT_SIGNAL_MAX 128

/* ---- report ---- */

static json_t *encode_rank(const struct link_rank *rank)
{
    json_t *obj = json_object();
    jsonx_set(obj, "rank", json_integer(rank->rank));
    jsonx_set(obj, "slot", json_integer(rank->slot));
    jsonx_set(obj, "pid", json_integer(rank->pid));
    jsonx_set(obj, "start", json_integer((json_int_t)rank->start));
    jsonx_set(obj, "state", link_json_text(rank_state_name(rank->state)));
    jsonx_set(obj, "code", json_integer(rank->code));
    jsonx_set(obj, "signal", json_integer(rank->signal));
    jsonx_set(obj, "connected", json_boolean(rank->connected));
    jsonx_set(obj, "finalized", json_boolean(rank->finalized));
    jsonx_set(obj, "started_ms", json_integer(rank->started_ms));
    jsonx_set(obj, "ended_ms", json_integer(rank->ended_ms));
    jsonx_set(obj, "why", link_json_text(rank->why));
    return obj;
}

json_t *link_report_encode(const struct link_report *report, const char *type_or_null)
{
    json_t *obj = json_object();
    json_t *ranks = json_array();
    for (size_t i = 0; i < report->n_ranks; i++)
        (void)json_array_append_new(ranks, encode_rank(&report->ranks[i]));
    if (type_or_null)
        jsonx_set(obj, "t", link_json_text(type_or_null));
    jsonx_set(obj, "job", json_integer(report->job));
    jsonx_set(obj, "attempt", json_integer(report->attempt));
    jsonx_set(obj, "rev", json_integer(report->rev));
    jsonx_set(obj, "phase", link_json_text(report_phase_name(report->phase)));
    jsonx_set(obj, "reason", link_json_text(report->reason));
    jsonx_set(obj, "port", json_integer(report->port));
    jsonx_set(obj, "master_port", json_integer(report->master_port));
    jsonx_set(obj, "ranks", ranks);
    return obj;
}

static enum rank_state decode_rank_state(struct link_reader *r)
{
    char word[32];
    link_text_into(r, "state", word, sizeof word, true);
    int state = rank_state_parse(word);
    if (state < 0)
        link_fail(r, "\"state\" is \"%s\", allowed is waiting, running or exited", word);
    return state < 0 ? RANK_WAITING : (enum rank_state)state;
}

static void decode_rank(struct link_reader *r, struct link_rank *out)
{
    out->rank = link_int(r, "rank", 0, JOB_RANKS_MAX - 1);
    out->slot = link_int(r, "slot", 0, LINK_RANKS_PER_NODE_MAX - 1);
    out->pid = link_int_or(r, "pid", 0, INT32_MAX, 0);
    out->start = (uint64_t)link_int_or(r, "start", 0, INT64_MAX, 0);
    out->state = decode_rank_state(r);
    out->code = (int)link_int_or(r, "code", -1, 255, 0);
    out->signal = (int)link_int_or(r, "signal", 0, EXIT_SIGNAL_MAX, 0);
    out->connected = link_bool_or(r, "connected", false);
    out->finalized = link_bool_or(r, "finalized", false);
    out->started_ms = link_int_or(r, "started_ms", 0, TIME_MAX, 0);
    out->ended_ms = link_int_or(r, "ended_ms", 0, TIME_MAX, 0);
    link_text_into(r, "why", out->why, sizeof out->why, false);
}

static void decode_ranks(struct link_reader *r, struct link_report *out)
{
    const json_t *array = link_array(r, "ranks", 0, LINK_RANKS_PER_NODE_MAX);
    size_t n = json_array_size(array);
    out->ranks = mem_zero(n + 1, sizeof *out->ranks);
    for (size_t i = 0; i < n && !r->failed; i++) {
        struct link_reader e = link_reader_child(r, json_array_get(array, i), "report rank");
        decode_rank(&e, &out->ranks[out->n_ranks++]);
        link_reader_join(r, &e);
        for (size_t k = 0; k < i && !r->failed; k++)
            if (out->ranks[k].rank == out->ranks[i].rank)
                link_fail(r, "\"ranks\" names rank %" PRId64 " twice", out->ranks[i].rank);
    }
}

static enum report_phase decode_phase(struct link_reader *r)
{
    char word[32];
    link_text_into(r, "phase", word, sizeof word, true);
    int phase = report_phase_parse(word);
    if (phase < 0)
        link_fail(
            r, "\"phase\" is \"%s\", allowed is preparing, ready, refused, running, stopping, gone or lost",
            word);
    return phase < 0 ? REPORT_PREPARING : (enum report_phase)phase;
}

int link_report_decode(const json_t *obj, struct link_report *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    struct link_reader r = link_reader_new(obj, "report", err);
    out->job = link_int(&r, "job", 1, INT64_MAX);
    out->attempt = link_int(&r, "attempt", 1, INT64_MAX);
    out->rev = link_int(&r, "rev", 0, INT64_MAX);
    out->phase = decode_phase(&r);
    link_text_into(&r, "reason", out->reason, sizeof out->reason, false);
    out->port = link_int_or(&r, "port", 0, 65535, 0);
    out->master_port = link_int_or(&r, "master_port", 0, 65535, 0);
    decode_ranks(&r, out);
    if (r.failed)
        link_report_clear(out);
    return r.failed ? -1 : 0;
}

void link_report_clear(struct link_report *report)
{
    free(report->ranks);
    memset(report, 0, sizeof *report);
}

void link_report_copy(struct link_report *to, const struct link_report *from)
{
    if (to == from)
        return;
    struct link_rank *ranks = mem_zero(from->n_ranks + 1, sizeof *ranks);
    if (from->n_ranks > 0)
        memcpy(ranks, from->ranks, from->n_ranks * sizeof *ranks);
    free(to->ranks);
    *to = *from;
    to->ranks = ranks;
}

/* ---- inventory ---- */

static json_t *encode_gpu(const struct link_gpu *gpu)
{
    json_t *obj = json_object();
    jsonx_set(obj, "index", json_integer(gpu->index));
    jsonx_set(obj, "name", link_json_text(gpu->name));
    jsonx_set(obj, "uuid", link_json_text(gpu->uuid));
    jsonx_set(obj, "memory", json_integer(gpu->memory));
    return obj;
}

json_t *link_inventory_encode(const struct link_inventory *inventory)
{
    json_t *obj = json_object();
    json_t *gpus = json_array();
    for (size_t i = 0; i < inventory->n_gpus; i++)
        (void)json_array_append_new(gpus, encode_gpu(&inventory->gpus[i]));
    jsonx_set(obj, "slots", json_integer(inventory->slots));
    jsonx_set(obj, "device", link_json_text(inventory->gpu ? "gpu" : "cpu"));
    jsonx_set(obj, "gpus", gpus);
    jsonx_set(obj, "cores", json_integer(inventory->cores));
    jsonx_set(obj, "memory", json_integer(inventory->memory));
    jsonx_set(obj, "hostname", link_json_text(inventory->hostname));
    jsonx_set(obj, "address", link_json_text(inventory->address));
    jsonx_set(obj, "rack", link_json_text(inventory->rack));
    jsonx_set(obj, "pod", link_json_text(inventory->pod));
    jsonx_set(obj, "nvlink", link_json_text(inventory->nvlink));
    jsonx_set(obj, "version", link_json_text(inventory->version));
    return obj;
}

static void decode_gpus(struct link_reader *r, struct link_inventory *out)
{
    const json_t *array = link_array_or(r, "gpus", GPUS_MAX);
    size_t n = json_array_size(array);
    out->gpus = mem_zero(n + 1, sizeof *out->gpus);
    for (size_t i = 0; i < n && !r->failed; i++) {
        struct link_gpu *gpu = &out->gpus[out->n_gpus++];
        struct link_reader e = link_reader_child(r, json_array_get(array, i), "inventory gpu");
        gpu->index = link_int(&e, "index", 0, GPUS_MAX - 1);
        gpu->memory = link_int_or(&e, "memory", 0, INT64_MAX, 0);
        link_text_into(&e, "name", gpu->name, sizeof gpu->name, false);
        link_text_into(&e, "uuid", gpu->uuid, sizeof gpu->uuid, false);
        link_reader_join(r, &e);
    }
}

static void decode_device(struct link_reader *r, struct link_inventory *out)
{
    char word[8];
    link_text_into(r, "device", word, sizeof word, true);
    out->gpu = strcmp(word, "gpu") == 0;
    if (!out->gpu && strcmp(word, "cpu") != 0)
        link_fail(r, "\"device\" is neither \"cpu\" nor \"gpu\"");
}

int link_inventory_decode(const json_t *obj, struct link_inventory *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    struct link_reader r = link_reader_new(obj, "inventory", err);
    out->slots = link_int(&r, "slots", 1, LINK_RANKS_PER_NODE_MAX);
    out->cores = link_int(&r, "cores", 1, 65536);
    out->memory = link_int(&r, "memory", 0, INT64_MAX);
    decode_device(&r, out);
    link_text_into(&r, "hostname", out->hostname, sizeof out->hostname, false);
    link_text_into(&r, "address", out->address, sizeof out->address, true);
    link_text_into(&r, "rack", out->rack, sizeof out->rack, false);
    link_text_into(&r, "pod", out->pod, sizeof out->pod, false);
    link_text_into(&r, "nvlink", out->nvlink, sizeof out->nvlink, false);
    link_text_into(&r, "version", out->version, sizeof out->version, false);
    decode_gpus(&r, out);
    if (r.failed)
        link_inventory_clear(out);
    return r.failed ? -1 : 0;
}

void link_inventory_clear(struct link_inventory *inventory)
{
    free(inventory->gpus);
    memset(inventory, 0, sizeof *inventory);
}

/* ---- progress ---- */

json_t *link_progress_encode(const struct link_progress *progress)
{
    json_t *obj = json_object();
    jsonx_set(obj, "t", link_json_text("progress"));
    jsonx_set(obj, "job", json_integer(progress->job));
    jsonx_set(obj, "attempt", json_integer(progress->attempt));
    jsonx_set(obj, "rank", json_integer(progress->rank));
    jsonx_set(obj, "values", progress->values ? json_deep_copy(progress->values) : json_object());
    return obj;
}

static void check_values(struct link_reader *r, json_t *values)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(values, key, value)
    {
        if (key[0] == '\0' || strlen(key) > 64)
            link_fail(r, "\"values\" has a key that is empty or longer than 64 bytes");
        (void)link_element_text(r, "values", value, PROGRESS_TEXT);
    }
}

int link_progress_decode(const json_t *obj, struct link_progress *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    struct link_reader r = link_reader_new(obj, "progress", err);
    out->job = link_int(&r, "job", 1, INT64_MAX);
    out->attempt = link_int(&r, "attempt", 1, INT64_MAX);
    out->rank = link_int(&r, "rank", 0, JOB_RANKS_MAX - 1);
    json_t *values = link_object_or(&r, "values", PROGRESS_KEYS);
    if (!values)
        link_fail(&r, "\"values\" is missing");
    else
        check_values(&r, values);
    if (r.failed) {
        memset(out, 0, sizeof *out);
        return -1;
    }
    out->values = json_incref(values);
    return 0;
}

void link_progress_clear(struct link_progress *progress)
{
    json_decref(progress->values);
    memset(progress, 0, sizeof *progress);
}
