#include "data_fixture.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "runtime/data/corpus.h"
#include "runtime/data/data.h"
#include "runtime/data/outfolder.h"
#include "runtime/data/prepare.h"
#include "runtime/data/shardwriter.h"

/* ---- shards ---- */

/* Tokens in pieces of all lengths, over the borders of shards, with and without a mask, in both widths. */
static void shards_hold_what_was_added(void **state)
{
    (void)state;
    enum { N = 20000 };
    static int32_t in[N], out[N], expected[N];
    static unsigned char counts[N];
    for (size_t i = 0; i < N; i++) {
        in[i] = (int32_t)(i * 31 % 60000);
        counts[i] = i < 9000 || i % 7 != 0;
    }
    for (int variant = 0; variant < 4; variant++) {
        bool wide = variant & 1, masked = variant & 2;
        struct err err = {""};
        struct indexfile x = {.tokenizer = NULL};
        char *name = str_printf("shards-%d", variant), *folder = scratch_path(name);
        assert_int_equal(mkdir(folder, 0755), 0);
        struct token_layout layout = {
            .type = wide ? TOKEN_U32 : TOKEN_U16, .vocab = 60000, .end = 7, .fingerprint = 9};
        struct shardwriter *w = shardwriter_new(folder, &layout, 7777);
        for (size_t at = 0, n; at < N; at += n) {
            n = at * 13 % 5000 + 1;
            n = n < N - at ? n : N - at;
            assert_int_equal(shardwriter_add(w, in + at, masked ? counts + at : NULL, n, &err), 0);
        }
        assert_int_equal(shardwriter_finish(w, &x, &err), 0);
        shardwriter_free(w);
        assert_int_equal(x.n_shards, 3);
        assert_int_equal(x.tokens, N);
        assert_int_equal(x.shards[2].tokens, N - 2 * 7777);
        struct corpus *c = corpus_open(folder, &err);
        if (!c)
            fail_msg("%s", err.text);
        assert_int_equal(corpus_vocab(c), 60000);
        assert_int_equal(corpus_tokenizer(c), 9);
        assert_int_equal(corpus_tokens(c), N);
        uint64_t not_counted = 0;
        for (size_t i = 0; i < N; i++) {
            expected[i] = masked && !counts[i] ? -1 : in[i];
            not_counted += expected[i] < 0;
        }
        assert_int_equal(x.masked, not_counted);
        assert_int_equal(corpus_read(c, 0, N, 60000, false, out, &err), 0);
        assert_memory_equal(out, in, sizeof in);
        assert_int_equal(corpus_read(c, 0, N, 60000, true, out, &err), 0);
        assert_memory_equal(out, expected, sizeof in);
        corpus_close(c);
        indexfile_clear(&x);
        free(name);
        free(folder);
    }
}

static void a_shard_that_is_not_whole_goes_away(void **state)
{
    (void)state;
    struct err err = {""};
    int32_t in[5] = {1, 2, 3, 4, 5};
    char *folder = scratch_path("half"), *whole = scratch_path("half/shard-00000.bin"),
         *half = scratch_path("half/shard-00001.bin.tmp");
    assert_int_equal(mkdir(folder, 0755), 0);
    struct shardwriter *w =
        shardwriter_new(folder, &(struct token_layout){.type = TOKEN_U16, .vocab = 256, .end = -1}, 3);
    assert_int_equal(shardwriter_add(w, in, NULL, 5, &err), 0);
    assert_int_equal(access(whole, F_OK), 0);
    assert_int_equal(access(half, F_OK), 0);
    shardwriter_free(w);
    assert_int_equal(access(half, F_OK), -1);
    w = shardwriter_new("/proc/nowhere", &(struct token_layout){.type = TOKEN_U16, .vocab = 256, .end = -1},
                        3);
    assert_int_equal(shardwriter_add(w, in, NULL, 5, &err), -1);
    assert_contains(err.text, "/proc/nowhere/shard-00000.bin.tmp");
    shardwriter_free(w);
    free(folder);
    free(whole);
    free(half);
}

