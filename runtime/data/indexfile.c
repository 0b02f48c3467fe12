/* indexfile: see indexfile.h. A name of a file with a slash is refused: an index speaks of its own folder only. */
#include "runtime/data/indexfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"

#define FORMAT     "belay-tokens"
#define FILE_LIMIT (16u << 20) /* 32768 shards take 2 MB */

static int read_count(const json_t *obj, const char *key, uint64_t *out, struct err *err)
{
    int64_t value;
    if (jsonx_int(obj, key, 0, INT64_MAX / 16, &value, err) != 0)
        return -1;
    *out = (uint64_t)value;
    return 0;
}

static int read_name(const json_t *obj, const char *key, char **out, struct err *err)
{
    const char *text;
    if (jsonx_str(obj, key, &text, err) != 0)
        return -1;
    if (text[0] == '\0' || text[0] == '.' || strchr(text, '/'))
        return err_set(err, "\"%s\" must be the name of a file in this folder, not \"%s\"", key, text);
    *out = str_dup(text);
    return 0;
}

static int read_shards(const json_t *obj, struct indexfile *x, struct err *err)
{
    json_t *list;
    uint64_t sum = 0;
    if (jsonx_array(obj, "shards", &list, err) != 0)
        return -1;
    size_t n = json_array_size(list);
    if (n == 0 || n > INDEXFILE_SHARDS_MAX)
        return err_set(err, "\"shards\" must name 1 to %d files, not %zu", INDEXFILE_SHARDS_MAX, n);
    x->shards = mem_zero(n, sizeof *x->shards);
    x->n_shards = n;
    for (size_t i = 0; i < n; i++) {
        struct indexfile_shard *shard = &x->shards[i];
        const json_t *entry = json_array_get(list, i);
        if (read_name(entry, "file", &shard->file, err) != 0 ||
            read_count(entry, "tokens", &shard->tokens, err) != 0)
            return err_prefix(err, "shard %zu", i + 1);
        if (shard->tokens > INT64_MAX / 16 - sum)
            return err_set(err, "the shards have more tokens than can be");
        sum += shard->tokens;
    }
    return sum == x->tokens
               ? 0
               : err_set(err, "\"tokens\" is %" PRIu64 ", but the shards have %" PRIu64, x->tokens, sum);
}

static int read_fields(const json_t *obj, struct indexfile *x, struct err *err)
{
    const char *format;
    int64_t version;
    if (jsonx_str(obj, "format", &format, err) != 0 || jsonx_int(obj, "version", 1, 1, &version, err) != 0)
        return -1;
    if (strcmp(format, FORMAT) != 0)
        return err_set(err, "\"format\" must be \"" FORMAT "\", not \"%s\"", format);
    if (read_name(obj, "tokenizer", &x->tokenizer, err) != 0 ||
        jsonx_hex(obj, "fingerprint", &x->fingerprint, err) != 0 ||
        jsonx_int(obj, "vocab", 1, INT32_MAX, &x->vocab, err) != 0 ||
        jsonx_int(obj, "end", -1, x->vocab - 1, &x->end, err) != 0 ||
        read_count(obj, "documents", &x->documents, err) != 0 ||
        read_count(obj, "text_bytes", &x->text_bytes, err) != 0 ||
        read_count(obj, "tokens", &x->tokens, err) != 0 || read_count(obj, "masked", &x->masked, err) != 0)
        return -1;
    return read_shards(obj, x, err);
}

int indexfile_read(const char *path, struct indexfile *out, struct err *err)
{
    *out = (struct indexfile){.tokenizer = NULL};
    json_t *obj = jsonx_read_file(path, FILE_LIMIT, err);
    if (!obj)
        return -1;
    int rc = read_fields(obj, out, err);
    if (rc != 0) {
        err_prefix(err, "%s is not an index of token files (make it with belay-train prepare)", path);
        indexfile_clear(out);
    }
    json_decref(obj);
    return rc;
}

static json_t *shards_json(const struct indexfile *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->n_shards; i++) {
        json_t *entry = json_object();
        jsonx_set_str(entry, "file", x->shards[i].file);
        jsonx_set(entry, "tokens", json_integer((json_int_t)x->shards[i].tokens));
        if (json_array_append_new(list, entry) != 0)
            abort(); /* no memory */
    }
    return list;
}

int indexfile_write(const char *path, const struct indexfile *x, struct err *err)
{
    json_t *obj = json_object();
    jsonx_set_str(obj, "format", FORMAT);
    jsonx_set(obj, "version", json_integer(1));
    jsonx_set_str(obj, "tokenizer", x->tokenizer);
    jsonx_set_hex(obj, "fingerprint", x->fingerprint);
    jsonx_set(obj, "vocab", json_integer(x->vocab));
    jsonx_set(obj, "end", json_integer(x->end));
    jsonx_set(obj, "documents", json_integer((json_int_t)x->documents));
    jsonx_set(obj, "text_bytes", json_integer((json_int_t)x->text_bytes));
    jsonx_set(obj, "tokens", json_integer((json_int_t)x->tokens));
    jsonx_set(obj, "masked", json_integer((json_int_t)x->masked));
    jsonx_set(obj, "shards", shards_json(x));
    char *text = json_dumps(obj, JSON_INDENT(1));
    json_decref(obj);
    if (!text)
        return err_set(err, "no memory for %s", path);
    int rc = fs_write_durable(path, text, strlen(text), 0644, err); /* as readable as the shards */
    free(text);
    return rc;
}

void indexfile_clear(struct indexfile *x)
{
    for (size_t i = 0; i < x->n_shards; i++)
        free(x->shards[i].file);
    free(x->shards);
    free(x->tokenizer);
    *x = (struct indexfile){.tokenizer = NULL};
}
