/* import: see import.h. */
#include "runtime/convert/import.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/convert/bands.h"
#include "runtime/convert/tensors.h"
#include "runtime/text/tokenizer.h"

#define FILE_NAME "rank-00000.safetensors"

struct output {
    struct safetensors_writer *file;
    bool finite; /* all numbers so far */
};

static int put(void *to, const float *x, size_t n)
{
    struct output *out = to;
    for (size_t i = 0; i < n; i++)
        out->finite = out->finite && isfinite(x[i]);
    return safetensors_put(out->file, x, n);
}

static void declare(const struct tensor_list *list, struct safetensors_tensor *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor_desc *t = &list->items[i];
        memcpy(out[i].name, t->name, sizeof t->name);
        memcpy(out[i].shape, t->shape, sizeof t->shape);
        out[i].dims = t->dims;
        out[i].type = DTYPE_F32;
    }
}

/* Numbers that are none are copied like others, and told: a job that begins with them would look for the fault in itself. */
static int stream_all(const struct weights *w, const struct tensor_list *list, struct output *out,
                      struct err *err)
{
    const struct bands_sink sink = {put, out};
    bool told = false;
    for (size_t i = 0; i < list->count; i++) {
        struct mapping_tensor whole = {.first = &list->items[i], .parts = 1};
        if (bands_put(w, &whole, &sink, err) != 0)
            return -1;
        if (!out->finite && !told)
            log_warn("%s: %s, and others perhaps, holds numbers that are not finite, with which nothing can "
                     "be computed; "
                     "they may come from a run that diverged",
                     weights_path(w), list->items[i].name);
        told = !out->finite;
    }
    return 0;
}

static int write_tensors(const struct weights *w, const struct tensor_list *list, const char *folder,
                         struct manifest_file *file, struct err *err)
{
    char *path = str_printf("%s/" FILE_NAME, folder);
    struct safetensors_tensor *tensors = mem_zero(list->count, sizeof *tensors);
    declare(list, tensors);
    struct output out = {safetensors_create(path, tensors, list->count, NULL, NULL, err), true};
    int rc = out.file ? stream_all(w, list, &out, err) : -1;
    if (out.file && safetensors_finish(out.file, &file->bytes, file->hash, err->text[0] ? NULL : err) != 0)
        rc = -1;
    (void)snprintf(file->name, sizeof file->name, FILE_NAME); /* fits */
    free(tensors);
    free(path);
    return rc;
}

/* Every tensor whole, in the one file. */
static int seal(const struct tensor_list *list, const struct manifest_file *file, const char *folder,
                const struct manifest_state *state, struct err *err)
{
    struct checkpoint_array *arrays = mem_zero(list->count, sizeof *arrays);
    struct checkpoint_piece *pieces = mem_zero(list->count, sizeof *pieces);
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor_desc *t = &list->items[i];
        pieces[i] = (struct checkpoint_piece){.to = {t->shape[0], t->shape[1]}, .stride = t->shape[1]};
        arrays[i] = (struct checkpoint_array){
            .shape = {t->shape[0], t->shape[1]}, .dims = t->dims, .pieces = &pieces[i], .n_pieces = 1};
        memcpy(arrays[i].name, t->name, sizeof t->name);
    }
    struct checkpoint_record record = checkpoint_describe(arrays, list->count, file);
    int rc = checkpoint_seal(folder, &record, NULL, 1, state, err);
    free(record.bytes);
    free(pieces);
    free(arrays);
    return rc;
}

/* Its own copy, so that the checkpoint does not depend on where it came from. */
static int write_tokenizer(const struct weights *w, const char *folder, struct manifest_model *model,
                           struct err *err)
{
    char *name = weights_tokenizer(w), *path = str_printf("%s/tokenizer.json", folder);
    struct tokenizer *t = name ? weights_open_tokenizer(w, NULL, err) : NULL;
    const char *kept = !name ? "" : strcmp(name, "bytes") == 0 ? "bytes" : "tokenizer.json";
    int rc = name && !t ? -1 : 0;
    if (rc == 0 && strcmp(kept, "tokenizer.json") == 0)
        rc = tokenizer_write_json(t, path, err);
    (void)snprintf(model->tokenizer, sizeof model->tokenizer, "%s", kept); /* fits */
    model->tokenizer_fingerprint = t ? tokenizer_fingerprint(t) : 0;
    tokenizer_free(t);
    free(path);
    free(name);
    return rc;
}

int import_write(const struct weights *weights, const char *folder, uint64_t *bytes, struct err *err)
{
    struct manifest_state state = {
        .tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1, .held_loss = NAN, .model = *weights_model(weights)};
    struct manifest_file file = {.bytes = 0};
    struct tensor_list list;
    err->text[0] = 0;
    tensors_of_model(&state.model, &list);
    int rc = write_tensors(weights, &list, folder, &file, err);
    if (rc == 0)
        rc = write_tokenizer(weights, folder, &state.model, err);
    if (rc == 0)
        rc = seal(&list, &file, folder, &state, err);
    tensors_free(&list);
    *bytes = file.bytes;
    return rc;
}

char *import_job_model(const struct manifest_model *m)
{
    char *experts = m->experts > 0
                        ? str_printf(", experts: %" PRId64 ", top_k: %" PRId64, m->experts, m->top_k)
                        : str_dup("");
    char *theta =
        strcmp(m->arch, "gpt2") == 0 ? str_dup("") : str_printf(", rope_theta: %.9g", m->rope_theta);
    char *out = str_printf("model: {arch: %s, layers: %" PRId64 ", hidden: %" PRId64 ", heads: %" PRId64
                           ", kv_heads: %" PRId64 ", ffn: %" PRId64 ", vocab: %" PRId64 ", context: %" PRId64
                           "%s, tied: %s, norm_eps: %.9g%s}",
                           m->arch, m->layers, m->hidden, m->heads, m->kv_heads, m->ffn, m->vocab, m->context,
                           experts, m->tied ? "true" : "false", m->norm_eps, theta);
    free(theta);
    free(experts);
    return out;
}
