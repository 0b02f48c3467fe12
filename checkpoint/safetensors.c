/* safetensors: see safetensors.h.
 *
 * Writing: floats go from the caller's memory straight into write(), other types through a small buffer; both are hashed on the way in pieces
 * that stay in cache. Reading: rows that lie side by side in the file are read at once; of columns that leave little out whole spans of rows are
 * read and the columns picked out, of others each row's part by itself. */
#include "checkpoint/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/account.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"

#define HEADER_MAX  (100u << 20) /* bytes of JSON that a reader accepts: the reference's limit */
#define PIECE_BYTES (256u << 10)
#define SPAN_BYTES  (1u << 20) /* read at once when columns are picked out of rows */

/* Bytes of a tensor; false when they are more than a file can have. */
static bool count_bytes(const size_t *shape, size_t dims, size_t each, uint64_t *out)
{
    uint64_t bytes = each;
    for (size_t i = 0; i < dims; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes) || bytes > INT64_MAX)
            return false;
    *out = bytes;
    return true;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

struct safetensors_writer {
    char *path;
    int fd;
    struct digest *digest;
    const struct safetensors_tensor *tensors;
    size_t count, at;  /* the tensor whose numbers come next */
    uint64_t position; /* bytes written behind the header */
    size_t header;     /* bytes up to there */
    char *buffer;
    struct err err; /* the first thing that went wrong */
};

static json_t *encode_tensor(const struct safetensors_tensor *t)
{
    json_t *obj = json_object(), *shape = json_array(), *offsets = json_array();
    for (size_t i = 0; i < t->dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
    json_array_append_new(offsets, json_integer((json_int_t)t->from));
    json_array_append_new(offsets, json_integer((json_int_t)t->to));
    jsonx_set_str(obj, "dtype", dtype_name(t->type));
    jsonx_set(obj, "shape", shape);
    jsonx_set(obj, "data_offsets", offsets);
    return obj;
}

/* The length word and the header, padded with spaces to a multiple of eight. */
static char *encode_header(const struct safetensors_tensor *tensors, size_t count, const char *key,
                           const char *value, size_t *len)
{
    json_t *header = json_object();
    if (key) {
        json_t *inner = json_object();
        jsonx_set_str(inner, key, value);
        jsonx_set(header, "__metadata__", inner);
    }
    for (size_t i = 0; i < count; i++)
        jsonx_set(header, tensors[i].name, encode_tensor(&tensors[i]));
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!text)
        abort(); /* out of memory: the object is our own */
    uint64_t padded = (strlen(text) + 7) / 8 * 8;
    char *bytes = mem_grow(NULL, 8 + padded + 1, 1);
    memcpy(bytes, &padded, 8);
    (void)snprintf(bytes + 8, padded + 1, "%-*s", (int)padded, text); /* exactly fits */
    free(text);
    *len = 8 + padded;
    return bytes;
}

/* Keeps the first sentence. */
static int fail(struct safetensors_writer *w)
{
    if (!w->err.text[0])
        err_sys(&w->err, "cannot write %s", w->path);
    return -1;
}

static int put_bytes(struct safetensors_writer *w, const void *data, uint64_t len)
{
    const char *p = data;
    for (uint64_t at = 0; at < len; at += PIECE_BYTES) {
        size_t n = len - at < PIECE_BYTES ? (size_t)(len - at) : PIECE_BYTES;
        digest_add(w->digest, p + at, n);
        if (fs_write_all(w->fd, p + at, n) != 0)
            return fail(w);
    }
    return 0;
}

static void place(struct safetensors_tensor *tensors, size_t count)
{
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        if (!count_bytes(tensors[i].shape, tensors[i].dims, dtype_bytes(tensors[i].type), &bytes))
            abort(); /* more than memory could hold */
        tensors[i].from = at;
        tensors[i].to = at += bytes;
    }
}

char *safetensors_layout(struct safetensors_tensor *tensors, size_t count, const char *key, const char *value,
                         size_t *len)
{
    place(tensors, count);
    return encode_header(tensors, count, key, value, len);
}

