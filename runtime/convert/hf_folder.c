/* hf_folder: see hf_folder.h. The headers of all files are read once, into one table of tensors in the order of their names. */
#include "runtime/convert/hf_folder.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "runtime/convert/hf_config.h"
#include "runtime/convert/tensors.h"

#define CONFIG_BYTES_MAX (1u << 20)
#define INDEX_BYTES_MAX  (100u << 20)
#define FILES_MAX        10000
#define PREFIX           "transformer." /* before GPT-2's names in what transformers writes itself */

struct entry {
    struct safetensors_tensor tensor;
    const char *file;
};

struct hf_folder {
    char *path;
    struct manifest_model model;
    char **files;
    size_t n_files;
    struct entry *entries;
    size_t count, room;
};

static bool exists(const char *folder, const char *name)
{
    char *path = str_printf("%s/%s", folder, name);
    bool there = access(path, R_OK) == 0;
    free(path);
    return there;
}

static json_t *read_json(const char *folder, const char *name, size_t limit, struct err *err)
{
    char *path = str_printf("%s/%s", folder, name);
    json_t *obj = jsonx_read_file(path, limit, err);
    free(path);
    return obj;
}

static void find_tokenizer(struct hf_folder *f)
{
    static const char *const names[] = {"tokenizer.json", "vocab.bpe", "vocab.json", "tokenizer.model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (exists(f->path, names[i]) && strlen(f->path) < sizeof f->model.tokenizer) {
            memcpy(f->model.tokenizer, f->path, strlen(f->path) + 1);
            return;
        }
}

static int read_config(struct hf_folder *f, struct err *err)
{
    json_t *config = read_json(f->path, "config.json", CONFIG_BYTES_MAX, err);
    if (!config)
        return -1;
    int rc = hf_config_read(config, &f->model, err);
    json_decref(config);
    if (rc != 0)
        return err_prefix(err, "%s/config.json", f->path);
    find_tokenizer(f);
    return 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------------ */

static int add_file(struct hf_folder *f, const char *name, struct err *err)
{
    for (size_t i = f->n_files; i-- > 0;) /* the index names files in runs, so the last is met first */
        if (strcmp(f->files[i], name) == 0)
            return 0;
    if (!*name || strchr(name, '/') || name[0] == '.')
        return err_set(err, "%s: its index names the file \"%.80s\", which is not in the folder", f->path,
                       name);
    if (f->n_files == FILES_MAX)
        return err_set(err, "%s: its index names more than %d files", f->path, FILES_MAX);
    f->files = mem_grow(f->files, f->n_files + 1, sizeof *f->files);
    f->files[f->n_files++] = str_dup(name);
    return 0;
}

static int list_index(struct hf_folder *f, struct err *err)
{
    const char *tensor;
    json_t *file, *index = read_json(f->path, "model.safetensors.index.json", INDEX_BYTES_MAX, err);
    int rc = index ? 0 : -1;
    json_object_foreach(json_object_get(index, "weight_map"), tensor, file)
    {
        if (rc == 0)
            rc = json_is_string(file) ? add_file(f, json_string_value(file), err)
                                      : err_set(err, "%s: its index has no file for %.100s", f->path, tensor);
    }
    json_decref(index);
    return rc;
}

static int list_files(struct hf_folder *f, struct err *err)
{
    if (exists(f->path, "model.safetensors.index.json"))
        return list_index(f, err);
    if (exists(f->path, "model.safetensors"))
        return add_file(f, "model.safetensors", err);
    return err_set(err,
                   "%s has no model.safetensors (nor an index of several files); files of other kinds "
                   "(pytorch_model.bin) are not read: save the model as safetensors",
                   f->path);
}

static void add_entry(struct hf_folder *f, const struct safetensors_tensor *t, const char *file)
{
    if (f->count == f->room)
        f->entries = mem_one_more(f->entries, f->count, &f->room, sizeof *f->entries);
    f->entries[f->count++] = (struct entry){*t, file};
}

static int read_headers(struct hf_folder *f, struct err *err)
{
    for (size_t i = 0; i < f->n_files; i++) {
        char *path = str_printf("%s/%s", f->path, f->files[i]);
        struct safetensors *file = safetensors_open(path, err);
        for (size_t k = 0; file && k < safetensors_count(file); k++)
            add_entry(f, safetensors_at(file, k), f->files[i]);
        bool good = file != NULL;
        safetensors_close(file);
        free(path);
        if (!good)
            return -1;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return strcmp(x->tensor.name, y->tensor.name);
}

/* ---- tensors ---------------------------------------------------------------------------------------------------------- */

static int name_against(const void *key, const void *element)
{
    const struct entry *e = element;
    return strcmp(key, e->tensor.name);
}

static const struct entry *find_named(const struct hf_folder *f, const char *prefix, const char *name)
{
    char whole[NAMES_SIZE + 32];
    (void)snprintf(whole, sizeof whole, "%s%s", prefix, name); /* fits */
    return f->count > 0 ? bsearch(whole, f->entries, f->count, sizeof *f->entries, name_against) : NULL;
}

/* The tensor that one of ours is filled from, or NULL with a sentence. */
static const struct entry *find(const struct hf_folder *f, const struct checkpoint_array *a,
                                struct load_source *source, struct err *err)
{
    char name[NAMES_SIZE + 8];
    *source = (struct load_source){.dims = 0};
    if (!load_hf_name(hf_layout(&f->model), a->name, name, source)) {
        err_set(err, "%s: its model has no tensor for %s", f->path, a->name);
        return NULL;
    }
    const struct entry *e = find_named(f, "", name);
    e = e ? e : find_named(f, PREFIX, name);
    if (!e) {
        err_set(err, "%s has no tensor %s", f->path, name);
        return NULL;
    }
    source->dims = e->tensor.dims;
    source->shape[0] = e->tensor.shape[0];
    source->shape[1] = e->tensor.dims == 2 ? e->tensor.shape[1] : 1;
    if (load_fits(a, source))
        return e;
    err_set(err, "%s: tensor %s does not have the shape that config.json gives it", f->path, name);
    return NULL;
}

/* All that the model needs is there; *used says which entries that is. */
static int check_needed(const struct hf_folder *f, bool *used, struct err *err)
{
    struct tensor_list list;
    int rc = 0;
    tensors_of_model(&f->model, &list);
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        const struct tensor_desc *t = &list.items[i];
        struct checkpoint_array a = {.shape = {t->shape[0], t->shape[1]}, .dims = t->dims};
        struct load_source source;
        memcpy(a.name, t->name, sizeof a.name);
        const struct entry *e = find(f, &a, &source, err);
        if (e)
            used[e - f->entries] = true;
        rc = e ? 0 : -1;
    }
    tensors_free(&list);
    return rc;
}

/* How much of a name says where the tensor belongs: "model.layers.3." of one in a layer, "model.norm." of another. */
static size_t place_length(const char *name)
{
    const char *last = name;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(last, '.')) {
        size_t digits = strspn(dot + 1, "0123456789");
        last = dot + 1;
        if (digits > 0 && last[digits] == '.')
            return (size_t)(last - name) + digits + 1;
    }
    return (size_t)(last - name);
}

