/* What a model is measured on: each token but the first is a target once, after as many others as the stride promises. */
#include "data_fixture.h"

#include "runtime/evalset.h"
#include "runtime/text/tokenizer.h"

#define LONGEST 64

static struct tokenizer *bytes_tokenizer;

static int begin(void **state)
{
    struct err err;
    bytes_tokenizer = tokenizer_open("bytes", &err);
    return bytes_tokenizer ? scratch_make(state) : -1;
}

static int end(void **state)
{
    tokenizer_free(bytes_tokenizer);
    return scratch_remove(state);
}

static struct evalset_request request_of(const char *path, size_t context, size_t stride)
{
    return (struct evalset_request){
        .path = path, .tokenizer = bytes_tokenizer, .vocab = 256, .context = context, .stride = stride};
}

static struct evalset *open_set(const struct evalset_request *r)
{
    struct err err = {""};
    struct evalset *set = evalset_open(r, &err);
    if (!set)
        fail_msg("%s", err.text);
    return set;
}

static void fill(const struct evalset *set, uint64_t i, int32_t *tokens, int32_t *targets)
{
    struct err err = {""};
    if (evalset_fill(set, i, tokens, targets, &err) != 0)
        fail_msg("%s", err.text);
}

/* Token i of the row is 'A' + i. */
static void check_cover(size_t count, size_t context, size_t stride)
{
    char text[LONGEST];
    int32_t tokens[LONGEST], targets[LONGEST];
    size_t times[LONGEST] = {0};
    char *path = scratch_path("row.txt");
    for (size_t i = 0; i < count; i++)
        text[i] = (char)('A' + i);
    scratch_write(path, text, count);
    struct evalset_request r = request_of(path, context, stride);
    struct evalset *set = open_set(&r);
    for (uint64_t w = 0; w < evalset_windows(set); w++) {
        size_t counted = 0;
        fill(set, w, tokens, targets);
        for (size_t j = 0; j < context; j++) {
            if (targets[j] < 0)
                continue;
            size_t at = (size_t)(targets[j] - 'A');
            assert_int_equal(tokens[j], 'A' + (int)at - 1);
            assert_in_range(at, 1, count - 1);
            assert_true(w == 0 || j >= context - stride);
            times[at]++;
            counted++;
        }
        assert_true(counted > 0);
    }
    for (size_t i = 0; i < count; i++)
        if (times[i] != (i > 0))
            fail_msg("%zu tokens in windows of %zu, %zu apart: token %zu was counted %zu times", count,
                     context, stride, i, times[i]);
    evalset_close(set);
    free(path);
}

static void every_token_is_counted_once(void **state)
{
    (void)state;
    for (size_t count = 2; count <= 23; count++)
        for (size_t context = 1; context <= 9; context++)
            for (size_t stride = 1; stride <= context; stride++)
                check_cover(count, context, stride);
}

static void what_is_masked_is_not_counted(void **state)
{
    (void)state;
    static const char lines[] = "{\"prompt\":\"ab\",\"completion\":\"CD\"}\n{\"text\":\"EF\"}\n";
    int32_t tokens[8], targets[8];
    char *path = scratch_path("lines.jsonl");
    scratch_write(path, lines, sizeof lines - 1);
    struct evalset_request r = request_of(path, 8, 8);
    struct evalset *set = open_set(&r);
    fill(set, 0, tokens, targets);
    const int32_t expected[] = {-1, 'C', 'D', 'E', 'F', -1, -1, -1};
    assert_memory_equal(targets, expected, sizeof expected);
    assert_memory_equal(tokens, ((const int32_t[]){'a', 'b', 'C', 'D', 'E'}), 5 * sizeof *tokens);
    evalset_close(set);
    free(path);
}

static void token_files_are_read_as_they_are(void **state)
{
    (void)state;
    const int32_t row[] = {7, 300, 2, 9, 11};
    const unsigned char mask[] = {1, 1, 0, 1, 1};
    int32_t tokens[4], targets[4];
    struct bytes b = {NULL, 0, 0};
    char *path = scratch_path("row.bin");
    own_file(&b, 2, TOKEN_U16, row, 5, mask);
    bytes_save(&b, path);
    struct evalset_request r = request_of(path, 4, 4);
    r.vocab = 400;
    struct evalset *set = open_set(&r);
    assert_int_equal(evalset_windows(set), 1);
    fill(set, 0, tokens, targets);
    assert_memory_equal(tokens, row, sizeof tokens);
    assert_memory_equal(targets, ((const int32_t[]){300, -1, 9, 11}), sizeof targets);
    evalset_close(set);
    r.vocab = 256; /* a token beyond the model's */
    set = open_set(&r);
    struct err err = {""};
    assert_int_equal(evalset_fill(set, 0, tokens, targets, &err), -1);
    assert_contains(err.text, "(256)");
    evalset_close(set);
    free(path);
}

/* Their files one after the other, with and without targets that do not count. */
static void folders_of_text(void **state)
{
    (void)state;
    static const char line[] = "{\"prompt\":\"p\",\"completion\":\"q\"}\n";
    struct err err;
    int32_t tokens[8], targets[8];
    char *folder = scratch_path("texts"), *first = scratch_path("texts/a.txt"),
         *second = scratch_path("texts/b.jsonl"), *third = scratch_path("texts/c.txt");
    assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
    scratch_write(first, "xy", 2);
    scratch_write(second, line, sizeof line - 1);
    scratch_write(third, "z", 1);
    struct evalset_request r = request_of(folder, 8, 8);
    struct evalset *set = open_set(&r);
    fill(set, 0, tokens, targets);
    assert_memory_equal(tokens, ((const int32_t[]){'x', 'y', 'p', 'q', 0}), 5 * sizeof *tokens);
    assert_memory_equal(targets, ((const int32_t[]){'y', -1, 'q', 'z', -1}), 5 * sizeof *targets);
    evalset_close(set);
    free(first);
    free(second);
    free(third);
    free(folder);
}

static void what_cannot_be_measured_on(void **state)
{
    (void)state;
    char *empty = scratch_path("empty.txt"), *one = scratch_path("one.txt"), *none = scratch_path("none");
    struct err err = {""};
    scratch_write(empty, "", 0);
    scratch_write(one, "x", 1);
    const char *const paths[] = {empty, one, none};
    for (size_t i = 0; i < 3; i++) {
        struct evalset_request r = request_of(paths[i], 4, 4);
        assert_null(evalset_open(&r, &err));
        assert_contains(err.text, paths[i]);
    }
    free(empty);
    free(one);
    free(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_counted_once),      cmocka_unit_test(what_is_masked_is_not_counted),
        cmocka_unit_test(token_files_are_read_as_they_are), cmocka_unit_test(folders_of_text),
        cmocka_unit_test(what_cannot_be_measured_on),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
