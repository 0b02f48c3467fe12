#include "tests/unit/scratch.h"

#include "runtime/text/bpe.h"

static uint32_t seed;
static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

/* Bytes are their own tokens. */
static struct bpe *begin(void)
{
    int32_t byte_ids[256];
    for (int i = 0; i < 256; i++)
        byte_ids[i] = i;
    return bpe_new(byte_ids);
}

/* The definition, step by step. Number of tokens. */
static size_t encode_plainly(const struct bpe *b, const char *piece, size_t len, int32_t *ids)
{
    size_t count, n = len;
    const struct bpe_merge *merges = bpe_merges(b, &count);
    for (size_t i = 0; i < len; i++)
        ids[i] = (unsigned char)piece[i];
    for (;;) {
        const struct bpe_merge *best = NULL;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t k = 0; k < count; k++)
                if (merges[k].left == ids[i] && merges[k].right == ids[i + 1] &&
                    (!best || merges[k].rank < best->rank)) {
                    best = &merges[k];
                    where = i;
                }
        if (!best)
            return n;
        ids[where] = best->id;
        memmove(ids + where + 1, ids + where + 2, (n - where - 2) * sizeof *ids);
        n--;
    }
}

/* Merges of a, b and c, and of what comes of them; ranks in no order, and shared as those of tiktoken are. */
static struct bpe *random_merges(void)
{
    struct bpe *b = begin();
    int32_t tokens[64] = {'a', 'b', 'c'};
    for (int32_t n = 3; n < 43; n++) {
        tokens[n] = 256 + n;
        struct bpe_merge m = {tokens[draw((uint32_t)n)], tokens[draw((uint32_t)n)], tokens[n], draw(30)};
        if (bpe_add(b, m, NULL) < 0)
            tokens[n] = 'a';
    }
    return b;
}

/* Short and long pieces alike are merged as the definition says. */
static void test_against_definition(void **state)
{
    (void)state;
    char piece[200];
    int32_t want[200];
    struct bpe_scratch *s = bpe_scratch_new();
    for (uint32_t round = 1; round <= 400; round++) {
        seed = round;
        struct bpe *b = random_merges();
        size_t len = 1 + draw(sizeof piece);
        for (size_t i = 0; i < len; i++)
            piece[i] = "abc"[draw(round % 3 + 1)];
        struct bpe_ids got = {0};
        size_t n = encode_plainly(b, piece, len, want);
        bpe_encode(b, s, piece, len, &got);
        assert_int_equal(got.count, n);
        assert_memory_equal(got.at, want, n * sizeof *want);
        free(got.at);
        bpe_free(b);
    }
    bpe_scratch_free(s);
}

/* 2^k of one letter is one token once there are tokens for it; a million letters are no trouble. */
static void test_long(void **state)
{
    (void)state;
    size_t len = 1 << 20;
    struct bpe *b = begin();
    int32_t last = 'a';
    for (uint32_t k = 0; k < 10; k++, last = 300 + (int32_t)k - 1)
        assert_int_equal(bpe_add(b, (struct bpe_merge){last, last, 300 + (int32_t)k, k}, NULL), 0);
    char *text = malloc(len);
    memset(text, 'a', len);
    struct bpe_scratch *s = bpe_scratch_new();
    struct bpe_ids got = {0};
    bpe_encode(b, s, text, len, &got);
    assert_int_equal(got.count, len >> 10);
    assert_int_equal(got.at[0], 309);
    free(got.at);
    free(text);
    bpe_scratch_free(s);
    bpe_free(b);
}

/* A piece above the limit is merged in parts: the pair across the cut stays apart. */
static void test_above_limit(void **state)
{
    (void)state;
    size_t len = BPE_PIECE_MAX + 5;
    struct bpe *b = begin();
    assert_int_equal(bpe_add(b, (struct bpe_merge){'b', 'c', 256, 0}, NULL), 0);
    char *text = malloc(len);
    memset(text, 'a', len);
    text[BPE_PIECE_MAX - 1] = text[len - 2] = 'b';
    text[BPE_PIECE_MAX] = text[len - 1] = 'c';
    struct bpe_scratch *s = bpe_scratch_new();
    struct bpe_ids got = {0};
    bpe_encode(b, s, text, len, &got);
    assert_int_equal(got.count, len - 1);
    assert_int_equal(got.at[BPE_PIECE_MAX - 1], 'b');
    assert_int_equal(got.at[len - 2], 256);
    free(got.at);
    free(text);
    bpe_scratch_free(s);
    bpe_free(b);
}

static void test_twice(void **state)
{
    (void)state;
    struct err err = {""};
    struct bpe *b = begin();
    size_t count;
    assert_int_equal(bpe_add(b, (struct bpe_merge){'a', 'b', 256, 0}, &err), 0);
    assert_int_equal(bpe_add(b, (struct bpe_merge){'b', 'a', 257, 1}, &err), 0);
    assert_int_equal(bpe_add(b, (struct bpe_merge){'a', 'b', 258, 2}, &err), -1);
    assert_contains(err.text, "merge 3, of the tokens 97 and 98, is there twice");
    assert_int_equal(bpe_merges(b, &count)[1].id, 257);
    assert_int_equal(count, 2);
    bpe_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_definition),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_above_limit),
        cmocka_unit_test(test_twice),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