struct safetensors_writer *safetensors_create(const char *path, struct safetensors_tensor *tensors,
                                              size_t count, const char *key, const char *value,
                                              struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        err_sys(err, "cannot make %s", path);
        return NULL;
    }
    struct safetensors_writer *w = mem_zero(1, sizeof *w);
    w->path = str_dup(path);
    w->fd = fd;
    w->digest = digest_new();
    w->tensors = tensors;
    w->count = count;
    char *header = safetensors_layout(tensors, count, key, value, &w->header);
    (void)put_bytes(w, header, w->header); /* safetensors_finish tells what went wrong */
    free(header);
    return w;
}

/* The numbers, all of one tensor, as its type wants them. */
static int put_numbers(struct safetensors_writer *w, const float *x, size_t n, enum dtype type)
{
    if (type == DTYPE_F32)
        return put_bytes(w, x, n * sizeof *x);
    size_t each = dtype_bytes(type), room = PIECE_BYTES / each;
    if (!w->buffer)
        w->buffer = mem_grow(NULL, PIECE_BYTES, 1);
    for (size_t at = 0; at < n; at += room) {
        size_t part = n - at < room ? n - at : room;
        dtype_from_float(type, x + at, w->buffer, part);
        if (put_bytes(w, w->buffer, part * each) != 0)
            return -1;
    }
    return 0;
}

int safetensors_put(struct safetensors_writer *writer, const float *x, size_t n)
{
    struct safetensors_writer *w = writer;
    while (n > 0 && !w->err.text[0]) {
        while (w->at < w->count && w->tensors[w->at].to == w->position)
            w->at++;
        if (w->at == w->count)
            return err_set(&w->err, "%s gets more numbers than it has room for", w->path);
        const struct safetensors_tensor *t = &w->tensors[w->at];
        size_t each = dtype_bytes(t->type), room = (size_t)(t->to - w->position) / each,
               part = n < room ? n : room;
        if (put_numbers(w, x, part, t->type) != 0)
            return -1;
        w->position += part * each;
        x += part;
        n -= part;
    }
    return w->err.text[0] ? -1 : 0;
}

int safetensors_finish(struct safetensors_writer *writer, uint64_t *bytes, char hash[DIGEST_SIZE],
                       struct err *err)
{
    struct safetensors_writer *w = writer;
    uint64_t all = w->count > 0 ? w->tensors[w->count - 1].to : 0;
    *bytes = w->header + w->position;
    if (!w->err.text[0] && w->position != all)
        err_set(&w->err, "%s got fewer numbers than its header says", w->path);
    if (!w->err.text[0] && fsync(w->fd) != 0)
        (void)fail(w); /* told below */
    if (close(w->fd) != 0)
        (void)fail(w);
    digest_end(w->digest, hash);
    int rc = w->err.text[0] ? err_set(err, "%s", w->err.text) : 0;
    if (rc != 0)
        (void)unlink(w->path); /* the error above is the one to tell */
    free(w->buffer);
    free(w->path);
    free(w);
    return rc;
}

/* ---- opening ---------------------------------------------------------------------------------------------------------- */

struct safetensors {
    char *path;
    int fd;
    struct safetensors_tensor *tensors;
    size_t count;
    uint64_t data_at, data_bytes;
    bool stored; /* reads count (account.h) */
    char *span;
};

static int read_at(const struct safetensors *f, void *out, uint64_t len, uint64_t at, struct err *err)
{
    char *p = out;
    uint64_t wanted = len;
    while (len > 0) {
        ssize_t n = pread(f->fd, p, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "cannot read %s", f->path);
        if (n == 0)
            return err_set(err, "%s ends too early", f->path);
        p += n;
        at += (uint64_t)n;
        len -= (uint64_t)n;
    }
    if (f->stored)
        account_read(wanted);
    return 0;
}

