/* manifest: see manifest.h. Tensors are kept in the order of their names, so that one is found by halving. The field "self" is the hash of the compact
 * JSON text of everything else, in the order of the file. It is compared with the text as it stands, not with what was understood of it: else a
 * flipped bit that turns 1e-05 into 1E-05 would go unnoticed. */
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/account.h"
#include "checkpoint/manifest_private.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"

#define COUNT_MAX     (1 << 24)             /* tensors, files or slices that a reader accepts */
#define HEAD_BYTES    (64u << 10)           /* what stands before "files" fits: names have limits */
#define DIMENSION_MAX ((json_int_t)1 << 31) /* rows or columns: their product stays in 62 bits */

/* Numbers of 64 bits go as decimal text: JSON readers keep only 53 bits. */
static void set_u64(json_t *obj, const char *key, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value); /* always fits */
    jsonx_set_str(obj, key, text);
}

static int get_u64(const json_t *obj, const char *key, uint64_t *out, struct err *err)
{
    const char *text;
    char *end;
    if (jsonx_str(obj, key, &text, err) != 0)
        return -1;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end ? 0 : err_set(err, "\"%s\" is not a number", key);
}

static json_t *encode_state(const struct manifest_state *s)
{
    char stamp[CLOCK_UTC_SIZE];
    json_t *obj = json_object(), *mesh = json_object(), *position = json_object();
    jsonx_set(obj, "format", json_integer(MANIFEST_FORMAT));
    jsonx_set_str(obj, "program", "belay-train " BELAY_VERSION);
    jsonx_set_str(obj, "time", clock_format_utc(clock_utc_ms(), stamp));
    jsonx_set_str(obj, "job", s->job);
    jsonx_set(obj, "attempt", json_integer(s->attempt));
    jsonx_set(obj, "step", json_integer(s->step));
    if (isfinite(s->held_loss))
        jsonx_set_real(obj, "held_loss", s->held_loss);
    jsonx_set(mesh, "dp", json_integer(s->dp));
    jsonx_set(mesh, "pp", json_integer(s->pp));
    jsonx_set(mesh, "cp", json_integer(s->cp));
    jsonx_set(mesh, "tp", json_integer(s->tp));
    jsonx_set(mesh, "ep", json_integer(s->ep));
    jsonx_set(obj, "mesh", mesh);
    set_u64(position, "samples", s->samples);
    set_u64(position, "tokens", s->tokens);
    set_u64(position, "seed", s->seed);
    set_u64(position, "data_tokens", s->data_tokens);
    set_u64(position, "data_fingerprint", s->data_fingerprint);
    jsonx_set(obj, "position", position);
    jsonx_set(obj, "model", manifest_model_encode(&s->model));
    return obj;
}

static json_t *encode_files(const struct manifest *m)
{
    json_t *array = json_array();
    for (size_t i = 0; i < m->n_files; i++) {
        json_t *obj = json_object();
        jsonx_set_str(obj, "name", m->files[i].name);
        set_u64(obj, "bytes", m->files[i].bytes);
        jsonx_set_str(obj, "xxh3_128", m->files[i].hash);
        json_array_append_new(array, obj);
    }
    return array;
}

static json_t *encode_slices(const struct manifest_tensor *t)
{
    json_t *array = json_array();
    for (size_t i = 0; i < t->n_slices; i++) {
        const struct manifest_slice *s = &t->slices[i];
        const size_t numbers[] = {s->file, s->box.from[0], s->box.to[0], s->box.from[1], s->box.to[1]};
        json_t *slice = json_array();
        for (size_t k = 0; k < 5; k++)
            json_array_append_new(slice, json_integer((json_int_t)numbers[k]));
        json_array_append_new(slice, json_string(s->entry ? s->entry : t->name));
        json_array_append_new(array, slice);
    }
    return array;
}