/* ---- the folder ---- */

static const struct {
    const char *what;
    const char *files[4];
    const char *says; /* NULL = it is taken, and empty then */
} folders[] = {
    {"empty", {NULL}, NULL},
    {"interrupted", {"unfinished", "shard-00000.bin", "shard-00001.bin.tmp", "tokenizer.json"}, NULL},
    {"finished", {"index.json", "shard-00000.bin"}, "already holds token files"},
    {"finished, but not all", {"index.json", "unfinished"}, "already holds token files"},
    {"of someone else", {"thesis.tex"}, "\"thesis.tex\" is in it"},
    {"of someone else with our names", {"shard-00000.bin"}, "is not empty"},
    {"interrupted, and used since",
     {"unfinished", "shard-00000.bin", "thesis.tex"},
     "\"thesis.tex\" is in it"},
};

static void only_empty_and_unfinished_folders_are_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct err err = {""};
        char *name = str_printf("out-%zu", i), *path = scratch_path(name);
        assert_int_equal(mkdir(path, 0755), 0);
        for (size_t k = 0; k < 4 && folders[i].files[k]; k++) {
            char *file = str_printf("%s/%s", path, folders[i].files[k]);
            scratch_write(file, "x", 1);
            free(file);
        }
        struct outfolder *f = outfolder_take(path, &err);
        if ((f != NULL) != (folders[i].says == NULL))
            fail_msg("%s: %s", folders[i].what, f ? "taken" : err.text);
        if (folders[i].says)
            assert_contains(err.text, folders[i].says);
        for (size_t k = 0; k < 4 && folders[i].files[k]; k++) {
            char *file = str_printf("%s/%s", path, folders[i].files[k]);
            bool marker = strcmp(folders[i].files[k], "unfinished") == 0;
            assert_int_equal(access(file, F_OK) == 0,
                             folders[i].says || marker); /* refused: nothing was touched */
            free(file);
        }
        if (f) {
            assert_int_equal(outfolder_finish(f, &err), 0);
            assert_int_equal(rmdir(path), 0);
        }
        outfolder_close(f);
        free(name);
        free(path);
    }
}

static void two_cannot_fill_one_folder(void **state)
{
    (void)state;
    struct err err = {""};
    char *path = scratch_path("new/deep/out");
    struct outfolder *first = outfolder_take(path, &err);
    assert_non_null(first);
    assert_null(outfolder_take(path, &err));
    assert_contains(err.text, "another belay-train prepare");
    outfolder_close(first);
    first = outfolder_take(path, &err);
    assert_non_null(first);
    outfolder_close(first);
    free(path);
}

static const char
    *finishes; /* the folder that another run makes whole right before it can be locked, or NULL */

/* Interposed. */
int flock(int fd, int operation)
{
    if (finishes) {
        char *marker = str_printf("%s/unfinished", finishes), *index = str_printf("%s/index.json", finishes);
        finishes = NULL;
        scratch_write(index, "{}", 2);
        assert_int_equal(unlink(marker), 0);
        free(index);
        free(marker);
    }
    return (int)syscall(SYS_flock, fd, operation);
}

/* Shards of a run that has just finished are not what an interrupted one has left. */
static void what_was_just_finished_stays(void **state)
{
    (void)state;
    struct err err = {""};
    char *path = scratch_path("just"), *marker = scratch_path("just/unfinished"),
         *shard = scratch_path("just/shard-00000.bin");
    assert_int_equal(mkdir(path, 0755), 0);
    scratch_write(marker, "", 0);
    scratch_write(shard, "x", 1);
    finishes = path;
    assert_null(outfolder_take(path, &err));
    assert_contains(err.text, "already holds token files");
    assert_int_equal(access(shard, F_OK), 0);
    assert_int_equal(access(marker, F_OK), -1);
    free(shard);
    free(marker);
    free(path);
}

/* ---- all of it ---- */

