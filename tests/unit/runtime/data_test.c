#include "data_fixture.h"

#include <fcntl.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "runtime/data/order.h"

/* A corpus in which sequence i, at context 8, is told by its first token i: n sequences and `extra` more tokens. */
static char *numbered(const char *name, size_t n, size_t extra)
{
    char *path = scratch_path(name);
    int32_t *tokens = mem_zero(n * CONTEXT + 1 + extra, sizeof *tokens);
    for (size_t i = 0; i < n * CONTEXT + 1 + extra; i++)
        tokens[i] = (int32_t)(i / CONTEXT);
    struct bytes b = {NULL, 0, 0};
    own_file(&b, 1, TOKEN_U16, tokens, n * CONTEXT + 1 + extra, NULL);
    bytes_save(&b, path);
    free(tokens);
    return path;
}

static struct data *must_open(const struct job_train *train)
{
    struct err err = {""};
    struct data *d = data_open(train, &err);
    if (!d)
        fail_msg("%s", err.text);
    return d;
}

static void samples_are_cut_from_the_text(void **state)
{
    (void)state;
    struct err err;
    char *text = scratch_path("text.txt");
    unsigned char bytes[8 * 40 + 3];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    scratch_write(text, bytes, sizeof bytes);
    struct data *d = must_open(train_of(&text, NULL, 1, 0));
    int32_t whole[16 * 8], targets[16 * 8], part[4 * 8], part_targets[4 * 8];
    assert_int_equal(data_tokens(d), sizeof bytes);
    assert_int_equal(data_sequences(d), 40);
    assert_int_equal(data_unused(d), 2);
    assert_int_equal(data_held(d), 0);
    assert_int_equal(data_fill(d, 5, 160, 16, whole, targets, &err), 0);
    for (size_t s = 0; s < 16; s++) {
        uint64_t from = order_pick(40, 5, 160 + s) * 8;
        for (size_t t = 0; t < 8; t++) {
            assert_int_equal(whole[s * 8 + t], bytes[from + t]);
            assert_int_equal(targets[s * 8 + t], bytes[from + t + 1]);
        }
    }
    /* Whoever asks, in whatever pieces: sample k is sample k. */
    for (uint64_t at = 0; at < 16; at += 4) {
        assert_int_equal(data_fill(d, 5, 160 + at, 4, part, part_targets, &err), 0);
        assert_memory_equal(part, whole + at * 8, sizeof part);
        assert_memory_equal(part_targets, targets + at * 8, sizeof part);
    }
    data_close(d);
    free(text);
}

/* Samples first..end-1, each by a data of its own as a rank of a mesh of `ranks` would ask; counts what was seen by first token. */
static void visit(const struct job_train *train, uint64_t first, uint64_t end, uint64_t ranks, int *seen)
{
    struct err err;
    for (uint64_t r = 0; r < ranks; r++) {
        struct data *d = must_open(train);
        int32_t tokens[CONTEXT], targets[CONTEXT];
        for (uint64_t k = first + r; k < end; k += ranks) {
            assert_int_equal(data_fill(d, 42, k, 1, tokens, targets, &err), 0);
            seen[tokens[0]]++;
        }
        data_close(d);
    }
}

/* A run of 4 ranks that stops inside its second epoch and goes on with 3. */
static void a_resume_visits_each_sample_once_an_epoch(void **state)
{
    (void)state;
    char *path = numbered("epochs.bin", 37, 5);
    const struct job_train *train = train_of(&path, NULL, 1, 0);
    int seen[37] = {0}, again[37] = {0};
    visit(train, 0, 37, 4, seen);
    for (size_t i = 0; i < 37; i++)
        assert_int_equal(seen[i], 1);
    visit(train, 37, 37 + 20, 4, again);
    visit(train, 37 + 20, 2 * 37, 3, again);
    for (size_t i = 0; i < 37; i++)
        assert_int_equal(again[i], 1);
    free(path);
}

/* Each corpus in its own epochs, by weight, over more than one of them. */
static void each_corpus_of_a_mixture_has_epochs_of_its_own(void **state)
{
    (void)state;
    char *paths[] = {numbered("m0.bin", 11, 0), numbered("m1.bin", 100, 0), numbered("m2.bin", 3, 0)};
    static const size_t sizes[] = {11, 100, 3};
    struct data *d = must_open(train_of(paths, (double[]){0.5, 0.3, 0.2}, 3, 0));
    size_t had[3] = {0};
    char *seen[3];
    for (size_t i = 0; i < 3; i++)
        seen[i] = calloc(sizes[i], 1);
    for (uint64_t k = 0; k < 1000; k++) {
        struct data_place p = data_place(d, 9, k);
        assert_true(p.sequence < sizes[p.corpus]);
        assert_int_equal(p.epoch, had[p.corpus] / sizes[p.corpus]);
        assert_int_equal(seen[p.corpus][p.sequence], p.epoch % 2); /* seen so often before */
        seen[p.corpus][p.sequence] ^= 1;
        had[p.corpus]++;
    }
    assert_in_range(had[0], 499, 501);
    assert_in_range(had[1], 299, 301);
    assert_in_range(had[2], 199, 201);
    data_close(d);
    for (size_t i = 0; i < 3; i++) {
        free(seen[i]);
        free(paths[i]);
    }
}

