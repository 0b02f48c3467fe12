/* hf_config: config.json there and back, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/jsonx.h"
#include "runtime/convert/hf_config.h"

static int read_text(const char *text, struct manifest_model *m, struct err *err)
{
    json_t *config = json_loads(text, 0, NULL);
    assert_non_null(config);
    err->text[0] = 0;
    int rc = hf_config_read(config, m, err);
    json_decref(config);
    return rc;
}

#define GPT2                                                                                                 \
    "\"model_type\":\"gpt2\",\"vocab_size\":97,\"n_positions\":8,\"n_embd\":12,\"n_layer\":2,\"n_head\":3"
#define LLAMA "\"model_type\":\"llama\"," SIZES
#define SIZES                                                                                                \
    "\"vocab_size\":97,\"max_position_embeddings\":8,\"hidden_size\":12,\"intermediate_size\":20,"           \
    "\"num_hidden_layers\":2,\"num_attention_heads\":6"
#define MIXTRAL "\"model_type\":\"mixtral\",\"num_local_experts\":4,\"num_experts_per_tok\":2," SIZES

static void test_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct manifest_model model;
    } rows[] = {
        {"{" GPT2 "}", {"gpt2", 2, 12, 3, 3, 48, 97, 8, 0, 0, true, 1e-5, 0, "", 0}},
        {"{" GPT2 ",\"n_inner\":null,\"layer_norm_epsilon\":1e-6,\"activation_function\":\"gelu_new\"}",
         {"gpt2", 2, 12, 3, 3, 48, 97, 8, 0, 0, true, 1e-6, 0, "", 0}},
        {"{" GPT2 ",\"n_inner\":30,\"tie_word_embeddings\":false}",
         {"gpt2", 2, 12, 3, 3, 30, 97, 8, 0, 0, false, 1e-5, 0, "", 0}},
        {"{" LLAMA "}", {"llama", 2, 12, 6, 6, 20, 97, 8, 0, 0, false, 1e-6, 1e4, "", 0}},
        {"{" LLAMA ",\"num_key_value_heads\":2,\"head_dim\":2,\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,"
         "\"rope_scaling\":null,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}",
         {"llama", 2, 12, 6, 2, 20, 97, 8, 0, 0, true, 1e-5, 5e5, "", 0}},
        {"{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7.0}}",
         {"llama", 2, 12, 6, 6, 20, 97, 8, 0, 0, false, 1e-6, 7, "", 0}},
        {"{" LLAMA
         ",\"rope_scaling\":{\"rope_type\":\"default\"},\"rope_theta\":7,\"tie_word_embeddings\":null}",
         {"llama", 2, 12, 6, 6, 20, 97, 8, 0, 0, false, 1e-6, 7, "", 0}},
        {"{" MIXTRAL ",\"sliding_window\":null}",
         {"llama", 2, 12, 6, 6, 20, 97, 8, 4, 2, false, 1e-6, 1e6, "", 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct manifest_model m;
        struct err err;
        if (read_text(rows[i].text, &m, &err) != 0 || manifest_same_model(&m, &rows[i].model, &err) != 0 ||
            manifest_same_model(&rows[i].model, &m, &err) != 0)
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{}", "\"model_type\" is \"\""},
        {"{\"model_type\":\"qwen2\"}",
         "\"model_type\" is \"qwen2\"; the runtime has gpt2, llama and mixtral"},
        {"{\"model_type\":\"gpt2\"}", "vocab_size"},
        {"{" GPT2 ",\"activation_function\":\"relu\"}", "\"activation_function\" is \"relu\""},
        {"{" GPT2 ",\"scale_attn_weights\":false}", "\"scale_attn_weights\" is false"},
        {"{" GPT2 ",\"n_inner\":0}", "n_inner"},
        {"{" GPT2 ",\"n_head\":5}", "5 heads do not divide 12 numbers"},
        {"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\"}}",
         "\"rope_scaling\" is {\"rope_type\":\"llama3\"}"},
        {"{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":7}}",
         "\"rope_type\" is \"yarn\""},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
         "\"rope_scaling\" is {\"type\":\"linear\""},
        {"{" LLAMA ",\"rope_scaling\":{\"factor\":2}}", "\"rope_scaling\" is {\"factor\":2}"},
        {"{" LLAMA ",\"rope_scaling\":2}", "\"rope_scaling\" is 2"},
        {"{" LLAMA ",\"rope_theta\":\"500000\"}", "\"rope_theta\" is not a number above 0"},
        {"{" GPT2 ",\"layer_norm_epsilon\":true}", "\"layer_norm_epsilon\" is not a number above 0"},
        {"{" GPT2 ",\"tie_word_embeddings\":\"false\"}", "\"tie_word_embeddings\" is neither true nor false"},
        {"{" LLAMA ",\"tie_word_embeddings\":1}", "\"tie_word_embeddings\" is neither true nor false"},
        {"{" LLAMA ",\"attention_bias\":true}", "\"attention_bias\" is true"},
        {"{" LLAMA ",\"head_dim\":4}", "\"head_dim\" is 4"},
        {"{" LLAMA ",\"num_attention_heads\":4}", "\"head_dim\" is 3, an odd number"},
        {"{" LLAMA ",\"hidden_act\":\"gelu\"}", "\"hidden_act\" is \"gelu\""},
        {"{" LLAMA ",\"hidden_size\":-1}", "hidden_size"},
        {"{" LLAMA ",\"hidden_size\":1e30}", "hidden_size"},
        {"{" LLAMA ",\"num_key_value_heads\":4}", "4 key and value heads do not divide"},
        {"{" LLAMA ",\"rms_norm_eps\":0}", "\"rms_norm_eps\" is not a number above 0"},
        {"{" MIXTRAL ",\"sliding_window\":4096}", "\"sliding_window\" is 4096"},
        {"{" MIXTRAL ",\"num_experts_per_tok\":1}", "\"num_experts_per_tok\" is 1"},
        {"{" MIXTRAL ",\"num_experts_per_tok\":5}", "\"num_experts_per_tok\" is 5"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct manifest_model m;
        struct err err;
        assert_int_equal(read_text(rows[i].text, &m, &err), -1);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: \"%s\" does not contain \"%s\"", rows[i].text, err.text, rows[i].says);
    }
}

/* What is made reads back, and has what transformers asks for. */
static void test_make(void **state)
{
    (void)state;
    static const struct {
        struct manifest_model model;
        const char *class;
    } rows[] = {{{"gpt2", 2, 12, 3, 3, 30, 97, 8, 0, 0, true, 1e-6, 0, "", 0}, "GPT2LMHeadModel"},
                {{"gpt2", 2, 12, 3, 3, 30, 97, 8, 0, 0, false, 1e-5, 0, "", 0}, "GPT2LMHeadModel"},
                {{"llama", 2, 12, 6, 2, 20, 97, 8, 0, 0, true, 1e-5, 5e5, "", 0}, "LlamaForCausalLM"},
                {{"llama", 2, 12, 6, 2, 20, 97, 8, 4, 2, false, 1e-5, 1e6, "", 0}, "MixtralForCausalLM"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct manifest_model m;
        struct err err;
        json_t *config = hf_config_make(&rows[i].model, DTYPE_BF16, 5, -1);
        if (hf_config_read(config, &m, &err) != 0 || manifest_same_model(&m, &rows[i].model, &err) != 0)
            fail_msg("%s", err.text);
        assert_string_equal(json_string_value(json_array_get(json_object_get(config, "architectures"), 0)),
                            rows[i].class);
        assert_string_equal(jsonx_str_or(config, "torch_dtype", ""), "bfloat16");
        assert_int_equal(jsonx_int_or(config, "bos_token_id", -1), 5);
        assert_true(json_is_null(json_object_get(config, "eos_token_id")));
        if (strcmp(m.arch, "gpt2") == 0) /* else transformers drops 0.1 when it trains on */
            assert_true(jsonx_real_or(config, "embd_pdrop", 1) == 0 &&
                        jsonx_real_or(config, "resid_pdrop", 1) == 0 &&
                        jsonx_real_or(config, "attn_pdrop", 1) == 0);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_make)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