static struct prepare_options options_of(const char *const *inputs, size_t n, const char *out)
{
    return (struct prepare_options){
        .inputs = inputs, .n_inputs = n, .tokenizer = "bytes", .out = out, .shard_tokens = 1000, .jobs = 2};
}

/* Prompts are inputs, completions are targets; a line that is blank is nothing. */
static void prompts_do_not_count(void **state)
{
    (void)state;
    struct err err = {""};
    struct prepare_progress done;
    static const char lines[] =
        "{\"prompt\":\"abc\",\"completion\":\"DE\"}\n\n{\"text\":\"xyz\"}\n"
        "{\"prompt\":\"\",\"completion\":\"F\"}\n{\"prompt\":\"g\",\"completion\":\"\"}";
    static const int32_t expected[] = {-1, -1, -1, 'D', 'E', 'x', 'y', 'z', 'F', -1};
    int32_t out[10];
    char *in = scratch_path("talk.jsonl"), *folder = scratch_path("talk");
    const char *inputs[] = {in};
    scratch_write(in, lines, sizeof lines - 1);
    struct prepare_options o = options_of(inputs, 1, folder);
    assert_int_equal(prepare(&o, NULL, NULL, &done, &err), 0);
    assert_int_equal(done.documents, 4);
    assert_int_equal(done.tokens, 10);
    assert_int_equal(done.masked, 4);
    struct corpus *c = corpus_open(folder, &err);
    assert_int_equal(corpus_read(c, 0, 10, 256, true, out, &err), 0);
    assert_memory_equal(out, expected, sizeof expected);
    assert_int_equal(corpus_read(c, 0, 10, 256, false, out, &err), 0);
    assert_int_equal(out[0], 'a');
    assert_int_equal(out[9], 'g');
    corpus_close(c);
    free(in);
    free(folder);
}

/* The first bad line by its place, whichever thread meets one first. */
static void a_bad_line_is_named(void **state)
{
    (void)state;
    char *in = scratch_path("bad.jsonl"), *folder = scratch_path("bad"),
         *where = str_printf("%s:40001: ", in);
    const char *inputs[] = {in};
    struct bytes b = {NULL, 0, 0};
    for (int i = 1; i <= 100000; i++) {
        const char *line =
            i > 40000 && i % 3 == 0 ? "{\"text\":}\n" : "{\"text\":\"a text of some length, to be cut\"}\n";
        put(&b, line, strlen(line));
        if (i == 40000)
            put(&b, "[]\n", 3);
    }
    bytes_save(&b, in);
    for (int times = 0; times < 3; times++) {
        struct err err = {""};
        struct prepare_progress done;
        struct prepare_options o = options_of(inputs, 1, folder);
        o.jobs = 4;
        o.shard_tokens = 1 << 20;
        assert_int_equal(prepare(&o, NULL, NULL, &done, &err), -1);
        assert_contains(err.text, where);
        assert_contains(err.text, "--skip-bad-lines");
    }
    struct err err = {""};
    struct prepare_progress done;
    struct prepare_options o = options_of(inputs, 1, folder);
    o.skip_bad_lines = true;
    o.shard_tokens = 1 << 20;
    assert_int_equal(prepare(&o, NULL, NULL, &done, &err), 0);
    assert_int_equal(done.bad_lines, 20001);
    assert_int_equal(done.documents, 80000);
    assert_contains(done.bad.text, where);
    free(in);
    free(folder);
    free(where);
}

/* Long enough at the first piece for the threads to encode all that they may. */
static void dawdle(void *arg, const struct prepare_progress *p)
{
    (void)p;
    if (!*(bool *)arg)
        usleep(500000);
    *(bool *)arg = true;
}