static const struct {
    double holdout;
    size_t sequences, held;
} splits[] = {{0, 40, 0},      {0.5, 40, 20}, {0.1, 40, 4}, {0.001, 40, 1},
              {0.0624, 40, 2}, {0.5, 2, 1},   {0.9, 3, 2}};

/* The last sequences; trained and held out together are all of them, each once. */
static void what_is_held_out_is_never_trained_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        size_t n = splits[i].sequences, held = splits[i].held;
        struct err err;
        char *path = numbered("split.bin", n, 3);
        struct data *d = must_open(train_of(&path, NULL, 1, splits[i].holdout));
        int32_t tokens[CONTEXT], targets[CONTEXT];
        int seen[64] = {0};
        assert_int_equal(data_held(d), held);
        assert_int_equal(data_sequences(d), n - held);
        for (uint64_t k = 0; k < n - held; k++) {
            assert_int_equal(data_fill(d, 3, k, 1, tokens, targets, &err), 0);
            assert_true((size_t)tokens[0] < n - held);
            seen[tokens[0]]++;
        }
        for (uint64_t k = 0; k < held; k++) {
            assert_int_equal(data_fill_held(d, k, 1, tokens, targets, &err), 0);
            assert_int_equal(targets[CONTEXT - 2], tokens[CONTEXT - 1]);
            seen[tokens[0]]++;
        }
        for (size_t s = 0; s < n; s++)
            assert_int_equal(seen[s], 1);
        data_close(d);
        free(path);
    }
}

/* A corpus for evaluation alone: each of its sequences once, none of them in training, and the samples of a run do not depend on it. */
static void a_corpus_of_its_own_is_evaluated(void **state)
{
    (void)state;
    struct err err;
    char *paths[] = {numbered("e0.bin", 30, 0)}, *own = numbered("e1.bin", 12, 5);
    struct job_train *train = train_of(paths, NULL, 1, 0);
    struct data *plain = must_open(train);
    train->eval_path = own;
    struct data *d = must_open(train);
    int32_t tokens[CONTEXT], targets[CONTEXT], same[CONTEXT];
    size_t seen[12] = {0};
    assert_int_equal(data_held(d), 12);
    assert_int_equal(data_sequences(d), 30);
    assert_true(data_fingerprint(d) == data_fingerprint(plain));
    for (uint64_t k = 0; k < 60; k++) {
        assert_int_equal(data_fill(d, 3, k, 1, tokens, targets, &err), 0);
        assert_int_equal(data_fill(plain, 3, k, 1, same, targets, &err), 0);
        assert_memory_equal(tokens, same, sizeof same);
    }
    for (uint64_t k = 0; k < 12; k++) {
        assert_int_equal(data_fill_held(d, k, 1, tokens, targets, &err), 0);
        assert_in_range(tokens[0], 0, 11);
        seen[tokens[0]]++;
    }
    for (size_t s = 0; s < 12; s++)
        assert_int_equal(seen[s], 1);
    data_close(d);
    data_close(plain);
    free(paths[0]);
    free(own);
}

/* It is not the training data that is at fault. */
static void a_corpus_of_its_own_is_refused_by_its_field(void **state)
{
    (void)state;
    char *paths[] = {numbered("f0.bin", 30, 0)};
    char *bad[] = {scratch_path("none.bin"), scratch_path("tiny.txt")};
    static const char *const says[] = {"train.eval.path: cannot open", "fewer than one sequence"};
    scratch_write(bad[1], "12345678", 8);
    for (size_t i = 0; i < 2; i++) {
        struct err err = {""};
        struct job_train *train = train_of(paths, NULL, 1, 0);
        train->eval_path = bad[i];
        assert_null(data_open(train, &err));
        assert_non_null(strstr(err.text, says[i]));
        assert_ptr_equal(strstr(err.text, "train.eval.path: "), err.text);
        free(bad[i]);
    }
    free(paths[0]);
}