static json_t *encode_tensors(const struct manifest *m)
{
    json_t *array = json_array();
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct manifest_tensor *t = &m->tensors[i];
        json_t *obj = json_object(), *shape = json_array();
        for (size_t k = 0; k < t->dims; k++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[k]));
        jsonx_set_str(obj, "name", t->name);
        jsonx_set_str(obj, "dtype", "F32");
        jsonx_set(obj, "shape", shape);
        jsonx_set(obj, "slices", encode_slices(t));
        json_array_append_new(array, obj);
    }
    return array;
}

static void self_hash(const json_t *obj, char out[DIGEST_SIZE])
{
    char *text = json_dumps(obj, JSON_COMPACT);
    if (!text)
        abort(); /* out of memory: the object is valid */
    digest_bytes(text, strlen(text), out);
    free(text);
}

/* An array gets one line for each element, anything else one line. */
static void print_value(FILE *out, const json_t *value)
{
    if (!json_is_array(value)) {
        (void)json_dumpf(value, out, JSON_COMPACT | JSON_ENCODE_ANY); /* into memory, see print_lines */
        return;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        (void)fputs(i == 0 ? "[\n" : ",\n", out);
        (void)json_dumpf(json_array_get(value, i), out, JSON_COMPACT);
    }
    (void)fputs(json_array_size(value) == 0 ? "[]" : "\n]", out);
}

/* The JSON text for people: one line for each field, file and tensor; the caller frees. */
static char *print_lines(const json_t *obj)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort(); /* out of memory */
    const char *key, *between = "{\n";
    json_t *value;
    json_object_foreach((json_t *)obj, key, value)
    {
        (void)fprintf(out, "%s\"%s\": ", between,
                      key); /* into memory: only lack of it can fail, see fclose */
        print_value(out, value);
        between = ",\n";
    }
    (void)fputs("\n}\n", out);
    if (fclose(out) != 0)
        abort(); /* out of memory */
    return text;
}