/* Results wait for their turn, and threads for the writer, when it is slow. */
static void no_piece_is_lost_to_a_slow_writer(void **state)
{
    (void)state;
    struct err err = {""};
    struct prepare_progress done;
    bool slept = false;
    size_t size = 12u << 20;
    char *in = scratch_path("slow.txt"), *folder = scratch_path("slow"), *text = mem_zero(size, 1);
    const char *inputs[] = {in};
    int32_t *out = mem_zero(size, sizeof *out);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)(i % 16 == 0 ? '\n' : 'a' + i / 50000 % 26);
    scratch_write(in, text, size);
    struct prepare_options o = options_of(inputs, 1, folder);
    o.shard_tokens = size;
    o.jobs = 1;
    assert_int_equal(prepare(&o, dawdle, &slept, &done, &err), 0);
    struct corpus *c = corpus_open(folder, &err);
    assert_int_equal(corpus_tokens(c), size);
    assert_int_equal(corpus_read(c, 0, size, 256, false, out, &err), 0);
    for (size_t i = 0; i < size; i++)
        if (out[i] != text[i])
            fail_msg("byte %zu is %d instead of %d", i, out[i], text[i]);
    corpus_close(c);
    free(in);
    free(folder);
    free(text);
    free(out);
}

static void count_calls(void *arg, const struct prepare_progress *p)
{
    assert_true(p->done > 0 && p->done <= p->all);
    ++*(int *)arg;
}

static void prepare_refuses(void **state)
{
    (void)state;
    struct err err = {""};
    struct prepare_progress done;
    int calls = 0;
    char *in = scratch_path("blank.jsonl"), *folder = scratch_path("blank"),
         *index = scratch_path("blank/index.json");
    const char *inputs[] = {in};
    scratch_write(in, "\n\n\n", 3);
    struct prepare_options o = options_of(inputs, 1, folder);
    assert_int_equal(prepare(&o, count_calls, &calls, &done, &err), -1);
    assert_contains(err.text, "there is no text");
    assert_int_equal(access(index, F_OK), -1);
    assert_int_equal(calls, 1);
    static const char prompts[] = "{\"prompt\":\"only\",\"completion\":\"\"}";
    scratch_write(in, prompts, sizeof prompts - 1);
    assert_int_equal(prepare(&o, NULL, NULL, &done, &err), -1);
    assert_contains(err.text, "every completion is empty");
    o.tokenizer = "/nowhere.json";
    assert_int_equal(prepare(&o, NULL, NULL, &done, &err), -1);
    assert_contains(err.text, "/nowhere.json");
    free(in);
    free(folder);
    free(index);
}

/* A run with tokens of one tokenizer and the name of another would learn nonsense. */
static void the_job_must_name_the_tokenizer(void **state)
{
    (void)state;
    struct err err = {""};
    struct indexfile x;
    struct prepare_progress done;
    char *in = scratch_path("own.txt"), *folder = scratch_path("own"),
         *index = scratch_path("own/index.json");
    const char *inputs[] = {in};
    scratch_write(in, "some text to learn", 18);
    struct prepare_options o = options_of(inputs, 1, folder);
    assert_int_equal(prepare(&o, NULL, NULL, &done, &err), 0);
    struct data *d = data_open(train_of(&folder, NULL, 1, 0), &err);
    assert_non_null(d);
    data_close(d);
    assert_int_equal(indexfile_read(index, &x, &err), 0);
    x.fingerprint ^= 1;
    char *shard = scratch_path("own/shard-00000.bin");
    scratch_flip(shard, 48); /* its fingerprint */
    assert_int_equal(indexfile_write(index, &x, &err), 0);
    indexfile_clear(&x);
    assert_null(data_open(train_of(&folder, NULL, 1, 0), &err));
    assert_contains(err.text, "was made with another tokenizer");
    free(in);
    free(folder);
    free(index);
    free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_hold_what_was_added),
        cmocka_unit_test(a_shard_that_is_not_whole_goes_away),
        cmocka_unit_test(only_empty_and_unfinished_folders_are_taken),
        cmocka_unit_test(two_cannot_fill_one_folder),
        cmocka_unit_test(what_was_just_finished_stays),
        cmocka_unit_test(prompts_do_not_count),
        cmocka_unit_test(a_bad_line_is_named),
        cmocka_unit_test(no_piece_is_lost_to_a_slow_writer),
        cmocka_unit_test(prepare_refuses),
        cmocka_unit_test(the_job_must_name_the_tokenizer),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