/* Of a mixture each corpus gives its part, in turn. */
static void the_held_out_part_of_a_mixture_is_mixed(void **state)
{
    (void)state;
    struct err err;
    char *paths[] = {numbered("h0.bin", 100, 0), numbered("h1.bin", 300, 0)};
    struct data *d = must_open(train_of(paths, (double[]){1, 1}, 2, 0.1));
    int32_t tokens[40 * CONTEXT], targets[40 * CONTEXT];
    assert_int_equal(data_held(d), 10 + 30);
    assert_int_equal(data_fill_held(d, 0, 40, tokens, targets, &err), 0);
    size_t of_first = 0, seen[300] = {0};
    for (size_t i = 0; i < 40; i++) {
        int32_t sequence = tokens[i * CONTEXT];
        assert_true((sequence >= 90 && sequence < 100) || sequence >= 270);
        assert_int_equal(seen[sequence]++, 0);
        of_first += sequence < 100;
        if (i % 4 == 3)
            assert_int_equal(of_first, (i + 1) / 4);
    }
    data_close(d);
    free(paths[0]);
    free(paths[1]);
}

/* Targets that do not count are -1; as inputs they stay what they are. */
static void masked_targets(void **state)
{
    (void)state;
    struct err err;
    int32_t in[2 * CONTEXT + 1], tokens[2 * CONTEXT], targets[2 * CONTEXT];
    unsigned char mask[2 * CONTEXT + 1];
    struct bytes b = {NULL, 0, 0};
    char *path = scratch_path("masked.bin");
    for (int i = 0; i < 2 * CONTEXT + 1; i++) {
        in[i] = 100 + i;
        mask[i] = i % 3 != 0 && i != 8;
    }
    own_file(&b, 2, TOKEN_U32, in, 2 * CONTEXT + 1, mask);
    bytes_save(&b, path);
    struct data *d = must_open(train_of(&path, NULL, 1, 0));
    assert_int_equal(data_fill(d, 1, 0, 2, tokens, targets, &err), 0);
    for (size_t i = 0; i < 2; i++)
        for (size_t t = 0; t < CONTEXT; t++) {
            size_t at = (size_t)tokens[i * CONTEXT] - 100 + t;
            assert_int_equal(tokens[i * CONTEXT + t], in[at]);
            assert_int_equal(targets[i * CONTEXT + t], mask[at + 1] ? in[at + 1] : -1);
        }
    data_close(d);
    free(path);
}

static const struct {
    const char *name, *content;
    size_t len;
    int64_t vocab;
    const char *tokenizer;
    double holdout;
    const char *says;
} refusals[] = {
    {"missing.txt", NULL, 0, 256, "bytes", 0, "train.data: cannot open"},
    {"empty.txt", "", 0, 256, "bytes", 0, "is empty"},
    {"short.txt", "12345678", 8, 256, "bytes", 0, "fewer than one sequence"},
    {"low.txt", "123456789", 9, 255, "bytes", 0, "set vocab to at least 256"},
    {"one.txt", "123456789", 9, 256, "bytes", 0.1, "nothing can be held out"},
    {"text.txt", "123456789", 9, 256, "gpt2.json", 0, "belay-train prepare --tokenizer gpt2.json"},
    {"none", NULL, 0, 256, "bytes", 0, "cannot open"},
    {"/dev/null", NULL, 0, 256, "bytes", 0, "is not a file"},
};

static void refusals_say_what_to_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct err err = {""};
        char *path = refusals[i].name[0] == '/' ? str_dup(refusals[i].name) : scratch_path(refusals[i].name);
        if (refusals[i].content)
            scratch_write(path, refusals[i].content, refusals[i].len);
        struct job_train *train = train_of(&path, NULL, 1, refusals[i].holdout);
        train->model.vocab = refusals[i].vocab;
        train->tokenizer = (char *)(uintptr_t)refusals[i].tokenizer;
        assert_null(data_open(train, &err));
        assert_contains(err.text, refusals[i].says);
        free(path);
    }
}

static void a_token_above_vocab(void **state)
{
    (void)state;
    struct err err;
    int32_t tokens[8], targets[8];
    uint16_t words[9] = {1, 2, 3, 4, 5, 6, 7, 8, 300};
    char *path = scratch_path("words.bin");
    scratch_write(path, words, sizeof words);
    struct job_train *train = train_of(&path, NULL, 1, 0);
    train->model.vocab = 301;
    struct data *d = must_open(train);
    assert_int_equal(data_fill(d, 1, 0, 1, tokens, targets, &err), 0);
    assert_int_equal(targets[7], 300);
    data_close(d);
    train->model.vocab = 300;
    d = must_open(train);
    assert_int_equal(data_fill(d, 1, 0, 1, tokens, targets, &err), -1);
    assert_contains(err.text, "vocab (300)");
    data_close(d);
    free(path);
}

static uint64_t print_of(const struct job_train *train)
{
    struct data *d = must_open(train);
    uint64_t print = data_fingerprint(d);
    data_close(d);
    return print;
}

