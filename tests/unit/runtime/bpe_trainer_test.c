#include "tests/unit/scratch.h"

#include "runtime/text/bpe_trainer.h"
#include "runtime/text/tokenizer_private.h"

static uint32_t seed;
static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

/* ---- learning, against its definition ---- */

#define WORDS 12
#define LEN   9

struct plain {
    int32_t ids[WORDS][LEN];
    size_t len[WORDS];
    uint64_t times[WORDS];
    char bytes[400][LEN + 1]; /* of the tokens from 256 on */
    size_t tokens;
};

static uint64_t pair_times(const struct plain *p, int32_t left, int32_t right)
{
    uint64_t times = 0;
    for (size_t w = 0; w < WORDS; w++)
        for (size_t i = 0; i + 1 < p->len[w]; i++)
            if (p->ids[w][i] == left && p->ids[w][i + 1] == right)
                times += p->times[w];
    return times;
}

static void plain_best(const struct plain *p, struct bpe_merge *best, uint64_t *most)
{
    *most = 1;
    for (size_t w = 0; w < WORDS; w++)
        for (size_t i = 0; i + 1 < p->len[w]; i++) {
            int32_t left = p->ids[w][i], right = p->ids[w][i + 1];
            uint64_t times = pair_times(p, left, right);
            bool lower = left < best->left || (left == best->left && right < best->right);
            if (times > *most || (times == *most && *most > 1 && lower)) {
                *best = (struct bpe_merge){left, right, 0, 0};
                *most = times;
            }
        }
}

static void plain_text(const struct plain *p, int32_t id, char *out)
{
    if (id < 256)
        (void)snprintf(out, LEN + 1, "%c", id);
    else
        (void)snprintf(out, LEN + 1, "%s", p->bytes[id - 256]);
}

static int32_t plain_token(struct plain *p, const struct bpe_merge *m)
{
    char a[LEN + 1], b[LEN + 1], both[2 * LEN + 2];
    plain_text(p, m->left, a);
    plain_text(p, m->right, b);
    (void)snprintf(both, sizeof both, "%s%s", a, b);
    for (size_t i = 0; i < p->tokens; i++)
        if (strcmp(p->bytes[i], both) == 0)
            return 256 + (int32_t)i;
    memcpy(p->bytes[p->tokens++], both, LEN + 1);
    return 256 + (int32_t)p->tokens - 1;
}

static void plain_merge(struct plain *p, const struct bpe_merge *m)
{
    for (size_t w = 0; w < WORDS; w++)
        for (size_t i = 0; i + 1 < p->len[w]; i++)
            if (p->ids[w][i] == m->left && p->ids[w][i + 1] == m->right) {
                p->ids[w][i] = m->id;
                memmove(&p->ids[w][i + 1], &p->ids[w][i + 2], (LEN - i - 2) * sizeof p->ids[w][0]);
                p->len[w]--;
            }
}

/* The definition: count all pairs, merge the best, count again. Number of merges. */
static size_t learn_plainly(struct plain *p, size_t wanted, struct bpe_merge *merges)
{
    size_t n = 0;
    while (256 + p->tokens < wanted) {
        struct bpe_merge best = {0};
        uint64_t most;
        plain_best(p, &best, &most);
        if (most < 2)
            break;
        best.id = plain_token(p, &best);
        plain_merge(p, &best);
        bool again = false;
        for (size_t i = 0; i < n; i++)
            again |= merges[i].left == best.left && merges[i].right == best.right;
        if (!again)
            merges[n++] = best;
    }
    return n;
}

/* Words of few letters, so that pairs overlap, tie and come back. Into pieces, forwards or backwards. */
static void draw_words(struct plain *p, struct pieces *forwards, struct pieces *backwards)
{
    char words[WORDS][LEN];
    memset(p, 0, sizeof *p);
    for (size_t w = 0; w < WORDS; w++) {
        p->len[w] = 1 + draw(LEN);
        p->times[w] = 1 + draw(3);
        for (size_t i = 0; i < p->len[w]; i++)
            p->ids[w][i] = words[w][i] = "abcd"[draw(1 + seed % 4)];
        (void)pieces_add(forwards, words[w], p->len[w], p->times[w]);
    }
    for (size_t w = WORDS; w-- > 0;)
        (void)pieces_add(backwards, words[w], p->len[w], p->times[w]);
}

