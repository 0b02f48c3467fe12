/* safetensors: see safetensors.h. Data goes from the caller's memory straight into write(), hashed on the way in pieces that stay in cache. */
#include "runtime/checkpoint/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"

#define HEADER_MAX  (64u << 20) /* bytes of JSON that a reader accepts */
#define PIECE_BYTES (256u << 10)

struct safetensors {
    char *path;
    int fd;
    json_t *header;
    uint64_t data_at, data_bytes;
};

static uint64_t entry_bytes(const size_t *shape, size_t dims)
{
    uint64_t bytes = sizeof(float);
    for (size_t i = 0; i < dims; i++)
        bytes *= shape[i];
    return bytes;
}

static json_t *encode_entry(const struct safetensors_entry *e, uint64_t *at)
{
    json_t *obj = json_object(), *shape = json_array(), *offsets = json_array();
    for (size_t i = 0; i < e->dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)e->shape[i]));
    json_array_append_new(offsets, json_integer((json_int_t)*at));
    *at += entry_bytes(e->shape, e->dims);
    json_array_append_new(offsets, json_integer((json_int_t)*at));
    jsonx_set_str(obj, "dtype", "F32");
    jsonx_set(obj, "shape", shape);
    jsonx_set(obj, "data_offsets", offsets);
    return obj;
}

/* The length word and the header, padded with spaces to a multiple of eight. */
static char *encode_header(const struct safetensors_entry *entries, size_t count, const char *metadata,
                           size_t *len)
{
    json_t *header = json_object();
    uint64_t at = 0;
    if (metadata) {
        json_t *inner = json_object();
        jsonx_set_str(inner, "belay", metadata);
        jsonx_set(header, "__metadata__", inner);
    }
    for (size_t i = 0; i < count; i++)
        jsonx_set(header, entries[i].name, encode_entry(&entries[i], &at));
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

static int put(int fd, struct digest *d, const void *data, uint64_t len)
{
    const char *p = data;
    for (uint64_t at = 0; at < len; at += PIECE_BYTES) {
        size_t n = len - at < PIECE_BYTES ? (size_t)(len - at) : PIECE_BYTES;
        digest_add(d, p + at, n);
        if (fs_write_all(fd, p + at, n) != 0)
            return -1;
    }
    return 0;
}

static int write_fd(int fd, const struct safetensors_entry *entries, size_t count, const char *metadata,
                    struct digest *d, uint64_t *bytes)
{
    size_t header_len;
    char *header = encode_header(entries, count, metadata, &header_len);
    int rc = put(fd, d, header, header_len);
    free(header);
    *bytes = header_len;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        uint64_t n = entry_bytes(entries[i].shape, entries[i].dims);
        rc = put(fd, d, entries[i].data, n);
        *bytes += n;
    }
    return rc == 0 ? fsync(fd) : rc;
}

int safetensors_write(const char *path, const struct safetensors_entry *entries, size_t count,
                      const char *metadata, uint64_t *bytes, char hash[DIGEST_SIZE], struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(err, "cannot make %s", path);
    struct digest *d = digest_new();
    int rc = 0;
    if (write_fd(fd, entries, count, metadata, d, bytes) != 0)
        rc = err_sys(err, "cannot write %s", path);
    digest_end(d, hash);
    if (close(fd) != 0 && rc == 0)
        rc = err_sys(err, "cannot write %s", path);
    if (rc != 0)
        (void)unlink(path); /* the error above is the one to tell */
    return rc;
}

static int read_at(const struct safetensors *f, void *out, uint64_t len, uint64_t at, struct err *err)
{
    char *p = out;
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
    return 0;
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
    if (len > HEADER_MAX || len > size - 8)
        return err_set(err, "%s is not a safetensors file: its header would have %llu bytes", f->path,
                       (unsigned long long)len);
    char *text = mem_grow(NULL, len, 1);
    int rc = read_at(f, text, len, 8, err);
    if (rc == 0) {
        json_error_t why;
        f->header = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
        if (!json_is_object(f->header))
            rc = err_set(err, "%s is not a safetensors file: its header is not a JSON object", f->path);
    }
    free(text);
    f->data_at = 8 + len;
    f->data_bytes = size - f->data_at;
    return rc;
}

struct safetensors *safetensors_open(const char *path, struct err *err)
{
    struct safetensors *f = mem_zero(1, sizeof *f);
    struct stat st;
    f->path = str_dup(path);
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
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
    json_decref(file->header);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file);
}

static int same_shape(const json_t *array, const size_t *shape, size_t dims)
{
    if (!json_is_array(array) || json_array_size(array) != dims)
        return 0;
    for (size_t i = 0; i < dims; i++) {
        const json_t *v = json_array_get(array, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) != shape[i])
            return 0;
    }
    return 1;
}

int safetensors_read(struct safetensors *file, const char *name, const size_t *shape, size_t dims, float *out,
                     struct err *err)
{
    const json_t *entry = json_object_get(file->header, name);
    if (!entry)
        return err_set(err, "%s has no tensor %s", file->path, name);
    if (strcmp(jsonx_str_or(entry, "dtype", ""), "F32") != 0)
        return err_set(err, "%s: tensor %s is not of type F32", file->path, name);
    if (!same_shape(json_object_get(entry, "shape"), shape, dims))
        return err_set(err, "%s: tensor %s does not have the expected shape", file->path, name);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    json_int_t from = json_integer_value(json_array_get(offsets, 0)),
               to = json_integer_value(json_array_get(offsets, 1));
    uint64_t bytes = entry_bytes(shape, dims);
    if (json_array_size(offsets) != 2 || from < 0 || to < from || (uint64_t)to > file->data_bytes ||
        (uint64_t)(to - from) != bytes)
        return err_set(err, "%s: tensor %s does not lie within the file", file->path, name);
    return read_at(file, out, bytes, file->data_at + (uint64_t)from, err);
}