/* Another beginning, end, weight or held-out part is another corpus. */
static void fingerprints_tell_corpora_apart(void **state)
{
    (void)state;
    char *paths[] = {scratch_path("print.txt"), numbered("print.bin", 50, 0)}, *bytes = calloc(300000, 1);
    uint64_t prints[6];
    static const size_t changes[] = {0, 299999};
    for (size_t i = 0; i < 3; i++) {
        scratch_write(paths[0], bytes, 300000);
        prints[i] = print_of(train_of(paths, NULL, 1, 0));
        if (i < 2)
            bytes[changes[i]] ^= 1;
    }
    assert_true(prints[2] == print_of(train_of(paths, NULL, 1, 0)));
    prints[3] = print_of(train_of(paths, NULL, 1, 0.1));
    prints[4] = print_of(train_of(paths, (double[]){1, 2}, 2, 0));
    prints[5] = print_of(train_of(paths, (double[]){1, 3}, 2, 0));
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(prints[i] != prints[j]);
    free(bytes);
    free(paths[0]);
    free(paths[1]);
}

/* A file with holes: `size` bytes, of which only the header and the last ones exist. */
static void sparse(const char *path, const void *head, size_t head_len, uint64_t size, const void *tail,
                   size_t tail_len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(pwrite(fd, head, head_len, 0), head_len);
    assert_int_equal(pwrite(fd, tail, tail_len, (off_t)(size - tail_len)), tail_len);
    assert_int_equal(close(fd), 0);
}

/* Reads the sample that is the corpus' last sequence; which one that is, the order says. */
static void last_sample(const char *name, uint64_t tokens, const int32_t *expected)
{
    struct err err;
    int32_t in[CONTEXT], targets[CONTEXT];
    char *path = scratch_path(name);
    struct data *d = must_open(train_of(&path, NULL, 1, 0.000001));
    assert_int_equal(data_tokens(d), tokens);
    uint64_t sequences = (tokens - 1) / CONTEXT, found = UINT64_MAX;
    assert_int_equal(data_sequences(d) + data_held(d), sequences);
    for (uint64_t i = 0; i < data_held(d) && found == UINT64_MAX; i++) {
        assert_int_equal(data_fill_held(d, i, 1, in, targets, &err), 0);
        if (targets[CONTEXT - 1] != 0)
            found = i;
    }
    assert_true(found != UINT64_MAX);
    assert_memory_equal(targets, expected, sizeof targets);
    assert_int_equal(data_fill(d, 1, data_sequences(d) - 1, 1, in, targets, &err), 0);
    data_close(d);
    assert_int_equal(unlink(path), 0);
    free(path);
}

static void three_gibibytes_at_the_last_sample(void **state)
{
    (void)state;
    uint64_t size = 3ULL << 30, count = (size - TOKENFILE_HEADER) / 2;
    unsigned char header[TOKENFILE_HEADER];
    uint16_t tail[CONTEXT];
    int32_t expected[CONTEXT];
    for (uint16_t i = 0; i < CONTEXT; i++)
        expected[i] = tail[i] = (uint16_t)(60000 + i);
    count -= (count - 1) % CONTEXT; /* the last token is the last target */
    size = TOKENFILE_HEADER + 2 * count;
    tokenfile_header(&(struct token_layout){.type = TOKEN_U16, .count = count, .end = -1}, header);
    char *path = scratch_path("huge.bin");
    sparse(path, header, sizeof header, size, tail, sizeof tail);
    free(path);
    last_sample("huge.bin", count, expected);
}

static void more_tokens_than_32_bits_count(void **state)
{
    (void)state;
    int32_t expected[CONTEXT];
    char tail[CONTEXT], *path = scratch_path("huge.txt");
    for (int i = 0; i < CONTEXT; i++)
        expected[i] = tail[i] = (char)('a' + i);
    sparse(path, "", 0, (1ULL << 32) + 1, tail, sizeof tail);
    free(path);
    last_sample("huge.txt", (1ULL << 32) + 1, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_cut_from_the_text),
        cmocka_unit_test(a_resume_visits_each_sample_once_an_epoch),
        cmocka_unit_test(each_corpus_of_a_mixture_has_epochs_of_its_own),
        cmocka_unit_test(what_is_held_out_is_never_trained_on),
        cmocka_unit_test(a_corpus_of_its_own_is_evaluated),
        cmocka_unit_test(a_corpus_of_its_own_is_refused_by_its_field),
        cmocka_unit_test(the_held_out_part_of_a_mixture_is_mixed),
        cmocka_unit_test(masked_targets),
        cmocka_unit_test(refusals_say_what_to_do),
        cmocka_unit_test(a_token_above_vocab),
        cmocka_unit_test(fingerprints_tell_corpora_apart),
        cmocka_unit_test(three_gibibytes_at_the_last_sample),
        cmocka_unit_test(more_tokens_than_32_bits_count),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
