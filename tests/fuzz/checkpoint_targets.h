/* What must hold for every checkpoint file and config.json whatever: used by fuzz_checkpoint.c and by the seeded run in the unit tests. */
#ifndef BELAY_TESTS_FUZZ_CHECKPOINT_TARGETS_H
#define BELAY_TESTS_FUZZ_CHECKPOINT_TARGETS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "runtime/convert/hf_config.h"
#include "runtime/convert/tensors.h"

static inline void checkpoint_must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

/* A file in memory with this content, and a path to it. */
static inline int checkpoint_file(const void *data, size_t size, char path[40])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    checkpoint_must(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no memory");
    (void)snprintf(path, 40, "/proc/self/fd/%d", fd);
    return fd;
}

/* Whatever a header says, reading stays within the file, and within the box. */
static inline void checkpoint_read(struct safetensors *f, const struct safetensors_tensor *t, size_t size)
{
    struct err err = {""};
    float out[6] = {0, 0, 0, 0, 0, 7};
    const struct box box = {{1, 1}, {2, 3}}, column = {{0, 0}, {2, 1}};
    checkpoint_must(t->from <= t->to && t->to <= size && t->dims <= SAFETENSORS_DIMS,
                    "a tensor beyond the file");
    (void)safetensors_read(f, t, &box, out, 3, &err);
    (void)safetensors_read(f, t, &column, out, 3, &err);
    checkpoint_must(out[5] == 7, "written beyond the box");
}

static inline bool fuzz_safetensors(const uint8_t *data, size_t size)
{
    struct err err = {""};
    char path[40];
    int fd = checkpoint_file(data, size, path);
    struct safetensors *f = safetensors_open(path, &err);
    checkpoint_must((f != NULL) == (err.text[0] == '\0'), "result and sentence disagree");
    for (size_t i = 0; f && i < safetensors_count(f); i++) {
        checkpoint_read(f, safetensors_at(f, i), size);
        checkpoint_must(safetensors_find(f, safetensors_at(f, i)->name) == safetensors_at(f, i),
                        "a tensor is not found");
    }
    safetensors_close(f);
    close(fd);
    return f != NULL;
}

static inline void checkpoint_slices(const struct manifest *m, const struct manifest_tensor *t)
{
    size_t numbers = 0, columns = t->dims == 2 ? t->shape[1] : 1;
    for (size_t i = 0; i < t->n_slices; i++) {
        const struct manifest_slice *s = &t->slices[i];
        checkpoint_must(s->file < m->n_files && box_valid(&s->box), "a slice that is nowhere");
        checkpoint_must(s->box.to[0] <= t->shape[0] && s->box.to[1] <= columns, "a slice beyond its tensor");
        numbers += box_count(&s->box);
    }
    checkpoint_must(numbers == t->shape[0] * columns, "slices do not hold each number once");
}

/* The input is the manifest without its hash, which is put in: else nothing would pass that. The folder must be there. */
static inline bool fuzz_manifest(const uint8_t *data, size_t size, const char *folder)
{
    struct err err = {""};
    json_t *obj = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(obj)) {
        json_decref(obj);
        return false;
    }
    (void)json_object_del(obj, "self");
    char hash[DIGEST_SIZE], *text = json_dumps(obj, JSON_COMPACT), path[200];
    digest_bytes(text, strlen(text), hash);
    (void)json_object_set_new(obj, "self", json_string(hash));
    (void)snprintf(path, sizeof path, "%s/" MANIFEST_FILE_NAME, folder);
    checkpoint_must(json_dump_file(obj, path, JSON_COMPACT) == 0, "no room");
    struct manifest *m = manifest_read(folder, &err);
    checkpoint_must((m != NULL) == (err.text[0] == '\0'), "result and sentence disagree");
    for (size_t i = 0; m && i < m->n_tensors; i++) {
        checkpoint_slices(m, &m->tensors[i]);
        checkpoint_must(manifest_find(m, m->tensors[i].name) == &m->tensors[i], "a tensor is not found");
    }
    for (size_t i = 0; m && i < m->n_files; i++)
        checkpoint_must(!strchr(m->files[i].name, '/') && m->files[i].name[0] != '.',
                        "a file outside of the folder");
    bool good = m != NULL;
    manifest_free(m);
    free(text);
    json_decref(obj);
    return good;
}

static inline bool fuzz_config(const uint8_t *data, size_t size)
{
    struct err err = {""};
    struct manifest_model m;
    json_t *obj = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_object(obj) && hf_config_read(obj, &m, &err) == 0;
    checkpoint_must(!json_is_object(obj) || good == (err.text[0] == '\0'), "result and sentence disagree");
    if (good) {
        checkpoint_must(m.layers > 0 && m.heads > 0 && m.kv_heads > 0 && m.hidden % m.heads == 0,
                        "a model that cannot be");
        checkpoint_must(m.norm_eps > 0 && m.experts >= 0 && m.top_k <= m.experts, "a model that cannot be");
    }
    json_decref(obj);
    return good;
}

#endif
