/* checkpoint: see checkpoint.h. The manifest is written last: a folder with a good manifest has everything the manifest names.
 *
 * In a shard each piece is a tensor of its own: the first of an array under the array's name, the others with "#1", "#2" behind it. */
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/safetensors.h"
#include "common/mem.h"

#define BAND_NUMBERS ((size_t)1 << 20) /* copied to the host at a time */

_Static_assert(MANIFEST_NAME_SIZE + 24 <= SAFETENSORS_NAME_MAX, "names of entries fit");

static struct box box_of(const struct checkpoint_piece *p)
{
    return (struct box){{p->from[0], p->from[1]}, {p->to[0], p->to[1]}};
}

size_t checkpoint_range(const struct box *box, size_t from, size_t to, float *data,
                        struct checkpoint_piece pieces[3])
{
    size_t columns = box->to[1] - box->from[1], n = 0;
    if (to > box_count(box))
        return 0;
    for (size_t at = from; at < to;) {
        size_t row = at / columns, column = at % columns, left = to - at;
        size_t rows = column == 0 && left >= columns ? left / columns : 1;
        size_t width = columns - column < left ? columns - column : left;
        size_t r0 = box->from[0] + row, c0 = box->from[1] + column;
        pieces[n++] =
            (struct checkpoint_piece){{r0, c0}, {r0 + rows, c0 + width}, data + (at - from), columns};
        at += rows * width;
    }
    return n;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

static size_t count_pieces(const struct checkpoint_array *arrays, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += arrays[i].n_pieces;
    return n;
}

static void print_entry(const char *name, size_t i, char *out, size_t size)
{
    if (i == 0)
        (void)snprintf(out, size, "%s", name); /* both fit: 24 more bytes than a name */
    else
        (void)snprintf(out, size, "%s#%zu", name, i);
}

static void describe_entry(const struct checkpoint_array *a, size_t i, struct safetensors_tensor *t)
{
    const struct checkpoint_piece *p = &a->pieces[i];
    print_entry(a->name, i, t->name, sizeof t->name);
    t->type = DTYPE_F32;
    t->dims = a->dims;
    t->shape[0] = p->to[0] - p->from[0];
    t->shape[1] = p->to[1] - p->from[1];
}

/* `count` numbers that lie side by side; from elsewhere by way of a buffer of the host. */
static int put_numbers(struct safetensors_writer *w, const struct checkpoint_memory *memory,
                       const float *data, size_t count)
{
    if (!memory->to_host)
        return safetensors_put(w, data, count);
    size_t most = count < BAND_NUMBERS ? count : BAND_NUMBERS;
    float *band = mem_grow(NULL, most, sizeof *band);
    int rc = 0;
    for (size_t at = 0, n; rc == 0 && at < count; at += n) {
        n = count - at < most ? count - at : most;
        memory->to_host(band, data + at, n * sizeof *band);
        rc = safetensors_put(w, band, n);
    }
    free(band);
    return rc;
}

static int put_piece(struct safetensors_writer *w, const struct checkpoint_memory *memory,
                     const struct checkpoint_piece *p)
{
    size_t rows = p->to[0] - p->from[0], width = p->to[1] - p->from[1];
    if (p->stride == width || rows == 1)
        return put_numbers(w, memory, p->data, rows * width);
    for (size_t r = 0; r < rows; r++)
        if (put_numbers(w, memory, p->data + r * p->stride, width) != 0)
            return -1;
    return 0;
}

static void put_arrays(struct safetensors_writer *w, const struct checkpoint_array *arrays, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < arrays[i].n_pieces; k++)
            if (put_piece(w, &arrays[i].memory, &arrays[i].pieces[k]) != 0)
                return; /* safetensors_finish tells */
}

struct safetensors_tensor *checkpoint_entries(const struct checkpoint_array *arrays, size_t count, size_t *n)
{
    struct safetensors_tensor *entries = mem_zero(count_pieces(arrays, count), sizeof *entries);
    *n = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < arrays[i].n_pieces; k++)
            describe_entry(&arrays[i], k, &entries[(*n)++]);
    return entries;
}

