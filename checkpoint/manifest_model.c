/* manifest_model: the model that a manifest speaks of, as JSON, and whether two are the same. One table names the numbers. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/manifest_private.h"
#include "common/jsonx.h"
#include "common/mem.h"

#define NUMBER_MAX  ((int64_t)1 << 40)
#define FINGERPRINT "tokenizer_fingerprint" /* not in what older versions wrote */

static const struct {
    const char *key;
    size_t at;
} numbers[] = {
    {"layers", offsetof(struct manifest_model, layers)},
    {"hidden", offsetof(struct manifest_model, hidden)},
    {"heads", offsetof(struct manifest_model, heads)},
    {"kv_heads", offsetof(struct manifest_model, kv_heads)},
    {"ffn", offsetof(struct manifest_model, ffn)},
    {"vocab", offsetof(struct manifest_model, vocab)},
    {"context", offsetof(struct manifest_model, context)},
    {"experts", offsetof(struct manifest_model, experts)},
    {"top_k", offsetof(struct manifest_model, top_k)},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static int64_t number(const struct manifest_model *m, size_t i)
{
    int64_t value;
    memcpy(&value, (const char *)m + numbers[i].at, sizeof value);
    return value;
}

json_t *manifest_model_encode(const struct manifest_model *model)
{
    json_t *obj = json_object();
    jsonx_set_str(obj, "arch", model->arch);
    for (size_t i = 0; i < NUMBERS; i++)
        jsonx_set(obj, numbers[i].key, json_integer(number(model, i)));
    jsonx_set(obj, "tied", json_boolean(model->tied));
    jsonx_set_real(obj, "norm_eps", model->norm_eps);
    jsonx_set_real(obj, "rope_theta", model->rope_theta);
    jsonx_set_str(obj, "tokenizer", model->tokenizer);
    if (model->tokenizer_fingerprint != 0)
        jsonx_set_hex(obj, FINGERPRINT, model->tokenizer_fingerprint);
    return obj;
}

static int decode_names(const json_t *obj, struct manifest_model *model, struct err *err)
{
    const char *arch, *tokenizer = jsonx_str_or(obj, "tokenizer", "");
    if (jsonx_str(obj, "arch", &arch, err) != 0)
        return -1;
    if (strlen(arch) >= sizeof model->arch || strlen(tokenizer) >= sizeof model->tokenizer)
        return err_set(err, "a name is too long");
    memcpy(model->arch, arch, strlen(arch) + 1);
    memcpy(model->tokenizer, tokenizer, strlen(tokenizer) + 1);
    model->tokenizer_fingerprint = 0;
    return json_object_get(obj, FINGERPRINT) ? jsonx_hex(obj, FINGERPRINT, &model->tokenizer_fingerprint, err)
                                             : 0;
}

int manifest_model_decode(const json_t *obj, struct manifest_model *model, struct err *err)
{
    if (decode_names(obj, model, err) != 0)
        return err_prefix(err, "\"model\"");
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t value;
        if (jsonx_int(obj, numbers[i].key, 0, NUMBER_MAX, &value, err) != 0)
            return err_prefix(err, "\"model\"");
        memcpy((char *)model + numbers[i].at, &value, sizeof value);
    }
    model->tied = jsonx_bool_or(obj, "tied", false);
    model->norm_eps = jsonx_real_or(obj, "norm_eps", 0);
    model->rope_theta = jsonx_real_or(obj, "rope_theta", 0);
    return 0;
}

static size_t dimension(const struct manifest *m, const char *name, size_t i)
{
    const struct manifest_tensor *t = manifest_find(m, name);
    return t && t->dims == 2 ? t->shape[i] : 0;
}

/* One more than the highest N of tensors "<prefix>N.…". */
static int64_t count_layers(const struct manifest *m, const char *prefix)
{
    int64_t layers = 0;
    size_t len = strlen(prefix);
    for (size_t i = 0; i < m->n_tensors; i++)
        if (strncmp(m->tensors[i].name, prefix, len) == 0) {
            int64_t n = strtoll(m->tensors[i].name + len, NULL, 10) + 1;
            layers = n > layers ? n : layers;
        }
    return layers;
}

