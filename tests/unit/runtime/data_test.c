#include "scratch.h"

#include "runtime/data/data.h"

/* Each epoch visits every sequence exactly once, and two epochs differ in order. */
static void test_permutation(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 549, 1000, 65537};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t n = sizes[i], same = 0;
        char *seen = calloc(n, 1);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            for (uint64_t k = 0; k < n; k++) {
                uint64_t pick = data_pick(n, 7, epoch * n + k);
                assert_true(pick < n);
                assert_int_equal(seen[pick], epoch);
                seen[pick]++;
                same += epoch > 0 && pick == data_pick(n, 7, k);
            }
        }
        if (n > 100)
            assert_true(same < n / 10);
        free(seen);
    }
}

/* Neighbouring samples are not neighbouring sequences, and the seed matters. */
static void test_spread(void **state)
{
    (void)state;
    uint64_t n = 100000, near = 0, equal = 0;
    double sum = 0;
    for (uint64_t k = 0; k + 1 < n; k++) {
        uint64_t a = data_pick(n, 1, k), b = data_pick(n, 1, k + 1);
        near += a + 1 == b || b + 1 == a;
        equal += a == data_pick(n, 2, k);
        if (k < n / 10)
            sum += (double)a;
    }
    assert_true(near < 20);  /* 2 expected */
    assert_true(equal < 20); /* 1 expected */
    double mean = sum / (double)(n / 10) / (double)n;
    assert_true(mean > 0.48 && mean < 0.52);
    uint64_t huge = 1ULL << 61;
    assert_true(data_pick(huge, 3, huge - 1) < huge);
}

static void fill(const char *path, int64_t vocab, uint64_t first, size_t count, int32_t *tokens,
                 int32_t *targets)
{
    struct err err;
    struct data *d = data_open(path, vocab, 8, &err);
    assert_non_null(d);
    assert_int_equal(data_fill(d, 5, first, count, tokens, targets, &err), 0);
    data_close(d);
}

/* Whoever asks, in whatever pieces: sample k is sample k. Text and token file give the same. */
static void test_independent_of_ranks(void **state)
{
    (void)state;
    struct err err;
    char *text = scratch_path("text.txt"), *bin = scratch_path("text.bin");
    unsigned char bytes[8 * 40 + 3];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    scratch_write(text, bytes, sizeof bytes);
    assert_int_equal(data_tokenize(text, bin, &err), 0);
    int32_t whole[16 * 8], targets[16 * 8], part[4 * 8], part_targets[4 * 8];
    fill(text, 256, 160, 16, whole, targets);
    for (uint64_t at = 0; at < 16; at += 4) {
        fill(at % 8 ? text : bin, 256, 160 + at, 4, part, part_targets);
        assert_memory_equal(part, whole + at * 8, sizeof part);
        assert_memory_equal(part_targets, targets + at * 8, sizeof part);
    }
    for (size_t s = 0; s < 16; s++) {
        uint64_t from = data_pick(40, 5, 160 + s) * 8;
        for (size_t t = 0; t < 8; t++) {
            assert_int_equal(whole[s * 8 + t], bytes[from + t]);
            assert_int_equal(targets[s * 8 + t], bytes[from + t + 1]);
        }
    }
    free(text);
    free(bin);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char torn[] = "BELAYTOK\1\0\0\0\2\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0abcdefgh";
    static const char future[] = "BELAYTOK\2\0\0\0\2\0\0\0\x4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0abcdefgh";
    const struct {
        const char *name, *content;
        size_t len;
        int64_t vocab;
        const char *says;
    } rows[] = {
        {"missing.txt", NULL, 0, 256, "cannot open the training data"},
        {"empty.txt", "", 0, 256, "is empty"},
        {"short.txt", "12345678", 8, 256, "fewer than one sequence"},
        {"low.txt", "123456789", 9, 255, "vocab of at least 256"},
        {"odd.bin", "123456789012345678901", 21, 65536, "odd"},
        {"torn.bin", torn, sizeof torn - 1, 65536, "is torn"},
        {"future.bin", future, sizeof future - 1, 65536, "version 2"},
        {".", NULL, 0, 256, "is not a file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        char *path = scratch_path(rows[i].name);
        if (rows[i].content)
            scratch_write(path, rows[i].content, rows[i].len);
        assert_null(data_open(path, rows[i].vocab, 8, &err));
        assert_contains(err.text, rows[i].says);
        free(path);
    }
}

static void test_token_above_vocab(void **state)
{
    (void)state;
    struct err err;
    int32_t tokens[8], targets[8];
    uint16_t words[9] = {1, 2, 3, 4, 5, 6, 7, 8, 300};
    char *path = scratch_path("words.bin");
    scratch_write(path, words, sizeof words);
    struct data *d = data_open(path, 301, 8, &err);
    assert_int_equal(data_fill(d, 1, 0, 1, tokens, targets, &err), 0);
    assert_int_equal(targets[7], 300);
    data_close(d);
    d = data_open(path, 300, 8, &err);
    assert_int_equal(data_fill(d, 1, 0, 1, tokens, targets, &err), -1);
    assert_contains(err.text, "vocab (300)");
    data_close(d);
    free(path);
}

static void test_fingerprint(void **state)
{
    (void)state;
    struct err err;
    char *path = scratch_path("print.txt"), *bytes = calloc(300000, 1);
    uint64_t prints[3];
    static const size_t changes[] = {0, 299999};
    for (size_t i = 0; i < 3; i++) {
        scratch_write(path, bytes, 300000);
        struct data *d = data_open(path, 256, 8, &err);
        prints[i] = data_fingerprint(d);
        data_close(d);
        if (i < 2)
            bytes[changes[i]] ^= 1;
    }
    assert_true(prints[0] != prints[1] && prints[1] != prints[2] && prints[0] != prints[2]);
    free(bytes);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation),          cmocka_unit_test(test_spread),
        cmocka_unit_test(test_independent_of_ranks), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_token_above_vocab),    cmocka_unit_test(test_fingerprint),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