static void check_merges(const struct pieces *pieces, size_t wanted, const struct bpe_merge *want, size_t n)
{
    size_t count;
    struct pieces *tokens = pieces_new();
    struct bpe_merge *got = bpe_learn(pieces, wanted, tokens, &count, NULL, NULL);
    assert_int_equal(count, n);
    for (size_t i = 0; i < n; i++)
        if (got[i].left != want[i].left || got[i].right != want[i].right || got[i].id != want[i].id ||
            got[i].rank != i)
            fail_msg("seed %u, merge %zu: %d %d %d, not %d %d %d", seed, i, got[i].left, got[i].right,
                     got[i].id, want[i].left, want[i].right, want[i].id);
    free(got);
    pieces_free(tokens);
}

static void test_learn(void **state)
{
    (void)state;
    static struct plain p;
    static struct bpe_merge want[400];
    for (uint32_t round = 0; round < 600; round++) {
        seed = round;
        struct pieces *forwards = pieces_new(), *backwards = pieces_new();
        draw_words(&p, forwards, backwards);
        size_t wanted = round % 3 ? 600 : 260, n = learn_plainly(&p, wanted, want);
        check_merges(forwards, wanted, want, n);
        check_merges(backwards, wanted, want, n);
        pieces_free(forwards);
        pieces_free(backwards);
    }
}

/* ---- training ---- */

/* About `bytes` bytes of words, some rare, in lines. */
static char *draw_text(size_t bytes, size_t *len)
{
    char *text = malloc(bytes + 64);
    seed = 5;
    for (*len = 0; *len < bytes;) {
        uint32_t word = draw(10) ? draw(300) : draw(100000), n = 2 + word % 7;
        for (uint32_t i = 0; i < n; i++, word = word * 31 + 7)
            text[(*len)++] = (char)('a' + word % 26);
        text[(*len)++] = draw(12) ? ' ' : '\n';
    }
    return text;
}

static struct tokenizer *train(const char *text, size_t len, size_t document, unsigned threads, size_t vocab)
{
    struct err err = {""};
    struct bpe_trainer *tr = bpe_trainer_new(PRESPLIT_GPT2, threads);
    for (size_t at = 0; at < len; at += document)
        bpe_trainer_add(tr, text + at, len - at < document ? len - at : document);
    struct tokenizer *t = bpe_trainer_finish(tr, vocab, NULL, NULL, &err);
    if (!t)
        fail_msg("%s", err.text);
    bpe_trainer_free(tr);
    return t;
}

static void assert_same(const struct tokenizer *a, const struct tokenizer *b)
{
    assert_true(tokenizer_fingerprint(a) == tokenizer_fingerprint(b));
    assert_int_equal(tokenizer_merges(a), tokenizer_merges(b));
    for (size_t i = 0; i < tokenizer_merges(a); i++) {
        int32_t left_a, right_a, left_b, right_b;
        tokenizer_merge(a, i, &left_a, &right_a);
        tokenizer_merge(b, i, &left_b, &right_b);
        assert_true(left_a == left_b && right_a == right_b);
    }
}

/* One thread or many count the same, over several batches. */
static void test_threads(void **state)
{
    (void)state;
    size_t len;
    char *text = draw_text(20u << 20, &len);
    struct tokenizer *one = train(text, len, len, 1, 600), *many = train(text, len, len, 5, 600);
    assert_int_equal(tokenizer_vocab(one), 600);
    assert_int_equal(tokenizer_end(one), 599);
    assert_same(one, many);
    tokenizer_free(one);
    tokenizer_free(many);
    free(text);
}

/* A long document is cut where every pattern cuts, between a letter and a blank, and counts as it would in documents that begin at such
 * places. Nearly all blanks here are in runs, where a cut would make pieces that there are none of. */
static void test_long_document(void **state)
{
    (void)state;
    struct err err = {""};
    size_t len = 4, end = 6u << 20;
    char *text = malloc(end + 16);
    struct bpe_trainer *parts = bpe_trainer_new(PRESPLIT_LLAMA3, 2),
                       *whole = bpe_trainer_new(PRESPLIT_LLAMA3, 2);
    memcpy(text, "zzz1", 4);
    bpe_trainer_add(parts, text, len);
    for (size_t i = 0; len < end; i++, len += 8) {
        memcpy(text + len, i % 30000 == 17 ? "  ab ok1" : "      x1", 8);
        bpe_trainer_add(parts, text + len, 8);
    }
    bpe_trainer_add(whole, text, len);
    struct tokenizer *a = bpe_trainer_finish(parts, 900, NULL, NULL, &err);
    struct tokenizer *b = bpe_trainer_finish(whole, 900, NULL, NULL, &err);
    assert_same(a, b);
    tokenizer_free(a);
    tokenizer_free(b);
    bpe_trainer_free(parts);
    bpe_trainer_free(whole);
    free(text);
}

