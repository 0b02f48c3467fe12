/* weights: see weights.h. */
#include "runtime/convert/weights.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/shelf.h"
#include "common/mem.h"
#include "runtime/convert/hf_folder.h"
#include "runtime/convert/tensors.h"

struct weights {
    char *path;
    struct manifest *manifest; /* of a checkpoint, or NULL */
    struct hf_folder *folder;  /* of Hugging Face's layout, or NULL */
    bool (*stop)(void);        /* or NULL */
};

static bool exists(const char *folder, const char *name)
{
    char *path = str_printf("%s/%s", folder, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* The newest checkpoint of a directory whose files are there with their sizes. */
static char *newest(const char *directory, struct err *err)
{
    int64_t *steps, count = shelf_list(directory, &steps, err);
    char *found = NULL;
    for (int64_t i = 0; !found && i < count; i++) {
        struct manifest_state state;
        char *path = shelf_path(directory, steps[i]);
        if (checkpoint_verify(path, 0, 0, &state, err) == 0)
            found = path;
        else
            free(path);
    }
    free(steps);
    return found;
}

static int open_checkpoint(struct weights *w, struct err *err)
{
    struct manifest_state state;
    if (checkpoint_verify(w->path, 0, 0, &state, err) != 0)
        return -1;
    w->manifest = manifest_read(w->path, err);
    if (!w->manifest)
        return -1;
    const struct manifest_model *model = &w->manifest->state.model;
    if (!model->arch[0] || model->heads < 1)
        return err_set(err, "%s does not say of which model it is", w->path);
    return tensors_check_count(model, w->manifest->n_tensors, err) == 0 ? 0 : err_prefix(err, "%s", w->path);
}

static int open_at(struct weights *w, const char *path, struct err *err)
{
    if (exists(path, MANIFEST_FILE_NAME)) {
        w->path = str_dup(path);
        return open_checkpoint(w, err);
    }
    if (exists(path, "config.json")) {
        w->path = str_dup(path);
        w->folder = hf_folder_open(path, err);
        return w->folder ? 0 : -1;
    }
    struct err why = {""};
    w->path = newest(path, &why);
    if (w->path)
        return open_checkpoint(w, err);
    return err_set(
        err,
        "%s is no checkpoint (manifest.json), no directory with a complete one, and no folder of Hugging "
        "Face's layout (config.json)%s%s",
        path, why.text[0] ? "; " : "", why.text);
}

struct weights *weights_open(const char *path, struct err *err)
{
    struct weights *w = mem_zero(1, sizeof *w);
    struct err own = {""};
    if (open_at(w, path, &own) == 0)
        return w;
    err_set(err, "%s", own.text);
    weights_close(w);
    return NULL;
}

void weights_close(struct weights *weights)
{
    if (!weights)
        return;
    manifest_free(weights->manifest);
    hf_folder_close(weights->folder);
    free(weights->path);
    free(weights);
}

const struct manifest_model *weights_model(const struct weights *weights)
{
    return weights->manifest ? &weights->manifest->state.model : hf_folder_model(weights->folder);
}

const char *weights_path(const struct weights *weights)
{
    return weights->path;
}

const struct manifest_state *weights_state(const struct weights *weights)
{
    return weights->manifest ? &weights->manifest->state : NULL;
}

char *weights_tokenizer(const struct weights *weights)
{
    const char *name = weights_model(weights)->tokenizer;
    if (!*name)
        return NULL;
    return *name != '/' && exists(weights->path, name) ? str_printf("%s/%s", weights->path, name)
                                                       : str_dup(name);
}

/* With other tokens the model would read and write noise, and nothing would look wrong. */
static int check_tokenizer(const struct weights *w, const struct tokenizer *t, bool named, struct err *err)
{
    const struct manifest_model *m = weights_model(w);
    if (m->tokenizer_fingerprint == 0 || m->tokenizer_fingerprint == tokenizer_fingerprint(t))
        return 0;
    return named ? err_set(err,
                           "the tokenizer %s is not the one that the model was trained with: its tokens are "
                           "others; name the one of then, which was %s, or a copy of it",
                           tokenizer_name(t), m->tokenizer)
                 : err_set(err,
                           "%s is not what it was when the model was trained with it: its tokens are others; "
                           "put back the one of then, or a copy of it",
                           tokenizer_name(t));
}

struct tokenizer *weights_open_tokenizer(const struct weights *weights, const char *name, struct err *err)
{
    char *own = name ? NULL : weights_tokenizer(weights);
    struct tokenizer *t = name || own ? tokenizer_open(name ? name : own, err) : NULL;
    if (!name && !own)
        err_set(err, "none is named there");
    free(own);
    if (!t || check_tokenizer(weights, t, name != NULL, err) == 0)
        return t;
    tokenizer_free(t);
    return NULL;
}

int weights_verify(const struct weights *weights, int part, int parts, struct err *err)
{
    struct manifest_state state;
    return weights->manifest ? checkpoint_verify(weights->path, part, parts, &state, err) : 0;
}

int weights_suit(const struct weights *weights, const struct manifest_model *now, struct err *err)
{
    struct manifest_model then = *weights_model(weights);
    if (now->context < then.context ||
        strcmp(then.arch, "gpt2") != 0) /* only GPT-2 has a table of positions */
        then.context = now->context;
    if (manifest_same_model(now, &then, err) == 0)
        return 0;
    return err_prefix(err, "the job cannot start from %s", weights->path);
}

void weights_stop_when(struct weights *weights, bool (*asked)(void))
{
    weights->stop = asked;
}

int weights_load(const struct weights *weights, const struct checkpoint_array *arrays, size_t count,
                 struct err *err)
{
    if (weights->stop && weights->stop())
        return err_set(err, "stopped by a signal; nothing was made");
    if (weights->folder)
        return hf_folder_load(weights->folder, arrays, count, err);
    return checkpoint_load_from(weights->path, weights->manifest, arrays, count, err) == CHECKPOINT_OK ? 0
                                                                                                       : -1;
}

static void copy_tokenizer(const char *name, char out[MANIFEST_PATH_SIZE])
{
    char *path = strcmp(name, "bytes") == 0 ? NULL : realpath(name, NULL);
    const char *best = path && strlen(path) < MANIFEST_PATH_SIZE ? path : name;
    (void)snprintf(out, MANIFEST_PATH_SIZE, "%s",
                   best); /* one that is too long is named again when it is needed */
    free(path);
}

void weights_model_of_job(const struct job_train *train, struct manifest_model *out)
{
    const struct job_model *m = &train->model;
    *out = (struct manifest_model){.layers = m->layers,
                                   .hidden = m->hidden,
                                   .heads = m->heads,
                                   .kv_heads = m->kv_heads,
                                   .ffn = m->ffn,
                                   .vocab = m->vocab,
                                   .context = m->context,
                                   .experts = m->experts,
                                   .top_k = m->top_k,
                                   .tied = m->tied,
                                   .norm_eps = m->norm_eps,
                                   .rope_theta = m->arch == ARCH_LLAMA ? m->rope_theta : 0};
    (void)snprintf(out->arch, sizeof out->arch, "%s", job_arch_name(m->arch)); /* fits */
    copy_tokenizer(train->tokenizer, out->tokenizer);
}
