/* export_hf: see export.h. Tensors are dealt out to files in their order; each file is written in one pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "runtime/convert/bands.h"
#include "runtime/convert/export.h"
#include "runtime/convert/hf_config.h"

/* Tensors [from,to) of a layout in one file. */
struct shard {
    char *name;
    size_t from, to;
};

struct shards {
    struct shard *items;
    size_t count;
};

static void cut(const struct mapping *mapping, uint64_t most, struct shards *out)
{
    *out = (struct shards){NULL, 0};
    uint64_t bytes = 0;
    for (size_t i = 0; i < mapping->count; i++) {
        uint64_t more = mapping_bytes(&mapping->tensors[i]);
        if (out->count == 0 || bytes + more > most) {
            out->items = mem_grow(out->items, out->count + 1, sizeof *out->items);
            out->items[out->count++] = (struct shard){NULL, i, i};
            bytes = 0;
        }
        out->items[out->count - 1].to = i + 1;
        bytes += more;
    }
    for (size_t s = 0; s < out->count; s++)
        out->items[s].name = out->count == 1
                                 ? str_dup("model.safetensors")
                                 : str_printf("model-%05zu-of-%05zu.safetensors", s + 1, out->count);
}

static void shards_free(struct shards *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i].name);
    free(s->items);
}

static int put(void *to, const float *x, size_t n)
{
    return safetensors_put(to, x, n);
}

static void declare(const struct mapping_tensor *t, struct safetensors_tensor *out)
{
    memcpy(out->name, t->name, sizeof out->name);
    memcpy(out->shape, t->shape, sizeof t->shape);
    out->dims = t->dims;
    out->type = t->type;
}

static int write_shard(const struct weights *w, const struct mapping *mapping, const struct shard *s,
                       const char *folder, struct err *err)
{
    uint64_t bytes;
    char hash[DIGEST_SIZE], *path = str_printf("%s/%s", folder, s->name);
    struct safetensors_tensor *tensors = mem_zero(s->to - s->from, sizeof *tensors);
    for (size_t i = s->from; i < s->to; i++)
        declare(&mapping->tensors[i], &tensors[i - s->from]);
    struct bands_sink sink = {put, safetensors_create(path, tensors, s->to - s->from, "format", "pt", err)};
    int rc = sink.to ? 0 : -1;
    for (size_t i = s->from; rc == 0 && i < s->to; i++)
        rc = bands_put(w, &mapping->tensors[i], &sink, err);
    if (sink.to && safetensors_finish(sink.to, &bytes, hash, rc == 0 || !err->text[0] ? err : NULL) != 0)
        rc = -1;
    free(tensors);
    free(path);
    return rc;
}

/* ---- the small files -------------------------------------------------------------------------------------------------- */

/* Writes and frees obj. */
static int write_json(const char *folder, const char *name, json_t *obj, struct err *err)
{
    char *path = str_printf("%s/%s", folder, name),
         *text = json_dumps(obj, JSON_INDENT(2) | JSON_REAL_PRECISION(15)),
         *line = str_printf("%s\n", text ? text : "");
    int rc = text ? fs_write_durable(path, line, strlen(line), 0644, err)
                  : err_set(err, "%s holds a name that is no text", path);
    json_decref(obj);
    free(line);
    free(text);
    free(path);
    return rc;
}

static json_t *index_of(const struct mapping *mapping, const struct shards *shards, uint64_t bytes)
{
    json_t *obj = json_object(), *metadata = json_object(), *map = json_object();
    jsonx_set(metadata, "total_size", json_integer((json_int_t)bytes));
    jsonx_set(obj, "metadata", metadata);
    for (size_t s = 0; s < shards->count; s++)
        for (size_t i = shards->items[s].from; i < shards->items[s].to; i++)
            jsonx_set_str(map, mapping->tensors[i].name, shards->items[s].name);
    jsonx_set(obj, "weight_map", map);
    return obj;
}

static json_t *generation(int32_t bos, int32_t eos)
{
    json_t *obj = json_object();
    jsonx_set(obj, "_from_model_config", json_true());
    if (bos >= 0)
        jsonx_set(obj, "bos_token_id", json_integer(bos));
    if (eos >= 0)
        jsonx_set(obj, "eos_token_id", json_integer(eos));
    return obj;
}

static void set_token(json_t *obj, const char *key, const struct tokenizer *t, int32_t id)
{
    char *name = id >= 0 ? tokenizer_printable(t, id) : NULL;
    jsonx_set_str(obj, key, name);
    free(name);
}

static json_t *tokenizer_config(const struct export_request *r, int32_t bos, int32_t eos)
{
    json_t *obj = json_object();
    jsonx_set_str(obj, "tokenizer_class", "PreTrainedTokenizerFast");
    jsonx_set(obj, "model_max_length", json_integer(weights_model(r->weights)->context));
    jsonx_set(obj, "clean_up_tokenization_spaces", json_false());
    set_token(obj, "bos_token", r->tokenizer, bos);
    set_token(obj, "eos_token", r->tokenizer, eos);
    return obj;
}

static int write_small(const struct export_request *r, const char *folder, struct err *err)
{
    int32_t bos = export_bos(r->tokenizer), eos = tokenizer_end(r->tokenizer);
    char *path = str_printf("%s/tokenizer.json", folder);
    int rc = tokenizer_write_json(r->tokenizer, path, err);
    free(path);
    if (rc == 0)
        rc = write_json(folder, "tokenizer_config.json", tokenizer_config(r, bos, eos), err);
    if (rc == 0)
        rc = write_json(folder, "generation_config.json", generation(bos, eos), err);
    if (rc == 0)
        rc = write_json(folder, "config.json", hf_config_make(weights_model(r->weights), r->type, bos, eos),
                        err);
    return rc;
}

int export_hf(const struct export_request *request, const char *folder, uint64_t *bytes, struct err *err)
{
    struct tensor_list list;
    struct mapping mapping;
    struct shards shards;
    int rc = 0;
    err->text[0] = 0;
    tensors_of_model(weights_model(request->weights), &list);
    mapping_hf(weights_model(request->weights), &list, request->type, &mapping);
    cut(&mapping, request->shard, &shards);
    *bytes = 0;
    for (size_t i = 0; i < mapping.count; i++)
        *bytes += mapping_bytes(&mapping.tensors[i]);
    for (size_t s = 0; rc == 0 && s < shards.count; s++)
        rc = write_shard(request->weights, &mapping, &shards.items[s], folder, err);
    if (rc == 0 && shards.count > 1)
        rc = write_json(folder, "model.safetensors.index.json", index_of(&mapping, &shards, *bytes), err);
    if (rc == 0)
        rc = write_small(request, folder, err);
    shards_free(&shards);
    mapping_free(&mapping);
    tensors_free(&list);
    return rc;
}