static int by_name(const void *a, const void *b)
{
    const struct manifest_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_box(const void *a, const void *b)
{
    const struct manifest_slice *x = a, *y = b;
    return box_compare(&x->box, &y->box);
}

static int check_slices(const struct manifest_tensor *t, struct err *err)
{
    static const char *const wrong[] = {[BOX_COVER_GAP] = "leave out a part of it",
                                        [BOX_COVER_TWICE] = "hold a part of it twice",
                                        [BOX_COVER_OUTSIDE] = "reach beyond it"};
    const size_t shape[] = {t->shape[0], t->dims == 2 ? t->shape[1] : 1};
    enum box_cover rc = box_check_cover(&t->slices->box, sizeof *t->slices, t->n_slices, shape);
    return rc == BOX_COVER_EXACT ? 0
                                 : err_set(err, "the slices of tensor %s (%zu x %zu) %s", t->name, shape[0],
                                           shape[1], wrong[rc]);
}

/* Puts tensors and slices in order, and checks them. */
static int arrange(struct manifest *m, struct err *err)
{
    if (m->n_tensors > 0)
        qsort(m->tensors, m->n_tensors, sizeof *m->tensors, by_name);
    for (size_t i = 0; i < m->n_tensors; i++) {
        struct manifest_tensor *t = &m->tensors[i];
        if (i > 0 && strcmp(t->name, m->tensors[i - 1].name) == 0)
            return err_set(err, "tensor %s is there twice", t->name);
        if (t->n_slices > 0)
            qsort(t->slices, t->n_slices, sizeof *t->slices, by_box);
        if (check_slices(t, err) != 0)
            return -1;
    }
    return 0;
}

char *manifest_print(struct manifest *manifest, struct err *err)
{
    char hash[DIGEST_SIZE];
    if (arrange(manifest, err) != 0)
        return NULL;
    json_t *obj = encode_state(&manifest->state);
    jsonx_set(obj, "files", encode_files(manifest));
    jsonx_set(obj, "tensors", encode_tensors(manifest));
    self_hash(obj, hash);
    jsonx_set_str(obj, "self", hash);
    char *text = print_lines(obj);
    json_decref(obj);
    return text;
}

int manifest_write(const char *folder, struct manifest *manifest, struct err *err)
{
    char *text = manifest_print(manifest, err);
    if (!text)
        return err_prefix(err, "%s cannot be sealed", folder);
    char *path = str_printf("%s/%s", folder, MANIFEST_FILE_NAME);
    int rc = fs_write_durable(path, text, strlen(text), 0644, err);
    free(path);
    free(text);
    return rc;
}

static int decode_state(const json_t *obj, struct manifest_state *s, struct err *err)
{
    const char *job;
    const json_t *mesh = json_object_get(obj, "mesh"), *position = json_object_get(obj, "position");
    if (jsonx_str(obj, "job", &job, err) != 0 ||
        jsonx_int(obj, "attempt", 0, INT64_MAX, &s->attempt, err) != 0 ||
        jsonx_int(obj, "step", 0, INT64_MAX, &s->step, err) != 0 ||
        jsonx_int(mesh, "dp", 1, COUNT_MAX, &s->dp, err) != 0 ||
        get_u64(position, "samples", &s->samples, err) != 0 ||
        get_u64(position, "tokens", &s->tokens, err) != 0 || get_u64(position, "seed", &s->seed, err) != 0 ||
        get_u64(position, "data_tokens", &s->data_tokens, err) != 0 ||
        get_u64(position, "data_fingerprint", &s->data_fingerprint, err) != 0)
        return -1;
    s->held_loss = jsonx_real_or(obj, "held_loss", NAN);
    s->pp = jsonx_int_or(mesh, "pp", 1);
    s->cp = jsonx_int_or(mesh, "cp", 1);
    s->tp = jsonx_int_or(mesh, "tp", 1);
    s->ep = jsonx_int_or(mesh, "ep", 1);
    (void)snprintf(s->job, sizeof s->job, "%s", job); /* a longer name would only compare as different */
    return 0;
}

/* Copies a name that must fit and must not lead out of the folder. */
static int copy_name(const char *name, char *out, size_t size, struct err *err)
{
    if (!*name || strlen(name) >= size || strchr(name, '/') || name[0] == '.')
        return err_set(err, "the name \"%.80s\" is not allowed", name);
    memcpy(out, name, strlen(name) + 1);
    return 0;
}

static int get_array(const json_t *obj, const char *key, json_t **out, size_t *count, struct err *err)
{
    if (jsonx_array(obj, key, out, err) != 0)
        return -1;
    *count = json_array_size(*out);
    return *count <= COUNT_MAX ? 0 : err_set(err, "\"%s\" has %zu entries", key, *count);
}

static int decode_files(const json_t *obj, struct manifest *m, struct err *err)
{
    json_t *array;
    size_t count;
    if (get_array(obj, "files", &array, &count, err) != 0)
        return -1;
    m->files = mem_zero(count, sizeof *m->files);
    m->n_files = count;
    for (size_t i = 0; i < count; i++) {
        const json_t *file = json_array_get(array, i);
        struct manifest_file *f = &m->files[i];
        const char *name, *hash;
        if (jsonx_str(file, "name", &name, err) != 0 || copy_name(name, f->name, sizeof f->name, err) != 0 ||
            get_u64(file, "bytes", &f->bytes, err) != 0 || jsonx_str(file, "xxh3_128", &hash, err) != 0)
            return -1;
        (void)snprintf(f->hash, sizeof f->hash, "%s", hash); /* a cut hash would not compare as equal */
    }
    return 0;
}

/* Format 1: [file, from, to] of rows. */
static int decode_rows(const json_t *slice, const struct manifest_tensor *t, struct manifest_slice *out,
                       json_int_t *file)
{
    if (json_array_size(slice) != 3)
        return -1;
    *file = json_integer_value(json_array_get(slice, 0));
    out->box = (struct box){{(size_t)json_integer_value(json_array_get(slice, 1)), 0},
                            {(size_t)json_integer_value(json_array_get(slice, 2)), 1}};
    if (t->dims == 2)
        out->box.to[1] = t->shape[1];
    return 0;
}

/* Format 2: [file, r0, r1, c0, c1, entry]. */
static int decode_box(const json_t *slice, const struct manifest_tensor *t, struct manifest_slice *out,
                      json_int_t *file)
{
    size_t n[5];
    const char *entry = json_string_value(json_array_get(slice, 5));
    if (json_array_size(slice) != 6 || !entry || strlen(entry) > MANIFEST_NAME_SIZE + 24)
        return -1;
    for (size_t i = 0; i < 5; i++)
        n[i] = (size_t)json_integer_value(
            json_array_get(slice, i)); /* what is negative or no number is outside */
    *file = (json_int_t)n[0];
    out->box = (struct box){{n[1], n[3]}, {n[2], n[4]}};
    out->entry = strcmp(entry, t->name) == 0 ? NULL : str_dup(entry);
    return 0;
}

static int decode_slices(const json_t *obj, const struct manifest *m, struct manifest_tensor *t,
                         struct err *err)
{
    json_t *array;
    size_t count;
    if (get_array(obj, "slices", &array, &count, err) != 0)
        return -1;
    t->slices = mem_zero(count, sizeof *t->slices);
    t->n_slices = count;
    for (size_t i = 0; i < count; i++) {
        json_int_t file = -1;
        const json_t *slice = json_array_get(array, i);
        int rc = m->format == 1 ? decode_rows(slice, t, &t->slices[i], &file)
                                : decode_box(slice, t, &t->slices[i], &file);
        if (rc != 0 || file < 0 || (size_t)file >= m->n_files)
            return err_set(err, "tensor %s has a slice that makes no sense", t->name);
        t->slices[i].file = (size_t)file;
    }
    return 0;
}

static int decode_shape(const json_t *shape, struct manifest_tensor *t, struct err *err)
{
    if (t->dims < 1 || t->dims > 2)
        return err_set(err, "tensor %s has %zu dimensions", t->name, t->dims);
    for (size_t i = 0; i < t->dims; i++) {
        json_int_t n = json_integer_value(json_array_get(shape, i));
        if (n < 1 || n > DIMENSION_MAX)
            return err_set(err, "tensor %s has a bad shape", t->name);
        t->shape[i] = (size_t)n;
    }
    return 0;
}

static int decode_tensor(const json_t *obj, const struct manifest *m, struct manifest_tensor *t,
                         struct err *err)
{
    json_t *shape;
    const char *name, *type;
    if (jsonx_str(obj, "name", &name, err) != 0 || copy_name(name, t->name, sizeof t->name, err) != 0 ||
        jsonx_str(obj, "dtype", &type, err) != 0 || get_array(obj, "shape", &shape, &t->dims, err) != 0 ||
        decode_shape(shape, t, err) != 0)
        return -1;
    if (strcmp(type, "F32") != 0)
        return err_set(err, "tensor %s is of type %.20s, not F32", t->name, type);
    return decode_slices(obj, m, t, err);
}

static int decode_tensors(const json_t *obj, struct manifest *m, struct err *err)
{
    json_t *array;
    size_t count;
    if (get_array(obj, "tensors", &array, &count, err) != 0)
        return -1;
    m->tensors = mem_zero(count, sizeof *m->tensors);
    m->n_tensors = count;
    for (size_t i = 0; i < count; i++)
        if (decode_tensor(json_array_get(array, i), m, &m->tensors[i], err) != 0)
            return -1;
    return arrange(m, err);
}

/* Format 1 told the heads in later versions, and nothing else. */
static int decode_model(const json_t *obj, struct manifest *m, struct err *err)
{
    const json_t *model = json_object_get(obj, "model");
    if (m->format > 1)
        return manifest_model_decode(model, &m->state.model, err);
    m->state.model.heads = jsonx_int_or(model, "heads", 0);
    m->state.model.kv_heads = jsonx_int_or(model, "kv_heads", 0);
    manifest_model_guess(m, &m->state.model);
    return 0;
}

/* Takes the white space between the tokens out of a JSON text. Returns what is left of its length. */
static size_t compact(char *text, size_t len)
{
    size_t n = 0;
    bool inside = false; /* a string */
    for (size_t i = 0; i < len; i++) {
        if (!inside && strchr(" \t\r\n", text[i]))
            continue;
        if (text[i] == '"')
            inside = !inside;
        else if (inside && text[i] == '\\')
            text[n++] = text[i++];
        text[n++] = text[i];
    }
    return n;
}

/* The text ends with its hash, ,"self":"…"} when compact. Changes it. */
static int check_self(char *text, size_t len, struct err *err)
{
    static const char key[] = ",\"self\":\"";
    enum { KEY = sizeof key - 1, HASH = DIGEST_SIZE - 1, TAIL = KEY + HASH + 2 };
    char found[DIGEST_SIZE];
    len = compact(text, len);
    char *tail = text + len - TAIL;
    if (len > TAIL && memcmp(tail, key, KEY) == 0 && memcmp(tail + KEY + HASH, "\"}", 2) == 0) {
        tail[0] = '}';
        digest_bytes(text, len - TAIL + 1, found);
        if (memcmp(found, tail + KEY, HASH) == 0)
            return 0;
    }
    return err_set(err, "its content does not match its own hash");
}

/* A whole file into *m. The text is used up. */
static int decode(char *text, size_t len, struct manifest *m, struct err *err)
{
    json_error_t why;
    json_t *obj = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    int rc = -1;
    if (!json_is_object(obj))
        err_set(err, "line %d, column %d: not a JSON object: %s", why.line, why.column, why.text);
    else if (jsonx_int(obj, "format", 1, MANIFEST_FORMAT, &m->format, err) == 0 &&
             check_self(text, len, err) == 0 && decode_state(obj, &m->state, err) == 0 &&
             decode_files(obj, m, err) == 0 && decode_tensors(obj, m, err) == 0)
        rc = decode_model(obj, m, err);
    (void)snprintf(m->time, sizeof m->time, "%s", jsonx_str_or(obj, "time", "")); /* ours fits */
    json_decref(obj);
    return rc;
}

struct manifest *manifest_read(const char *folder, struct err *err)
{
    char *path = str_printf("%s/%s", folder, MANIFEST_FILE_NAME);
    struct manifest *m = NULL;
    size_t len = 0;
    char *text = fs_read(path, MANIFEST_BYTES_MAX, &len, err);
    if (text) {
        account_file(path, len);
        m = mem_zero(1, sizeof *m);
        if (decode(text, len, m, err) != 0) {
            err_prefix(err, "%s", path);
            manifest_free(m);
            m = NULL;
        }
    }
    free(text);
    free(path);
    return m;
}

/* The lines before "files", as an object; NULL when they are not there. */
static json_t *read_head(const char *path)
{
    static const char next[] = ",\n\"files\": [";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    char *text = mem_zero(HEAD_BYTES + 1, 1);
    ssize_t len = pread(fd, text, HEAD_BYTES, 0);
    char *end = len > 0 ? strstr(text, next) : NULL;
    json_t *obj = NULL;
    if (end) {
        *end = '}';
        obj = json_loadb(text, (size_t)(end - text) + 1, 0, NULL);
    }
    free(text);
    close(fd);
    return obj;
}

double manifest_held_loss(const char *folder)
{
    char *path = str_printf("%s/%s", folder, MANIFEST_FILE_NAME);
    json_t *head = read_head(path);
    double loss = jsonx_real_or(head, "held_loss", NAN);
    json_decref(head);
    free(path);
    return loss;
}

void manifest_free(struct manifest *manifest)
{
    if (!manifest)
        return;
    for (size_t i = 0; i < manifest->n_tensors; i++) {
        for (size_t k = 0; k < manifest->tensors[i].n_slices; k++)
            free(manifest->tensors[i].slices[k].entry);
        free(manifest->tensors[i].slices);
    }
    free(manifest->tensors);
    free(manifest->files);
    free(manifest);
}

static int name_against(const void *key, const void *element)
{
    const struct manifest_tensor *t = element;
    return strcmp(key, t->name);
}

const struct manifest_tensor *manifest_find(const struct manifest *manifest, const char *name)
{
    size_t n = manifest->n_tensors;
    return n > 0 ? bsearch(name, manifest->tensors, n, sizeof *manifest->tensors, name_against) : NULL;
}
