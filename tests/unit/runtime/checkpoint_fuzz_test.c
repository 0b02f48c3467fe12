/* The readers of checkpoints and config.json with inputs that were damaged at random, from a fixed seed: what tests/fuzz/fuzz_checkpoint.c does for
 * longer. */
#include "tests/unit/scratch.h"

#include "tests/fuzz/checkpoint_targets.h"

#define ROUNDS 3000

static uint64_t seed;
static size_t draw(size_t below)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (size_t)(seed >> 33) % below;
}

/* Digits become other digits or signs, bytes others, parts go or are doubled. */
static size_t damage(uint8_t *data, size_t size, size_t room)
{
    for (size_t n = draw(3); n-- > 0 && size > 1;) {
        size_t at = draw(size), len = 1 + draw(size - at < 20 ? size - at : 20);
        switch (draw(4)) {
        case 0:
            data[at] = (uint8_t) "0123456789-.\"[]{}:,9"[draw(20)];
            break;
        case 1:
            data[at] = (uint8_t)draw(256);
            break;
        case 2:
            memmove(data + at, data + at + len, size - at - len);
            size -= len;
            break;
        default:
            if (size + len <= room) {
                memmove(data + at + len, data + at, size - at);
                size += len;
            }
        }
    }
    return size;
}

/* Some inputs are still good, most are not. */
static void run(const char *content, size_t size, bool (*target)(const uint8_t *data, size_t size))
{
    size_t room = size + 100, good = 0;
    uint8_t *copy = malloc(room);
    seed = 7;
    for (int i = 0; i < ROUNDS; i++) {
        memcpy(copy, content, size);
        good += target(copy, damage(copy, size, room));
    }
    print_message("# %zu of %d good\n", good, ROUNDS);
    assert_true(good > ROUNDS / 20 && good < ROUNDS - ROUNDS / 20);
    free(copy);
}

static void test_safetensors(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"y\":{\"dtype\":\"BF16\",\"shape\":[3,2],\"data_offsets\":[24,36]},"
        "\"z\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[36,52]}}";
    char content[8 + sizeof header - 1 + 52] = {(char)(sizeof header - 1)};
    memcpy(content + 8, header, sizeof header - 1);
    run(content, sizeof content, fuzz_safetensors);
}

static bool in_scratch(const uint8_t *data, size_t size)
{
    return fuzz_manifest(data, size, scratch);
}

static void test_manifest(void **state)
{
    (void)state;
    static const char text[] =
        "{\"format\":2,\"job\":\"1\",\"attempt\":1,\"step\":5,\"mesh\":{\"dp\":2,\"pp\":1,\"cp\":1,\"tp\":1,"
        "\"ep\":1},"
        "\"position\":{\"samples\":\"1\",\"tokens\":\"2\",\"seed\":\"3\",\"data_tokens\":\"4\",\"data_"
        "fingerprint\":\"5\"},"
        "\"model\":{\"arch\":\"gpt2\",\"layers\":1,\"hidden\":2,\"heads\":1,\"kv_heads\":1,\"ffn\":4,"
        "\"vocab\":9,\"context\":4,"
        "\"experts\":0,\"top_k\":0,\"tied\":true,\"norm_eps\":1e-5,\"rope_theta\":0.0,\"tokenizer\":"
        "\"bytes\"},"
        "\"files\":[{\"name\":\"a\",\"bytes\":\"1\",\"xxh3_128\":\"0\"},{\"name\":\"b\",\"bytes\":\"1\","
        "\"xxh3_128\":\"0\"}],"
        "\"tensors\":[{\"name\":\"t\",\"dtype\":\"F32\",\"shape\":[4,6],\"slices\":[[0,0,2,0,6,\"t\"],[1,2,4,"
        "0,3,\"t\"],[0,2,4,3,6,\"t#1\"]]},"
        "{\"name\":\"u\",\"dtype\":\"F32\",\"shape\":[5],\"slices\":[[0,0,2,0,1,\"u\"],[1,2,5,0,1,\"u\"]]}]}";
    run(text, sizeof text - 1, in_scratch);
}

static void test_config(void **state)
{
    (void)state;
    static const char text[] = "{\"model_type\":\"mixtral\",\"vocab_size\":97,\"max_position_embeddings\":8,"
                               "\"hidden_size\":12,\"intermediate_size\":20,"
                               "\"num_hidden_layers\":2,\"num_attention_heads\":6,\"num_key_value_heads\":2,"
                               "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,"
                               "\"num_local_experts\":4,\"num_experts_per_tok\":2,\"sliding_window\":null,"
                               "\"tie_word_embeddings\":false}";
    run(text, sizeof text - 1, fuzz_config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_safetensors), cmocka_unit_test(test_manifest),
                                       cmocka_unit_test(test_config)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