void checkpoint_shard_name(int rank, char name[CHECKPOINT_NAME_SIZE])
{
    (void)snprintf(name, CHECKPOINT_NAME_SIZE, "rank-%05d.safetensors", rank); /* always fits */
}

int checkpoint_write_shard(const char *folder, int rank, const struct checkpoint_array *arrays, size_t count,
                           struct manifest_file *out, struct err *err)
{
    size_t n = 0;
    struct safetensors_tensor *entries = checkpoint_entries(arrays, count, &n);
    checkpoint_shard_name(rank, out->name);
    char *path = str_printf("%s/%s", folder, out->name);
    struct safetensors_writer *w = safetensors_create(path, entries, n, NULL, NULL, err);
    int rc = -1;
    if (w) {
        put_arrays(w, arrays, count);
        rc = safetensors_finish(w, &out->bytes, out->hash, err);
    }
    free(path);
    free(entries);
    return rc;
}

/* ---- sealing ---------------------------------------------------------------------------------------------------------- */

/* A record is a struct manifest_file and one of these for each piece. */
struct record_piece {
    char name[MANIFEST_NAME_SIZE];
    size_t shape[2], dims, index; /* index: which piece of its array */
    struct box box;
};

struct checkpoint_record checkpoint_describe(const struct checkpoint_array *arrays, size_t count,
                                             const struct manifest_file *file)
{
    size_t len = sizeof *file + count_pieces(arrays, count) * sizeof(struct record_piece);
    char *bytes = mem_zero(len, 1), *at = bytes + sizeof *file;
    memcpy(bytes, file, sizeof *file);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < arrays[i].n_pieces; k++, at += sizeof(struct record_piece)) {
            const struct checkpoint_array *a = &arrays[i];
            struct record_piece p = {.shape = {a->shape[0], a->shape[1]},
                                     .dims = a->dims,
                                     .index = k,
                                     .box = box_of(&a->pieces[k])};
            memcpy(p.name, a->name, sizeof p.name);
            memcpy(at, &p, sizeof p);
        }
    return (struct checkpoint_record){bytes, len};
}

/* A piece and the file that it is in. */
struct part {
    struct record_piece piece;
    size_t file;
};

struct parts {
    struct part *items;
    size_t count;
};