/* Is a tensor that is used in the same place as entry i? Those of a place follow each other. */
static bool in_the_model(const struct hf_folder *f, const bool *used, size_t i)
{
    const char *name = f->entries[i].tensor.name;
    size_t len = place_length(name);
    for (size_t k = i; len > 0 && k-- > 0 && strncmp(f->entries[k].tensor.name, name, len) == 0;)
        if (used[k])
            return true;
    for (size_t k = i + 1; len > 0 && k < f->count && strncmp(f->entries[k].tensor.name, name, len) == 0; k++)
        if (used[k])
            return true;
    return false;
}

/* What older files keep although it follows from config.json: masks, and the frequencies of rotary positions. */
static bool is_buffer(const char *name)
{
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t len = strlen(name), end = strlen(ends[i]);
        if (len > end && strcmp(name + len - end, ends[i]) == 0)
            return true;
    }
    return false;
}

/* A bias, or a norm more, in a layer makes another model of it, whatever config.json leaves out. What lies beside (further layers, heads for
 * other tasks) does not change what is computed here. */
static int check_surplus(const struct hf_folder *f, const bool *used, struct err *err)
{
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->entries[i].tensor.name;
        if (!used[i] && !is_buffer(name) && in_the_model(f, used, i))
            return err_set(err,
                           "%s has the tensor %s, which the runtime does not compute with: without it the "
                           "model would be another one",
                           f->path, name);
    }
    return 0;
}

/* Nobody knows which of two is meant; entries are in the order of their names. */
static int check_once(const struct hf_folder *f, struct err *err)
{
    for (size_t i = 1; i < f->count; i++) {
        const struct entry *a = &f->entries[i - 1], *b = &f->entries[i];
        if (strcmp(a->tensor.name, b->tensor.name) == 0)
            return err_set(err, "%s has the tensor %s twice, in %s and in %s; take one out of its index",
                           f->path, a->tensor.name, a->file, b->file);
    }
    return 0;
}

static int check_tensors(const struct hf_folder *f, struct err *err)
{
    if (check_once(f, err) != 0)
        return -1;
    if (tensors_check_count(&f->model, f->count, err) != 0)
        return err_prefix(err, "%s", f->path);
    bool *used = mem_zero(f->count, sizeof *used);
    int rc = check_needed(f, used, err);
    if (rc == 0)
        rc = check_surplus(f, used, err);
    free(used);
    return rc;
}

struct hf_folder *hf_folder_open(const char *path, struct err *err)
{
    struct hf_folder *f = mem_zero(1, sizeof *f);
    f->path = str_dup(path);
    if (read_config(f, err) == 0 && list_files(f, err) == 0 && read_headers(f, err) == 0) {
        if (f->count > 0)
            qsort(f->entries, f->count, sizeof *f->entries, by_name);
        if (check_tensors(f, err) == 0)
            return f;
    }
    hf_folder_close(f);
    return NULL;
}

void hf_folder_close(struct hf_folder *folder)
{
    if (!folder)
        return;
    for (size_t i = 0; i < folder->n_files; i++)
        free(folder->files[i]);
    free(folder->files);
    free(folder->entries);
    free(folder->path);
    free(folder);
}

const struct manifest_model *hf_folder_model(const struct hf_folder *folder)
{
    return &folder->model;
}

int hf_folder_load(const struct hf_folder *folder, const struct checkpoint_array *arrays, size_t count,
                   struct err *err)
{
    struct fetch_list list = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct load_source source;
        const struct entry *e = find(folder, &arrays[i], &source, err);
        if (!e) {
            rc = -1;
            break;
        }
        struct box whole = {{0, 0}, {source.shape[0], source.shape[1]}};
        load_overlap(&list, &arrays[i], &source, &whole, e->file, e->tensor.name);
    }
    if (rc == 0)
        rc = fetch_run(&list, folder->path, err);
    fetch_free(&list);
    return rc;
}