static void guess_gpt2(const struct manifest *m, struct manifest_model *model)
{
    (void)snprintf(model->arch, sizeof model->arch, "gpt2"); /* fits */
    model->vocab = (int64_t)dimension(m, "wte.weight", 0);
    model->hidden = (int64_t)dimension(m, "wte.weight", 1);
    model->context = (int64_t)dimension(m, "wpe.weight", 0);
    model->ffn = (int64_t)dimension(m, "h.0.mlp.c_fc.weight", 1);
    model->layers = count_layers(m, "h.");
    model->tied = true;
    model->norm_eps = 1e-5;
}

static void guess_llama(const struct manifest *m, struct manifest_model *model)
{
    (void)snprintf(model->arch, sizeof model->arch, "llama"); /* fits */
    model->vocab = (int64_t)dimension(m, "model.embed_tokens.weight", 0);
    model->hidden = (int64_t)dimension(m, "model.embed_tokens.weight", 1);
    model->ffn = (int64_t)dimension(m, "model.layers.0.mlp.gate_proj.weight", 0);
    model->layers = count_layers(m, "model.layers.");
    model->tied = !manifest_find(m, "lm_head.weight");
    model->norm_eps = 1e-5;
    model->rope_theta = 10000;
}

void manifest_model_guess(const struct manifest *manifest, struct manifest_model *model)
{
    if (manifest_find(manifest, "wte.weight"))
        guess_gpt2(manifest, model);
    else if (manifest_find(manifest, "model.embed_tokens.weight"))
        guess_llama(manifest, model);
}

static int differ(const char *what, double now, double then, struct err *err)
{
    return err_set(err, "it is of another model: %s is %.9g there and %.9g in the job", what, then, now);
}

/* Real numbers that went through a file of decimal digits, or came from one with fewer. */
static bool other_real(double now, double then)
{
    return then != 0 && now != 0 && fabs(now - then) > 1e-6 * fabs(then);
}

int manifest_same_model(const struct manifest_model *now, const struct manifest_model *then, struct err *err)
{
    if (!then->arch[0] || !now->arch[0])
        return 0;
    if (strcmp(now->arch, then->arch) != 0)
        return err_set(err, "it is of another model: its arch is %s, the job's is %s", then->arch, now->arch);
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t a = number(now, i), b = number(then, i);
        if (a != b && b != 0)
            return differ(numbers[i].key, (double)a, (double)b, err);
    }
    if (now->experts != then->experts)
        return differ("experts", (double)now->experts, (double)then->experts, err);
    if (now->tied != then->tied)
        return differ("tied", now->tied, then->tied, err);
    if (other_real(now->norm_eps, then->norm_eps))
        return differ("norm_eps", now->norm_eps, then->norm_eps, err);
    return other_real(now->rope_theta, then->rope_theta)
               ? differ("rope_theta", now->rope_theta, then->rope_theta, err)
               : 0;
}

/* Adds to a list, which it frees. */
static char *add_difference(char *list, const char *what, double a, double b)
{
    char *longer = str_printf("%s%s%s %.9g and %.9g", list ? list : "", list ? ", " : "", what, a, b);
    free(list);
    return longer;
}

char *manifest_model_differences(const struct manifest_model *a, const struct manifest_model *b)
{
    char *list = NULL;
    if (strcmp(a->arch, b->arch) != 0)
        return str_printf("arch %s and %s", a->arch, b->arch);
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t x = number(a, i), y = number(b, i);
        bool told = (x != 0 && y != 0) || numbers[i].at == offsetof(struct manifest_model, experts);
        if (x != y && told)
            list = add_difference(list, numbers[i].key, (double)x, (double)y);
    }
    if (a->tied != b->tied)
        list = add_difference(list, "tied", a->tied, b->tied);
    if (other_real(a->norm_eps, b->norm_eps))
        list = add_difference(list, "norm_eps", a->norm_eps, b->norm_eps);
    if (other_real(a->rope_theta, b->rope_theta))
        list = add_difference(list, "rope_theta", a->rope_theta, b->rope_theta);
    return list;
}