static int decode_shape(const json_t *array, struct safetensors_tensor *t)
{
    t->dims = json_array_size(array);
    if (!json_is_array(array) || t->dims > SAFETENSORS_DIMS)
        return -1;
    for (size_t i = 0; i < t->dims; i++) {
        const json_t *v = json_array_get(array, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return -1;
        t->shape[i] = (size_t)json_integer_value(v);
    }
    return 0;
}

static int decode_offsets(const json_t *array, struct safetensors_tensor *t)
{
    const json_t *from = json_array_get(array, 0), *to = json_array_get(array, 1);
    if (json_array_size(array) != 2 || !json_is_integer(from) || !json_is_integer(to) ||
        json_integer_value(from) < 0 || json_integer_value(to) < json_integer_value(from))
        return -1;
    t->from = (uint64_t)json_integer_value(from);
    t->to = (uint64_t)json_integer_value(to);
    return 0;
}

static int decode_tensor(const struct safetensors *f, const char *name, const json_t *obj,
                         struct safetensors_tensor *t, struct err *err)
{
    size_t each;
    uint64_t bytes = 0;
    const char *type = jsonx_str_or(obj, "dtype", "");
    if (strlen(name) > SAFETENSORS_NAME_MAX)
        return err_set(err, "%s: the name of tensor %.80s… is too long", f->path, name);
    memcpy(t->name, name, strlen(name) + 1);
    if (!dtype_of_name(type, &t->type, &each))
        return err_set(err, "%s: tensor %s is of type \"%.20s\", which is not known", f->path, name, type);
    if (decode_shape(json_object_get(obj, "shape"), t) != 0)
        return err_set(err, "%s: tensor %s has a bad shape", f->path, name);
    if (decode_offsets(json_object_get(obj, "data_offsets"), t) != 0 || t->to > f->data_bytes)
        return err_set(err, "%s: tensor %s does not lie within the file", f->path, name);
    if (!count_bytes(t->shape, t->dims, each, &bytes) || bytes != t->to - t->from)
        return err_set(err, "%s: the shape of tensor %s does not fit its bytes", f->path, name);
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static int by_name(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* The tensors must fill the file, one after the other. */
static int check_order(struct safetensors *f, struct err *err)
{
    uint64_t at = 0;
    qsort(f->tensors, f->count, sizeof *f->tensors, by_offset);
    for (size_t i = 0; i < f->count; at = f->tensors[i++].to)
        if (f->tensors[i].from != at)
            return err_set(err, "%s: tensor %s does not begin where the one before it ends", f->path,
                           f->tensors[i].name);
    if (at != f->data_bytes)
        return err_set(err, "%s: its tensors end after %llu of %llu bytes", f->path, (unsigned long long)at,
                       (unsigned long long)f->data_bytes);
    qsort(f->tensors, f->count, sizeof *f->tensors, by_name);
    return 0;
}

static int check_metadata(const struct safetensors *f, const json_t *obj, struct err *err)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(obj);
    json_object_foreach((json_t *)obj, key, value)
    {
        good = good && json_is_string(value);
    }
    return good ? 0 : err_set(err, "%s: its __metadata__ is not an object of strings", f->path);
}

static int decode_header(struct safetensors *f, const json_t *header, struct err *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(header))
        return err_set(err, "%s is not a safetensors file: its header is not a JSON object", f->path);
    f->tensors = mem_zero(json_object_size(header), sizeof *f->tensors);
    json_object_foreach((json_t *)header, name, value)
    {
        int rc = strcmp(name, "__metadata__") == 0
                     ? check_metadata(f, value, err)
                     : decode_tensor(f, name, value, &f->tensors[f->count++], err);
        if (rc != 0)
            return rc;
    }
    return check_order(f, err);
}

static int parse_header(struct safetensors *f, const char *text, size_t len, struct err *err)
{
    json_error_t why;
    json_t *header = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    int rc = text[0] == '{'
                 ? decode_header(f, header, err)
                 : err_set(err, "%s is not a safetensors file: its header does not begin with {", f->path);
    json_decref(header);
    return rc;
}

/* Reads the header of an open file of `size` bytes. */
static int read_header(struct safetensors *f, uint64_t size, struct err *err)
{
    uint64_t len = 0;
    if (size < 8)
        return err_set(err, "%s is not a safetensors file: it has only %llu bytes", f->path,
                       (unsigned long long)size);
    if (read_at(f, &len, 8, 0, err) != 0)
        return -1;
    if (len == 0 || len > HEADER_MAX || len > size - 8)
        return err_set(err, "%s is not a safetensors file: its header would have %llu bytes", f->path,
                       (unsigned long long)len);
    f->data_at = 8 + len;
    f->data_bytes = size - f->data_at;
    char *text = mem_grow(NULL, len, 1);
    int rc = read_at(f, text, len, 8, err);
    if (rc == 0)
        rc = parse_header(f, text, len, err);
    free(text);
    return rc;
}

struct safetensors *safetensors_open(const char *path, struct err *err)
{
    struct safetensors *f = mem_zero(1, sizeof *f);
    struct stat st;
    f->path = str_dup(path);
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    f->stored = f->fd >= 0 && account_counts(f->fd);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        err_sys(err, "cannot open %s", path);
    else if (read_header(f, (uint64_t)st.st_size, err) == 0)
        return f;
    safetensors_close(f);
    return NULL;
}

void safetensors_close(struct safetensors *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file->tensors);
    free(file->span);
    free(file->path);
    free(file);
}