/* What is trained is written, read, and encodes as before; frequent words are one token. */
static void test_use(void **state)
{
    (void)state;
    struct err err = {""};
    char text[6000], *path = scratch_path("trained.json");
    size_t len = 0, n;
    while (len + 40 < sizeof text)
        len += (size_t)snprintf(text + len, 40, "the quick fox, the lazy dog; ");
    struct tokenizer *t = train(text, len, len, 1, 400), *read;
    assert_true(tokenizer_vocab(t) < 400); /* everything is one token of a piece by then */
    assert_int_equal(tokenizer_end(t), tokenizer_vocab(t) - 1);
    assert_memory_equal(tokenizer_bytes(t, tokenizer_end(t), &n), "<|endoftext|>", 13);
    assert_int_equal(tokenizer_write_json(t, path, &err), 0);
    read = tokenizer_open(path, &err);
    assert_non_null(read);
    assert_same(t, read);
    struct tokenizer_scratch *s = tokenizer_scratch_new(read);
    int32_t *ids = NULL;
    size_t count = 0, room = 0;
    tokenizer_encode(read, s, "the lazy fox!", 13, &ids, &count, &room);
    assert_int_equal(count, 4);
    assert_memory_equal(tokenizer_bytes(read, ids[1], &n), " lazy", 5);
    free(ids);
    free(path);
    tokenizer_scratch_free(s);
    tokenizer_free(t);
    tokenizer_free(read);
}

static void check_refused(const char *text, size_t vocab, const char *sentence)
{
    struct err err = {""};
    struct bpe_trainer *tr = bpe_trainer_new(PRESPLIT_GPT2, 1);
    bpe_trainer_add(tr, text, strlen(text));
    assert_null(bpe_trainer_finish(tr, vocab, NULL, NULL, &err));
    assert_contains(err.text, sentence);
    bpe_trainer_free(tr);
}

static void test_refusals(void **state)
{
    (void)state;
    check_refused("text", 256, "a vocabulary of 256 tokens cannot be trained; say 257");
    check_refused("text", (1 << 20) + 1, "cannot be trained");
    check_refused("", 300, "there is no text");
    struct tokenizer *t = train("abcdef", 6, 6, 1, 300); /* no pair twice: nothing to learn */
    assert_int_equal(tokenizer_vocab(t), 257);
    tokenizer_free(t);
}

/* ---- pieces ---- */

static void test_pieces(void **state)
{
    (void)state;
    struct pieces *p = pieces_new();
    const char *bytes;
    char name[16];
    size_t len;
    for (uint32_t i = 0; i < 5000; i++) {
        int n = snprintf(name, sizeof name, "p%u", i);
        assert_int_equal(pieces_add(p, name, (size_t)n, i < 10 ? 100 : i < 1000 ? 2 : 1), i);
    }
    assert_int_equal(pieces_add(p, "p7", 2, 5), 7);
    assert_int_equal(pieces_get(p, 7, &bytes, &len), 105);
    pieces_prune(p, 5000, 1u << 20);
    assert_int_equal(pieces_count(p), 5000);
    pieces_prune(p, 4999, 1u << 20); /* those that occur once go, all of them */
    assert_int_equal(pieces_count(p), 1000);
    pieces_prune(p, 1000, 20); /* by bytes: those of fewer than 4 */
    assert_int_equal(pieces_count(p), 10);
    assert_int_equal(pieces_bytes(p), 20);
    assert_int_equal(pieces_get(p, 9, &bytes, &len), 100);
    assert_memory_equal(bytes, "p9", 2);
    assert_int_equal(pieces_add(p, "p7", 2, 1), 7);
    assert_int_equal(pieces_add(p, "p4321", 5, 1), 10);
    pieces_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learn), cmocka_unit_test(test_threads),  cmocka_unit_test(test_long_document),
        cmocka_unit_test(test_use),   cmocka_unit_test(test_refusals), cmocka_unit_test(test_pieces),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
