/* audit: see audit.h. The slices are sorted by the file that they are in once, so that each file is held against its own only. */
#include "checkpoint/audit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shelf.h"
#include "common/mem.h"

struct entry {
    const struct manifest_tensor *tensor;
    const struct manifest_slice *slice;
};

struct audit {
    char *folder;
    struct manifest *manifest;
    struct entry *entries; /* those of file i are first[i] up to first[i+1] */
    size_t *first;
};

static void each_slice(struct audit *a, void (*act)(struct audit *a, const struct entry *e))
{
    for (size_t t = 0; t < a->manifest->n_tensors; t++)
        for (size_t s = 0; s < a->manifest->tensors[t].n_slices; s++) {
            struct entry e = {&a->manifest->tensors[t], &a->manifest->tensors[t].slices[s]};
            act(a, &e);
        }
}

static void count(struct audit *a, const struct entry *e)
{
    a->first[e->slice->file + 1]++;
}

/* From the back, so that first[file] ends where the file's entries begin. */
static void put(struct audit *a, const struct entry *e)
{
    a->entries[--a->first[e->slice->file + 1]] = *e;
}

static void sort_entries(struct audit *a)
{
    size_t n = a->manifest->n_files;
    a->first = mem_zero(n + 1, sizeof *a->first);
    each_slice(a, count);
    for (size_t i = 0; i < n; i++)
        a->first[i + 1] += a->first[i];
    size_t all = a->first[n];
    a->entries = mem_zero(all, sizeof *a->entries);
    each_slice(a, put);
    memmove(a->first, a->first + 1, n * sizeof *a->first);
    a->first[n] = all;
}

struct audit *audit_open(const char *folder, struct err *err)
{
    struct manifest *m = manifest_read(folder, err);
    int64_t named = shelf_step_of(folder);
    if (m && named >= 0 && named != m->state.step) {
        err_set(err, "%s/" MANIFEST_FILE_NAME " is of step %" PRId64 ", not of the one that its folder names",
                folder, m->state.step);
        manifest_free(m);
        m = NULL;
    }
    if (!m)
        return NULL;
    struct audit *a = mem_zero(1, sizeof *a);
    a->folder = str_dup(folder);
    a->manifest = m;
    sort_entries(a);
    return a;
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    manifest_free(audit->manifest);
    free(audit->entries);
    free(audit->first);
    free(audit->folder);
    free(audit);
}

const struct manifest *audit_manifest(const struct audit *audit)
{
    return audit->manifest;
}

const char *audit_folder(const struct audit *audit)
{
    return audit->folder;
}

uint64_t audit_bytes(const struct audit *audit)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < audit->manifest->n_files; i++)
        bytes += audit->manifest->files[i].bytes;
    return bytes;
}

static int check_entry(const struct safetensors *file, const char *path, const struct entry *e,
                       struct err *err)
{
    const char *name = e->slice->entry ? e->slice->entry : e->tensor->name;
    const struct safetensors_tensor *t = safetensors_find(file, name);
    const struct box *b = &e->slice->box;
    if (!t)
        return err_set(err, "%s has no tensor %s, which its manifest says is there", path, name);
    if (t->type == DTYPE_F32 && t->dims == e->tensor->dims && t->shape[0] == b->to[0] - b->from[0] &&
        (t->dims < 2 || t->shape[1] == b->to[1] - b->from[1]))
        return 0;
    return err_set(err, "%s: tensor %s has another type or shape than its manifest says", path, name);
}

static int check_entries(const struct audit *a, size_t i, struct err *err)
{
    char *path = str_printf("%s/%s", a->folder, a->manifest->files[i].name);
    struct safetensors *file = safetensors_open(path, err);
    int rc = file ? 0 : -1;
    for (size_t k = a->first[i]; rc == 0 && k < a->first[i + 1]; k++)
        rc = check_entry(file, path, &a->entries[k], err);
    safetensors_close(file);
    free(path);
    return rc;
}

int audit_file(const struct audit *audit, size_t i, bool full, const struct digest_watch *watch,
               struct err *err)
{
    int rc = checkpoint_check_file(audit->folder, &audit->manifest->files[i], full, watch, err);
    return rc == 0 && full ? check_entries(audit, i, err) : rc;
}