static int add_record(struct parts *parts, const struct checkpoint_record *r, size_t index,
                      struct manifest_file *file, struct err *err)
{
    const size_t head = sizeof *file, each = sizeof(struct record_piece);
    if (r->len < head || (r->len - head) % each != 0)
        return err_set(err, "the record of shard %zu has %zu bytes, which cannot be", index, r->len);
    memcpy(file, r->bytes, head);
    file->name[sizeof file->name - 1] = 0;
    size_t n = (r->len - head) / each;
    parts->items = mem_grow(parts->items, parts->count + n + 1, sizeof *parts->items);
    for (size_t i = 0; i < n; i++) {
        struct part *p = &parts->items[parts->count++];
        memcpy(&p->piece, (const char *)r->bytes + head + i * each, each);
        p->piece.name[sizeof p->piece.name - 1] = 0;
        p->file = index;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return strcmp(x->piece.name, y->piece.name);
}

static bool same_tensor(const struct record_piece *a, const struct record_piece *b)
{
    return a->dims == b->dims && a->shape[0] == b->shape[0] && (a->dims < 2 || a->shape[1] == b->shape[1]);
}

/* One tensor from its `count` parts. */
static int describe_tensor(const struct part *parts, size_t count, struct manifest_tensor *t, struct err *err)
{
    const struct record_piece *first = &parts[0].piece;
    memcpy(t->name, first->name, sizeof t->name);
    memcpy(t->shape, first->shape, sizeof t->shape);
    t->dims = first->dims;
    t->slices = mem_zero(count, sizeof *t->slices);
    t->n_slices = count;
    for (size_t i = 0; i < count; i++) {
        const struct record_piece *p = &parts[i].piece;
        if (!same_tensor(first, p))
            return err_set(err, "ranks disagree on the shape of tensor %s", t->name);
        t->slices[i] = (struct manifest_slice){.box = p->box, .file = parts[i].file};
        if (p->index > 0)
            t->slices[i].entry = str_printf("%s#%zu", p->name, p->index);
    }
    return 0;
}

static int describe_tensors(struct manifest *m, struct parts *parts, struct err *err)
{
    if (parts->count > 0)
        qsort(parts->items, parts->count, sizeof *parts->items, by_name);
    m->tensors = mem_zero(parts->count, sizeof *m->tensors);
    for (size_t from = 0, to; from < parts->count; from = to) {
        for (to = from + 1; to < parts->count && by_name(&parts->items[from], &parts->items[to]) == 0;)
            to++;
        if (describe_tensor(&parts->items[from], to - from, &m->tensors[m->n_tensors++], err) != 0)
            return -1;
    }
    return 0;
}

/* NULL with a sentence. */
static struct manifest *assemble(const struct checkpoint_record *records, const struct manifest_file *files,
                                 size_t count, const struct manifest_state *state, struct err *err)
{
    struct manifest *m = mem_zero(1, sizeof *m);
    struct parts parts = {0};
    int rc = 0;
    m->state = *state;
    m->n_files = count;
    m->files = mem_zero(count, sizeof *m->files);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_record(&parts, &records[i], i, &m->files[i], err);
    if (files)
        memcpy(m->files, files, count * sizeof *files);
    if (rc == 0)
        rc = describe_tensors(m, &parts, err);
    free(parts.items);
    if (rc == 0)
        return m;
    manifest_free(m);
    return NULL;
}

int checkpoint_seal(const char *folder, const struct checkpoint_record *records,
                    const struct manifest_file *files, size_t count, const struct manifest_state *state,
                    struct err *err)
{
    struct manifest *m = assemble(records, files, count, state, err);
    int rc = m ? manifest_write(folder, m, err) : -1;
    manifest_free(m);
    return rc;
}

char *checkpoint_manifest(const struct checkpoint_record *records, const struct manifest_file *files,
                          size_t count, const struct manifest_state *state, struct err *err)
{
    struct manifest *m = assemble(records, files, count, state, err);
    char *text = m ? manifest_print(m, err) : NULL;
    manifest_free(m);
    return text;
}

/* ---- verifying -------------------------------------------------------------------------------------------------------- */

int checkpoint_check_file(const char *folder, const struct manifest_file *f, bool hash,
                          const struct digest_watch *watch, struct err *err)
{
    char *path = str_printf("%s/%s", folder, f->name);
    char found[DIGEST_SIZE];
    uint64_t bytes;
    struct stat st;
    int rc = 0;
    if (stat(path, &st) != 0)
        rc = err_sys(err, "%s", path);
    else if ((uint64_t)st.st_size != f->bytes)
        rc = err_set(err, "%s has %lld bytes; its manifest says %" PRIu64, path, (long long)st.st_size,
                     f->bytes);
    else if (hash && (rc = digest_file_watched(path, watch, &bytes, found, err)) == 0 &&
             strcmp(found, f->hash) != 0)
        rc = err_set(err, "%s is damaged: its hash is not the one of its manifest", path);
    free(path);
    return rc;
}

int checkpoint_verify(const char *folder, int part, int parts, struct manifest_state *state, struct err *err)
{
    struct manifest *m = manifest_read(folder, err);
    if (!m)
        return -1;
    int rc = 0;
    *state = m->state;
    for (size_t i = 0; rc == 0 && i < m->n_files; i++)
        rc = checkpoint_check_file(folder, &m->files[i], parts > 0 && i % (size_t)parts == (size_t)part, NULL,
                                   err);
    manifest_free(m);
    return rc;
}