size_t safetensors_count(const struct safetensors *file)
{
    return file->count;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *file, size_t i)
{
    return &file->tensors[i];
}

static int name_against(const void *key, const void *element)
{
    const struct safetensors_tensor *t = element;
    return strcmp(key, t->name);
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    return bsearch(name, file->tensors, file->count, sizeof *file->tensors, name_against);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */

static size_t columns_of(const struct safetensors_tensor *t)
{
    return t->dims == 2 ? t->shape[1] : 1;
}

/* n numbers of t from element `first` on, side by side. */
static int read_run(struct safetensors *f, const struct safetensors_tensor *t, size_t first, float *out,
                    size_t n, struct err *err)
{
    size_t each = dtype_bytes(t->type), room = SPAN_BYTES / each;
    uint64_t at = f->data_at + t->from + (uint64_t)first * each;
    if (t->type == DTYPE_F32)
        return read_at(f, out, n * each, at, err);
    for (size_t done = 0; done < n; done += room) {
        size_t part = n - done < room ? n - done : room;
        if (read_at(f, f->span, part * each, at + done * each, err) != 0)
            return -1;
        dtype_to_float(t->type, f->span, out + done, part);
    }
    return 0;
}

/* Rows [from,to) of columns that are narrow: the span from the first to the last number that is wanted is read whole. */
static int read_span(struct safetensors *f, const struct safetensors_tensor *t, const struct box *box,
                     size_t from, size_t to, float *out, size_t stride, struct err *err)
{
    size_t each = dtype_bytes(t->type), columns = columns_of(t), width = box->to[1] - box->from[1],
           numbers = (to - from - 1) * columns + width;
    uint64_t first = (uint64_t)from * columns + box->from[1];
    if (read_at(f, f->span, numbers * each, f->data_at + t->from + first * each, err) != 0)
        return -1;
    for (size_t r = 0; r < to - from; r++)
        dtype_to_float(t->type, f->span + r * columns * each, out + r * stride, width);
    return 0;
}

static int read_columns(struct safetensors *f, const struct safetensors_tensor *t, const struct box *box,
                        float *out, size_t stride, struct err *err)
{
    size_t each = dtype_bytes(t->type), width = box->to[1] - box->from[1], columns = columns_of(t),
           rows = SPAN_BYTES / (columns * each); /* in one span */
    if ((columns - width) * each > SAFETENSORS_GAP || rows < 2)
        rows = 1;
    for (size_t r = box->from[0]; r < box->to[0]; r += rows) {
        size_t end = box->to[0] - r < rows ? box->to[0] : r + rows;
        float *to = out + (r - box->from[0]) * stride;
        int rc = rows == 1 ? read_run(f, t, r * columns + box->from[1], to, width, err)
                           : read_span(f, t, box, r, end, to, stride, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int safetensors_read(struct safetensors *file, const struct safetensors_tensor *t, const struct box *box,
                     float *out, size_t stride, struct err *err)
{
    size_t columns = columns_of(t), width = box->to[1] - box->from[1];
    if (t->type == DTYPE_OTHER)
        return err_set(err, "%s: tensor %s does not hold floating point numbers", file->path, t->name);
    if (t->dims < 1 || t->dims > 2 || !box_valid(box) || box->to[0] > t->shape[0] || box->to[1] > columns)
        return err_set(err, "%s: tensor %s does not have the expected shape", file->path, t->name);
    if (!file->span)
        file->span = mem_grow(NULL, SPAN_BYTES, 1);
    if (width == columns && (stride == width || box->to[0] - box->from[0] == 1))
        return read_run(file, t, box->from[0] * columns, out, box_count(box), err);
    return read_columns(file, t, box, out, stride, err);
}
