/* Seeded mutations of good tokenizer files and texts: always a tokenizer that holds, or a sentence. `make fuzz` searches longer. */
#include "tests/unit/scratch.h"

#include "tests/fuzz/text_targets.h"

#define CASES 1500
#define ROOM  32768

static uint64_t random_state;

static size_t below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return limit ? (size_t)(random_state >> 11) % limit : 0;
}

/* One byte replaced or gone, a stretch doubled, or the end moved. Returns the new length. */
static size_t mutate(char *bytes, size_t len)
{
    static const char characters[] = "\"\\{}[],:0129 -\n\xc4\xa0\xff=+a";
    size_t at = below(len ? len : 1), width = 1 + below(20);
    switch (below(10)) {
    case 0:
        return at;
    case 1:
        memmove(bytes + at, bytes + at + 1, len - at);
        return len > 0 ? len - 1 : 0;
    case 2:
        if (at + width > len || len + width > ROOM)
            return len;
        memmove(bytes + at + width, bytes + at, len - at);
        return len + width;
    case 3:
        bytes[at] = (char)below(256);
        return len;
    default:
        bytes[at] = characters[below(sizeof characters - 1)];
        return len;
    }
}

static size_t run(const char *seed, bool (*target)(const uint8_t *, size_t))
{
    size_t accepted = 0, len;
    char *path = str_printf("tests/fuzz/seeds/text/%s", seed), *good = fs_read(path, ROOM / 2, &len, NULL);
    char *bytes = malloc(ROOM + 1);
    assert_non_null(good);
    assert_true(target((uint8_t *)good + 1, len - 1) == (strcmp(seed, "ranks") != 0)); /* these are too few */
    for (size_t i = 0; i < CASES; i++) {
        size_t n = len - 1;
        memcpy(bytes, good + 1, n);
        for (size_t times = 1 + below(2); times > 0; times--)
            n = mutate(bytes, n);
        accepted += target((uint8_t *)bytes, n);
    }
    free(bytes);
    free(good);
    free(path);
    return accepted;
}

static void mutated_files_give_a_tokenizer_or_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *seed;
        bool (*target)(const uint8_t *, size_t);
        size_t least; /* accepted; below it the mutations no longer reach the inside */
    } rows[] = {
        {"json", fuzz_tokenizer_json, 10}, {"json-llama3", fuzz_tokenizer_json, 10},
        {"gpt2", fuzz_gpt2_files, 10},     {"ranks", fuzz_ranks, 0},
        {"plain", fuzz_text, CASES},
    };
    random_state = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t accepted = run(rows[i].seed, rows[i].target);
        if (accepted < rows[i].least)
            fail_msg("%s: only %zu accepted", rows[i].seed, accepted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutated_files_give_a_tokenizer_or_a_sentence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
