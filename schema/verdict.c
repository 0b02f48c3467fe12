/* verdict: see verdict.h. */
#include "schema/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"

static const char *const kinds[VERDICT_COUNT] = {
    [VERDICT_RUNS] = "runs",   [VERDICT_NOW] = "now",     [VERDICT_CAPACITY] = "capacity",
    [VERDICT_OTHER] = "other", [VERDICT_NEVER] = "never", [VERDICT_FRAGMENTED] = "fragmented",
};

const char *verdict_kind_name(enum verdict_kind kind)
{
    return (size_t)kind < VERDICT_COUNT ? kinds[kind] : "?";
}

/* Times travel as UTC milliseconds, 0 as null. */
static json_t *time_or_null(int64_t ms)
{
    return ms ? json_integer(ms) : json_null();
}

static json_t *encode_blockers(const struct verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->n_blockers; i++) {
        const struct verdict_blocker *b = &v->blockers[i];
        json_t *obj = json_object();
        jsonx_set(obj, "job", json_integer(b->job));
        jsonx_set_str(obj, "name", b->name);
        jsonx_set_str(obj, "user", b->user);
        jsonx_set(obj, "slots", json_integer(b->slots));
        jsonx_set(obj, "until_ms", time_or_null(b->until_ms));
        (void)json_array_append_new(list, obj);
    }
    return list;
}

static json_t *encode_ahead(const struct verdict *v)
{
    if (v->ahead == 0)
        return json_null();
    return json_pack("{s:I,s:I,s:s}", "jobs", (json_int_t)v->ahead, "first", (json_int_t)v->ahead_job, "name",
                     v->ahead_name);
}

json_t *verdict_encode(const struct verdict *v)
{
    json_t *obj = json_object(), *changes = json_array();
    for (size_t i = 0; i < v->n_changes; i++)
        (void)json_array_append_new(changes, json_string(v->changes[i]));
    jsonx_set_str(obj, "verdict", verdict_kind_name(v->kind));
    jsonx_set_str(obj, "sentence", v->sentence);
    jsonx_set(obj, "need",
              json_pack("{s:I,s:I,s:s}", "ranks", (json_int_t)v->need_ranks, "group",
                        (json_int_t)v->need_group, "borders", v->need_borders));
    jsonx_set(obj, "slots",
              json_pack("{s:I,s:I,s:I}", "free", (json_int_t)v->free_slots, "usable",
                        (json_int_t)v->usable_slots, "all", (json_int_t)v->all_slots));
    jsonx_set(obj, "fits", json_integer(v->fits_ranks));
    jsonx_set(obj, "blockers", encode_blockers(v));
    jsonx_set(obj, "ahead", encode_ahead(v));
    jsonx_set(obj, "starts_ms", time_or_null(v->starts_ms));
    jsonx_set(obj, "changes", changes);
    jsonx_set(obj, "spares_wanted", json_integer(v->spares_wanted));
    jsonx_set(obj, "spares", v->spares ? json_incref(v->spares) : json_null());
    jsonx_set(obj, "placement", v->placement ? json_incref(v->placement) : json_null());
    jsonx_set(obj, "cost", v->cost ? json_incref(v->cost) : json_null());
    return obj;
}

static int parse_kind(const char *name)
{
    for (int i = 0; name && i < VERDICT_COUNT; i++)
        if (strcmp(kinds[i], name) == 0)
            return i;
    return -1;
}

static char *text_in(const json_t *obj, const char *key)
{
    const char *text = json_string_value(json_object_get(obj, key));
    return text ? str_dup(text) : NULL;
}

static int64_t int_in(const json_t *obj, const char *key)
{
    return json_integer_value(json_object_get(obj, key)); /* null is 0 */
}

static int decode_blockers(const json_t *list, struct verdict *v)
{
    size_t i;
    json_t *item;
    v->blockers = mem_zero(json_array_size(list) + 1, sizeof(*v->blockers));
    json_array_foreach(list, i, item)
    {
        struct verdict_blocker *b = &v->blockers[v->n_blockers++];
        *b = (struct verdict_blocker){.job = int_in(item, "job"),
                                      .name = text_in(item, "name"),
                                      .user = text_in(item, "user"),
                                      .slots = int_in(item, "slots"),
                                      .until_ms = int_in(item, "until_ms")};
        if (!b->name || !b->user)
            return -1;
    }
    return json_is_array(list) ? 0 : -1;
}

static int decode_changes(const json_t *list, struct verdict *v)
{
    size_t i;
    json_t *item;
    v->changes = mem_zero(json_array_size(list) + 1, sizeof(*v->changes));
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return -1;
        v->changes[v->n_changes++] = str_dup(json_string_value(item));
    }
    return json_is_array(list) ? 0 : -1;
}

static json_t *part_in(const json_t *obj, const char *key)
{
    json_t *part = json_object_get(obj, key);
    return part && !json_is_null(part) ? json_incref(part) : NULL;
}

static int decode_all(const json_t *obj, struct verdict *v)
{
    int kind = parse_kind(json_string_value(json_object_get(obj, "verdict")));
    const json_t *need = json_object_get(obj, "need"), *slots = json_object_get(obj, "slots");
    v->kind = kind < 0 ? VERDICT_OTHER : (enum verdict_kind)kind;
    v->sentence = text_in(obj, "sentence");
    v->need_ranks = int_in(need, "ranks");
    v->need_group = int_in(need, "group");
    v->need_borders = text_in(need, "borders");
    v->free_slots = int_in(slots, "free");
    v->usable_slots = int_in(slots, "usable");
    v->all_slots = int_in(slots, "all");
    v->fits_ranks = int_in(obj, "fits");
    const json_t *ahead = json_object_get(obj, "ahead");
    v->ahead = int_in(ahead, "jobs");
    v->ahead_job = int_in(ahead, "first");
    v->ahead_name = text_in(ahead, "name");
    v->starts_ms = int_in(obj, "starts_ms");
    v->spares_wanted = int_in(obj, "spares_wanted");
    v->spares = part_in(obj, "spares");
    v->placement = part_in(obj, "placement");
    v->cost = part_in(obj, "cost");
    bool whole = kind >= 0 && v->sentence && v->need_borders && (v->ahead == 0 || v->ahead_name);
    return whole && decode_blockers(json_object_get(obj, "blockers"), v) == 0 &&
                   decode_changes(json_object_get(obj, "changes"), v) == 0
               ? 0
               : -1;
}

int verdict_decode(const json_t *obj, struct verdict *out, struct err *err)
{
    *out = (struct verdict){.sentence = NULL};
    if (decode_all(obj, out) == 0)
        return 0;
    verdict_clear(out);
    return err_set(err, "the answer about the placement is not understood; is belayd of another version?");
}

void verdict_clear(struct verdict *v)
{
    free(v->sentence);
    free(v->need_borders);
    free(v->ahead_name);
    for (size_t i = 0; i < v->n_blockers; i++) {
        free(v->blockers[i].name);
        free(v->blockers[i].user);
    }
    free(v->blockers);
    for (size_t i = 0; i < v->n_changes; i++)
        free(v->changes[i]);
    free(v->changes);
    json_decref(v->spares);
    json_decref(v->placement);
    json_decref(v->cost);
    *v = (struct verdict){.sentence = NULL};
}
