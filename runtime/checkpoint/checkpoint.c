/* checkpoint: see checkpoint.h. The manifest is written last: a folder with a good manifest has everything the manifest names. */
#include "runtime/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"

static const char *const prefixes[] = {"", "adam.m.", "adam.v."};
enum { PARTS = sizeof prefixes / sizeof *prefixes };

struct checkpoint_array *checkpoint_arrays(const struct model_tensor *tensors, size_t n, float *parameters,
                                           float *first, float *second, size_t *count)
{
    float *const bases[PARTS] = {parameters, first, second};
    struct checkpoint_array *arrays = mem_zero(PARTS * n, sizeof *arrays);
    for (size_t p = 0; p < PARTS; p++)
        for (size_t i = 0; i < n; i++) {
            struct checkpoint_array *a = &arrays[p * n + i];
            (void)snprintf(a->name, sizeof a->name, "%s%s", prefixes[p],
                           tensors[i].name); /* 7 + 64 bytes at most */
            memcpy(a->shape, tensors[i].shape, sizeof a->shape);
            a->dims = tensors[i].dims;
            a->data = bases[p] + tensors[i].offset;
        }
    *count = PARTS * n;
    return arrays;
}

static size_t row_elements(const struct checkpoint_array *a)
{
    size_t n = 1;
    for (size_t i = 1; i < a->dims; i++)
        n *= a->shape[i];
    return n;
}

static size_t first_row(const struct checkpoint_array *a, int rank, int size)
{
    return a->shape[0] * (size_t)rank / (size_t)size;
}

/* The rows of one array that a rank writes; false when there are none. */
static bool slice_entry(const struct checkpoint_array *a, int rank, int size, struct safetensors_entry *out)
{
    size_t from = first_row(a, rank, size), to = first_row(a, rank + 1, size);
    if (from == to)
        return false;
    memcpy(out->name, a->name, sizeof out->name);
    memcpy(out->shape, a->shape, sizeof out->shape);
    out->shape[0] = to - from;
    out->dims = a->dims;
    out->data = a->data + from * row_elements(a);
    return true;
}

int checkpoint_write_shard(const char *folder, int rank, int size, const struct checkpoint_array *arrays,
                           size_t count, struct manifest_file *out, struct err *err)
{
    struct safetensors_entry *entries = mem_zero(count, sizeof *entries);
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += slice_entry(&arrays[i], rank, size, &entries[n]);
    (void)snprintf(out->name, sizeof out->name, "rank-%05d.safetensors", rank); /* always fits */
    char *path = str_printf("%s/%s", folder, out->name);
    int rc = safetensors_write(path, entries, n, NULL, &out->bytes, out->hash, err);
    free(path);
    free(entries);
    return rc;
}

static void describe_array(const struct checkpoint_array *a, int size, struct manifest_tensor *t)
{
    memcpy(t->name, a->name, sizeof t->name);
    memcpy(t->shape, a->shape, sizeof t->shape);
    t->dims = a->dims;
    t->slices = mem_zero((size_t)size, sizeof *t->slices);
    for (int r = 0; r < size; r++) {
        size_t from = first_row(a, r, size), to = first_row(a, r + 1, size);
        if (from < to)
            t->slices[t->n_slices++] = (struct manifest_slice){(size_t)r, from, to};
    }
}

int checkpoint_seal(const char *folder, int size, const struct checkpoint_array *arrays, size_t count,
                    const struct manifest_state *state, const struct manifest_file *files, struct err *err)
{
    struct manifest *m = mem_zero(1, sizeof *m);
    m->state = *state;
    m->n_files = (size_t)size;
    m->files = mem_zero(m->n_files, sizeof *m->files);
    memcpy(m->files, files, m->n_files * sizeof *m->files);
    m->n_tensors = count;
    m->tensors = mem_zero(count, sizeof *m->tensors);
    for (size_t i = 0; i < count; i++)
        describe_array(&arrays[i], size, &m->tensors[i]);
    int rc = manifest_write(folder, m, err);
    manifest_free(m);
    return rc;
}

static int verify_file(const char *folder, const struct manifest_file *f, bool hash, struct err *err)
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
    else if (hash && (rc = digest_file(path, &bytes, found, err)) == 0 && strcmp(found, f->hash) != 0)
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
        rc = verify_file(folder, &m->files[i], parts > 0 && i % (size_t)parts == (size_t)part, err);
    manifest_free(m);
    return rc;
}

static bool same_shape(const struct checkpoint_array *a, const struct manifest_tensor *t)
{
    return a->dims == t->dims && memcmp(a->shape, t->shape, a->dims * sizeof *a->shape) == 0;
}

/* One of our arrays and the tensor of the manifest it is filled from. */
struct pair {
    const struct checkpoint_array *array;
    const struct manifest_tensor *tensor;
};

/* Finds each array's tensor in the manifest; pairs (count). */
static enum checkpoint_result match(const struct manifest *m, const char *folder,
                                    const struct checkpoint_array *arrays, size_t count, struct pair *pairs,
                                    struct err *err)
{
    const char *advice = "use another checkpoint.directory, or the model it was written with";
    size_t hint = 0;
    for (size_t i = 0; i < count; i++) {
        const struct manifest_tensor *t = manifest_find(m, arrays[i].name, &hint);
        if (!t || !same_shape(&arrays[i], t)) {
            err_set(err, "%s is of another model: it has %s %s; %s", folder,
                    t ? "another shape for tensor" : "no tensor", arrays[i].name, advice);
            return CHECKPOINT_OTHER_MODEL;
        }
        pairs[i] = (struct pair){&arrays[i], t};
    }
    if (count == m->n_tensors)
        return CHECKPOINT_OK;
    err_set(err, "%s is of another model: it has %zu tensors, this one %zu; %s", folder, m->n_tensors, count,
            advice);
    return CHECKPOINT_OTHER_MODEL;
}

static int load_slice(struct safetensors *file, const struct pair *p, const struct manifest_slice *s,
                      struct err *err)
{
    size_t shape[SAFETENSORS_DIMS];
    memcpy(shape, p->tensor->shape, sizeof shape);
    shape[0] = s->to - s->from;
    float *rows = p->array->data + s->from * row_elements(p->array);
    return safetensors_read(file, p->array->name, shape, p->array->dims, rows, err);
}

/* Reads every slice that lies in file number `index`. */
static int load_file(const char *folder, const struct manifest *m, size_t index, const struct pair *pairs,
                     size_t count, struct err *err)
{
    char *path = str_printf("%s/%s", folder, m->files[index].name);
    struct safetensors *file = safetensors_open(path, err);
    int rc = file ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < count; i++)
        for (size_t k = 0; rc == 0 && k < pairs[i].tensor->n_slices; k++)
            if (pairs[i].tensor->slices[k].file == index)
                rc = load_slice(file, &pairs[i], &pairs[i].tensor->slices[k], err);
    safetensors_close(file);
    free(path);
    return rc;
}

enum checkpoint_result checkpoint_load(const char *folder, const struct checkpoint_array *arrays,
                                       size_t count, struct err *err)
{
    struct manifest *m = manifest_read(folder, err);
    if (!m)
        return CHECKPOINT_ERROR;
    struct pair *pairs = mem_zero(count, sizeof *pairs);
    enum checkpoint_result rc = match(m, folder, arrays, count, pairs, err);
    for (size_t f = 0; rc == CHECKPOINT_OK && f < m->n_files; f++)
        if (load_file(folder, m, f, pairs, count, err) != 0)
            rc = CHECKPOINT_ERROR;
    free(pairs);
    manifest_free(m);
    return rc;
}
