/* Seeded mutations of good token files, indexes and JSON lines: always a layout that fits, or a sentence. `make fuzz` searches longer. */
#include "tests/unit/scratch.h"

#include "tests/fuzz/data_targets.h"

#define CASES 20000
#define ROOM  4096

static uint64_t random_state;

static size_t below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return limit ? (size_t)(random_state >> 11) % limit : 0;
}

/* One byte or number replaced, or the end moved. Returns the new length. */
static size_t mutate(unsigned char *bytes, size_t len)
{
    static const uint64_t numbers[] = {0,    1,         2,          3,         4,          0x7f,      0x80,
                                       0xff, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, 1ULL << 61};
    size_t at = below(len ? len : 1), width = (size_t)1 << below(4);
    switch (below(4)) {
    case 0:
        bytes[at] = (unsigned char)below(256);
        return len;
    case 1:
        memcpy(bytes + at, &numbers[below(sizeof numbers / sizeof *numbers)], width);
        return at + width > len ? at + width : len;
    case 2:
        return at;
    default:
        memset(bytes + len, (int)below(256), width);
        return len + width;
    }
}

static size_t run(const char *seed, bool (*target)(const uint8_t *, size_t))
{
    size_t accepted = 0, len;
    char *path = str_printf("tests/fuzz/seeds/tokens/%s", seed), *good = fs_read(path, ROOM / 2, &len, NULL);
    assert_non_null(good);
    assert_true(target((uint8_t *)good + 1, len - 1));
    for (size_t i = 0; i < CASES / 8; i++) {
        unsigned char bytes[ROOM];
        size_t n = len - 1;
        memcpy(bytes, good + 1, n);
        for (size_t times = 1 + below(3); times > 0; times--)
            n = mutate(bytes, n);
        accepted += target(bytes, n);
    }
    free(good);
    free(path);
    return accepted;
}

static void mutated_files_give_a_layout_or_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *seed;
        bool (*target)(const uint8_t *, size_t);
    } rows[] = {
        {"own-1", fuzz_tokenfile},       {"own-2-masked", fuzz_tokenfile}, {"llmc", fuzz_tokenfile},
        {"llmc-llama3", fuzz_tokenfile}, {"bare", fuzz_tokenfile},         {"megatron", fuzz_megatron},
        {"text", fuzz_record},           {"prompt", fuzz_record},
    };
    random_state = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t accepted = run(rows[i].seed, rows[i].target);
        if (accepted < 20) /* else the mutations no longer reach the inside */
            fail_msg("%s: only %zu accepted", rows[i].seed, accepted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutated_files_give_a_layout_or_a_sentence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
