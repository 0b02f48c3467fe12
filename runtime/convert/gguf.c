/* gguf: see gguf.h. Everything before the numbers is put together in memory; strings have a 64-bit length before them and no end mark. */
#include "runtime/convert/gguf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"

#define PIECE_NUMBERS (64u << 10)

/* Numbers of the format: types of values, and ggml's types of tensors. */
enum { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_STRING = 8, VALUE_ARRAY = 9 };
static const uint32_t ggml_types[] = {[DTYPE_F32] = 0, [DTYPE_F16] = 1, [DTYPE_F64] = 28, [DTYPE_BF16] = 30};

struct bytes {
    char *data;
    size_t len, room;
};

struct tensor {
    enum dtype type;
    uint64_t from, to; /* bytes behind the header */
};

struct gguf {
    struct bytes keys, list;
    uint64_t n_keys;
    struct tensor *tensors;
    size_t count, room, at; /* at: the tensor whose numbers come next */
    char *path;
    int fd;
    uint64_t header, position; /* bytes before the tensors; written of them */
    char *buffer;
    struct err err;
};

static void append(struct bytes *b, const void *data, size_t len)
{
    if (b->len + len > b->room) {
        b->room = 2 * (b->len + len);
        b->data = mem_grow(b->data, b->room, 1);
    }
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void append_u32(struct bytes *b, uint32_t value)
{
    append(b, &value, sizeof value);
}

static void append_u64(struct bytes *b, uint64_t value)
{
    append(b, &value, sizeof value);
}

static void append_str(struct bytes *b, const char *text)
{
    append_u64(b, strlen(text));
    append(b, text, strlen(text));
}

struct gguf *gguf_new(void)
{
    struct gguf *g = mem_zero(1, sizeof *g);
    g->fd = -1;
    return g;
}

static void key(struct gguf *g, const char *name, uint32_t type)
{
    append_str(&g->keys, name);
    append_u32(&g->keys, type);
    g->n_keys++;
}

void gguf_set_u32(struct gguf *g, const char *name, uint32_t value)
{
    key(g, name, VALUE_U32);
    append_u32(&g->keys, value);
}

void gguf_set_f32(struct gguf *g, const char *name, float value)
{
    key(g, name, VALUE_F32);
    append(&g->keys, &value, sizeof value);
}

void gguf_set_bool(struct gguf *g, const char *name, bool value)
{
    char byte = value ? 1 : 0;
    key(g, name, VALUE_BOOL);
    append(&g->keys, &byte, 1);
}

void gguf_set_str(struct gguf *g, const char *name, const char *value)
{
    key(g, name, VALUE_STRING);
    append_str(&g->keys, value);
}

static void array(struct gguf *g, const char *name, uint32_t type, size_t count)
{
    key(g, name, VALUE_ARRAY);
    append_u32(&g->keys, type);
    append_u64(&g->keys, count);
}

void gguf_set_i32s(struct gguf *g, const char *name, const int32_t *values, size_t count)
{
    array(g, name, VALUE_I32, count);
    append(&g->keys, values, count * sizeof *values);
}

void gguf_set_strs(struct gguf *g, const char *name, size_t count)
{
    array(g, name, VALUE_STRING, count);
}

void gguf_add_str(struct gguf *g, const char *value)
{
    append_str(&g->keys, value);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
}

void gguf_add_tensor(struct gguf *g, const char *name, enum dtype type, const size_t *shape, size_t dims)
{
    if (g->count == g->room)
        g->tensors = mem_one_more(g->tensors, g->count, &g->room, sizeof *g->tensors);
    struct tensor *t = &g->tensors[g->count];
    uint64_t bytes = dtype_bytes(type);
    append_str(&g->list, name);
    append_u32(&g->list, (uint32_t)dims);
    for (size_t i = dims; i-- > 0;) {
        append_u64(&g->list, shape[i]);
        bytes *= shape[i];
    }
    *t = (struct tensor){.type = type, .from = g->count > 0 ? aligned(g->tensors[g->count - 1].to) : 0};
    t->to = t->from + bytes;
    append_u32(&g->list, ggml_types[type]);
    append_u64(&g->list, t->from);
    g->count++;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

static int put_bytes(struct gguf *g, const void *data, size_t len)
{
    if (!g->err.text[0] && fs_write_all(g->fd, data, len) != 0)
        err_sys(&g->err, "cannot write %s", g->path);
    return g->err.text[0] ? -1 : 0;
}

static const char zeros[GGUF_ALIGNMENT];

void gguf_open(struct gguf *g, const char *path)
{
    struct bytes head = {NULL, 0, 0};
    g->path = str_dup(path);
    g->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (g->fd < 0) {
        err_sys(&g->err, "cannot make %s", path);
        return;
    }
    append(&head, "GGUF", 4);
    append_u32(&head, 3);
    append_u64(&head, g->count);
    append_u64(&head, g->n_keys);
    append(&head, g->keys.data, g->keys.len);
    append(&head, g->list.data, g->list.len);
    append(&head, zeros, aligned(head.len) - head.len);
    g->header = head.len;
    (void)put_bytes(g, head.data, head.len); /* kept for gguf_finish */
    free(head.data);
}

/* After the last number of a tensor: to the next multiple. */
static int pad(struct gguf *g)
{
    uint64_t to = aligned(g->position);
    int rc = put_bytes(g, zeros, (size_t)(to - g->position));
    g->position = to;
    g->at++;
    return rc;
}

int gguf_put(struct gguf *g, const float *x, size_t n)
{
    if (g->at >= g->count || g->position + n * dtype_bytes(g->tensors[g->at].type) > g->tensors[g->at].to)
        return g->err.text[0] ? -1 : err_set(&g->err, "%s gets more numbers than it has room for", g->path);
    const struct tensor *t = &g->tensors[g->at];
    size_t each = dtype_bytes(t->type);
    if (!g->buffer)
        g->buffer = mem_grow(NULL, PIECE_NUMBERS, sizeof(double));
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < PIECE_NUMBERS ? n - done : PIECE_NUMBERS;
        dtype_from_float(t->type, x + done, g->buffer, part);
        if (put_bytes(g, g->buffer, part * each) != 0)
            return -1;
        g->position += part * each;
    }
    return g->position == t->to ? pad(g) : 0;
}

static void close_file(struct gguf *g)
{
    if (!g->err.text[0] && g->at != g->count)
        err_set(&g->err, "%s got fewer numbers than its header says", g->path);
    if (!g->err.text[0] && fsync(g->fd) != 0)
        err_sys(&g->err, "cannot write %s", g->path);
    if (close(g->fd) != 0 && !g->err.text[0])
        err_sys(&g->err, "cannot write %s", g->path);
    if (g->err.text[0])
        (void)unlink(g->path); /* the error is the one to tell */
}

int gguf_finish(struct gguf *g, uint64_t *bytes, struct err *err)
{
    if (g->fd >= 0)
        close_file(g);
    int rc = g->err.text[0] ? err_set(err, "%s", g->err.text) : 0;
    *bytes = g->header + g->position;
    free(g->keys.data);
    free(g->list.data);
    free(g->tensors);
    free(g->buffer);
    free(g->path);
    free(g);
    return rc;
}
