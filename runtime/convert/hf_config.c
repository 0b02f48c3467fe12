/* hf_config: see hf_config.h. What the runtime has no choice about is a table: the field's value must be the one named there, or absent. */
#include "runtime/convert/hf_config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"

#define SIZE_LIMIT ((int64_t)1 << 31)

enum names_layout hf_layout(const struct manifest_model *model)
{
    if (strcmp(model->arch, "gpt2") == 0)
        return NAMES_HF_GPT2;
    return model->experts > 0 ? NAMES_HF_MIXTRAL : NAMES_HF_LLAMA;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */

/* A field that must have one of these values where it is there at all; null is as good as absent. */
struct must {
    const char *key;
    json_type type;      /* JSON_OBJECT: rotary positions as they are, not scaled */
    const char *text[3]; /* strings */
    bool truth;          /* JSON_TRUE */
};

static const struct must gpt2_must[] = {
    {"activation_function", JSON_STRING, {"gelu_new", "gelu_pytorch_tanh"}, false},
    {"scale_attn_weights", JSON_TRUE, {NULL}, true},
    {"scale_attn_by_inverse_layer_idx", JSON_TRUE, {NULL}, false},
    {"reorder_and_upcast_attn", JSON_TRUE, {NULL}, false},
    {"add_cross_attention", JSON_TRUE, {NULL}, false},
    {NULL, JSON_NULL, {NULL}, false}};
static const struct must llama_must[] = {{"hidden_act", JSON_STRING, {"silu", "swish"}, false},
                                         {"attention_bias", JSON_TRUE, {NULL}, false},
                                         {"mlp_bias", JSON_TRUE, {NULL}, false},
                                         {"rope_scaling", JSON_OBJECT, {NULL}, false},
                                         {"sliding_window", JSON_NULL, {NULL}, false},
                                         {NULL, JSON_NULL, {NULL}, false}};

/* Older files say "type". */
static bool unscaled(const json_t *rope)
{
    const json_t *type = json_object_get(rope, "rope_type");
    type = type ? type : json_object_get(rope, "type");
    return json_is_string(type) && strcmp(json_string_value(type), "default") == 0;
}

static bool as_it_must(const struct must *m, const json_t *value)
{
    if (!value || json_is_null(value))
        return true;
    if (m->type == JSON_TRUE)
        return json_is_boolean(value) && json_is_true(value) == m->truth;
    if (m->type == JSON_OBJECT)
        return unscaled(value);
    for (size_t i = 0; json_is_string(value) && i < 3 && m->text[i]; i++)
        if (strcmp(json_string_value(value), m->text[i]) == 0)
            return true;
    return false;
}

static int check(const json_t *config, const struct must *m, struct err *err)
{
    for (; m->key; m++) {
        const json_t *value = json_object_get(config, m->key);
        if (as_it_must(m, value))
            continue;
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        err_set(err, "\"%s\" is %.100s, which the runtime does not compute", m->key, text ? text : "?");
        free(text);
        return -1;
    }
    return 0;
}

static int size(const json_t *config, const char *key, int64_t *out, struct err *err)
{
    return jsonx_int(config, key, 1, SIZE_LIMIT, out, err);
}

static int size_or(const json_t *config, const char *key, int64_t fallback, int64_t *out, struct err *err)
{
    const json_t *value = json_object_get(config, key);
    *out = fallback;
    return value && !json_is_null(value) ? size(config, key, out, err) : 0;
}

static int real_above_0(const json_t *config, const char *key, double fallback, double *out, struct err *err)
{
    const json_t *value = json_object_get(config, key);
    *out = !value || json_is_null(value) ? fallback : json_number_value(value); /* 0 of what is none */
    return *out > 0 ? 0 : err_set(err, "\"%s\" is not a number above 0", key);
}

static int read_tied(const json_t *config, bool fallback, bool *out, struct err *err)
{
    const json_t *value = json_object_get(config, "tie_word_embeddings");
    *out = !value || json_is_null(value) ? fallback : json_is_true(value);
    if (!value || json_is_null(value) || json_is_boolean(value))
        return 0;
    return err_set(err, "\"tie_word_embeddings\" is neither true nor false");
}

static int read_gpt2(const json_t *c, struct manifest_model *m, struct err *err)
{
    (void)snprintf(m->arch, sizeof m->arch, "gpt2"); /* fits */
    if (size(c, "vocab_size", &m->vocab, err) != 0 || size(c, "n_positions", &m->context, err) != 0 ||
        size(c, "n_embd", &m->hidden, err) != 0 || size(c, "n_layer", &m->layers, err) != 0 ||
        size(c, "n_head", &m->heads, err) != 0 || size_or(c, "n_inner", 4 * m->hidden, &m->ffn, err) != 0 ||
        real_above_0(c, "layer_norm_epsilon", 1e-5, &m->norm_eps, err) != 0 ||
        read_tied(c, true, &m->tied, err) != 0)
        return -1;
    m->kv_heads = m->heads;
    return check(c, gpt2_must, err);
}

/* Newer files keep the frequency below "rope_parameters", with a type. */
static int read_rope(const json_t *c, struct manifest_model *m, struct err *err)
{
    const json_t *rope = json_object_get(c, "rope_parameters");
    double theta = m->experts > 0 ? 1e6 : 1e4; /* transformers' own defaults */
    if (!json_is_object(rope))
        return real_above_0(c, "rope_theta", theta, &m->rope_theta, err);
    const char *type = jsonx_str_or(rope, "rope_type", "default");
    if (strcmp(type, "default") != 0)
        return err_set(err, "\"rope_type\" is \"%.40s\", which the runtime does not compute", type);
    return real_above_0(rope, "rope_theta", theta, &m->rope_theta, err);
}

static int read_experts(const json_t *c, struct manifest_model *m, struct err *err)
{
    if (size(c, "num_local_experts", &m->experts, err) != 0 ||
        size(c, "num_experts_per_tok", &m->top_k, err) != 0)
        return -1;
    if (m->top_k < 2 || m->top_k > m->experts)
        return err_set(err,
                       "\"num_experts_per_tok\" is %lld: the runtime computes it like Mixtral from 2 to "
                       "the number of experts only",
                       (long long)m->top_k);
    return 0;
}

static int read_llama(const json_t *c, struct manifest_model *m, struct err *err)
{
    int64_t head = 0;
    (void)snprintf(m->arch, sizeof m->arch, "llama"); /* fits */
    if (size(c, "vocab_size", &m->vocab, err) != 0 ||
        size(c, "max_position_embeddings", &m->context, err) != 0 ||
        size(c, "hidden_size", &m->hidden, err) != 0 || size(c, "intermediate_size", &m->ffn, err) != 0 ||
        size(c, "num_hidden_layers", &m->layers, err) != 0 ||
        size(c, "num_attention_heads", &m->heads, err) != 0 ||
        size_or(c, "num_key_value_heads", m->heads, &m->kv_heads, err) != 0 ||
        size_or(c, "head_dim", m->hidden / m->heads, &head, err) != 0 ||
        real_above_0(c, "rms_norm_eps", 1e-6, &m->norm_eps, err) != 0 || read_rope(c, m, err) != 0 ||
        read_tied(c, false, &m->tied, err) != 0)
        return -1;
    if (head * m->heads != m->hidden)
        return err_set(err,
                       "\"head_dim\" is %lld: the runtime's heads have hidden_size / num_attention_heads = "
                       "%lld / %lld numbers",
                       (long long)head, (long long)m->hidden, (long long)m->heads);
    if (head % 2 != 0)
        return err_set(err, "\"head_dim\" is %lld, an odd number: rotary positions turn pairs",
                       (long long)head);
    return check(c, llama_must, err);
}

static int check_heads(const struct manifest_model *m, struct err *err)
{
    if (m->hidden % m->heads == 0 && m->heads % m->kv_heads == 0)
        return 0;
    return err_set(err,
                   "%lld heads do not divide %lld numbers, or %lld key and value heads do not divide them",
                   (long long)m->heads, (long long)m->hidden, (long long)m->kv_heads);
}

int hf_config_read(const json_t *config, struct manifest_model *out, struct err *err)
{
    const char *type = jsonx_str_or(config, "model_type", "");
    *out = (struct manifest_model){.layers = 0};
    int rc = 0;
    if (strcmp(type, "gpt2") == 0)
        rc = read_gpt2(config, out, err);
    else if (strcmp(type, "llama") == 0)
        rc = read_llama(config, out, err);
    else if (strcmp(type, "mixtral") == 0)
        rc = read_experts(config, out, err) != 0 ? -1 : read_llama(config, out, err);
    else
        rc = err_set(err, "\"model_type\" is \"%.40s\"; the runtime has gpt2, llama and mixtral", type);
    return rc == 0 ? check_heads(out, err) : rc;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

static void set_int(json_t *obj, const char *key, int64_t value)
{
    jsonx_set(obj, key, json_integer(value));
}

static void set_id(json_t *obj, const char *key, int32_t id)
{
    jsonx_set(obj, key, id < 0 ? json_null() : json_integer(id));
}

static void add_gpt2(json_t *c, const struct manifest_model *m)
{
    set_int(c, "n_positions", m->context);
    set_int(c, "n_ctx", m->context);
    set_int(c, "n_embd", m->hidden);
    set_int(c, "n_layer", m->layers);
    set_int(c, "n_head", m->heads);
    set_int(c, "n_inner", m->ffn);
    jsonx_set_str(c, "activation_function", "gelu_new");
    jsonx_set_real(c, "layer_norm_epsilon", m->norm_eps);
    jsonx_set_real(c, "initializer_range", 0.02);
    /* said, because transformers would train on with 0.1 */
    jsonx_set_real(c, "embd_pdrop", 0);
    jsonx_set_real(c, "resid_pdrop", 0);
    jsonx_set_real(c, "attn_pdrop", 0);
}

static void add_llama(json_t *c, const struct manifest_model *m)
{
    set_int(c, "hidden_size", m->hidden);
    set_int(c, "intermediate_size", m->ffn);
    set_int(c, "num_hidden_layers", m->layers);
    set_int(c, "num_attention_heads", m->heads);
    set_int(c, "num_key_value_heads", m->kv_heads);
    set_int(c, "head_dim", m->hidden / m->heads);
    set_int(c, "max_position_embeddings", m->context);
    jsonx_set_str(c, "hidden_act", "silu");
    jsonx_set_real(c, "rms_norm_eps", m->norm_eps);
    jsonx_set_real(c, "rope_theta", m->rope_theta);
    jsonx_set_real(c, "initializer_range", 0.02);
    jsonx_set_real(c, "attention_dropout", 0);
    if (m->experts > 0) {
        set_int(c, "num_local_experts", m->experts);
        set_int(c, "num_experts_per_tok", m->top_k);
        jsonx_set(c, "sliding_window", json_null());
        jsonx_set(c, "output_router_logits", json_false());
        return;
    }
    jsonx_set(c, "rope_scaling", json_null());
    jsonx_set(c, "attention_bias", json_false());
    jsonx_set(c, "mlp_bias", json_false());
}

json_t *hf_config_make(const struct manifest_model *model, enum dtype type, int32_t bos, int32_t eos)
{
    static const char *const classes[][2] = {[NAMES_HF_GPT2] = {"GPT2LMHeadModel", "gpt2"},
                                             [NAMES_HF_LLAMA] = {"LlamaForCausalLM", "llama"},
                                             [NAMES_HF_MIXTRAL] = {"MixtralForCausalLM", "mixtral"}};
    static const char *const types[] = {
        [DTYPE_F32] = "float32", [DTYPE_BF16] = "bfloat16", [DTYPE_F16] = "float16", [DTYPE_F64] = "float64"};
    enum names_layout layout = hf_layout(model);
    json_t *c = json_object(), *names = json_array();
    (void)json_array_append_new(names, json_string(classes[layout][0]));
    jsonx_set(c, "architectures", names);
    jsonx_set_str(c, "model_type", classes[layout][1]);
    set_int(c, "vocab_size", model->vocab);
    if (layout == NAMES_HF_GPT2)
        add_gpt2(c, model);
    else
        add_llama(c, model);
    jsonx_set(c, "tie_word_embeddings", json_boolean(model->tied));
    jsonx_set(c, "use_cache", json_true());
    jsonx_set_str(c, "torch_dtype", types[type]);
    set_id(c, "bos_token_id", bos);
    set_id(c, "eos_token_id", eos);
    return c;
}
