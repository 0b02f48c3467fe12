#include "tests/unit/scratch.h"

#include <sys/stat.h>

#include "runtime/data/source.h"
#include "runtime/text/presplit.h"

/* ---- the list of files ---- */

static void save(const char *name, const char *text)
{
    char *path = scratch_path(name);
    scratch_write(path, text, strlen(text));
    free(path);
}

static void make_folder(const char *name)
{
    char *path = scratch_path(name);
    assert_int_equal(mkdir(path, 0755), 0);
    free(path);
}

/* In the order of names, folders among them; hidden files and what is no text are left out; links to files are followed. */
static void a_folder_is_read_in_order(void **state)
{
    (void)state;
    static const char *const expected[] = {"in/B.txt", "in/a/1.txt", "in/a/2.jsonl", "in/a.txt", "in/link"};
    struct err err = {""};
    make_folder("in");
    make_folder("in/a");
    make_folder("in/.git");
    save("in/a.txt", "text");
    save("in/B.txt", "text");
    save("in/a/2.jsonl", "{}");
    save("in/a/1.txt", "text");
    save("in/.git/config", "hidden");
    save("in/.hidden", "hidden");
    char *binary = scratch_path("in/a/picture"), *link = scratch_path("in/link"),
         *dir = scratch_path("in/circle"), *path = scratch_path("in/"), *fifo = scratch_path("in/pipe");
    scratch_write(binary, "P\0\0", 3);
    assert_int_equal(symlink("a/1.txt", link), 0);
    assert_int_equal(symlink(".", dir), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    struct source *s = source_new();
    assert_int_equal(source_add(s, path, &err), 0);
    assert_int_equal(source_files(s), 5);
    assert_int_equal(source_left_out(s), 1);
    assert_int_equal(source_bytes(s), 18);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(source_path(s, i) + strlen(scratch) + 1, expected[i]);
    source_free(s);
    free(binary);
    free(link);
    free(dir);
    free(path);
    free(fifo);
}

/* Whole or begun; but not what somebody may have put there besides, nor a lone tokenizer or index. */
static void token_files_are_no_text(void **state)
{
    (void)state;
    static const char *const expected[] = {"beside/index/index.json", "beside/notes/notes.txt",
                                           "beside/notes/tokenizer.json", "beside/text.txt",
                                           "beside/tokenizer/tokenizer.json"};
    static const char *const folders[] = {"beside",           "beside/whole", "beside/begun",
                                          "beside/tokenizer", "beside/index", "beside/notes"};
    static const char *const files[] = {"beside/text.txt",
                                        "beside/whole/index.json",
                                        "beside/whole/tokenizer.json",
                                        "beside/whole/shard-00000.bin",
                                        "beside/begun/unfinished",
                                        "beside/begun/tokenizer.json",
                                        "beside/begun/tokenizer.json.tmp.7",
                                        "beside/tokenizer/tokenizer.json",
                                        "beside/index/index.json",
                                        "beside/notes/tokenizer.json",
                                        "beside/notes/notes.txt"};
    struct err err = {""};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make_folder(folders[i]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        save(files[i], "text");
    char *path = scratch_path("beside"), *whole = scratch_path("beside/whole");
    struct source *s = source_new();
    assert_int_equal(source_add(s, path, &err), 0);
    for (size_t i = 0; i < source_files(s) && i < 5; i++)
        assert_string_equal(source_path(s, i) + strlen(scratch) + 1, expected[i]);
    assert_int_equal(source_files(s), 5);
    assert_int_equal(source_add(s, whole, &err), -1);
    assert_contains(err.text, "holds no text files");
    source_free(s);
    free(whole);
    free(path);
}

static void what_cannot_be_text_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *content;
        size_t len;
        const char *says;
    } rows[] = {
        {"none.txt", NULL, 0, "cannot open"},
        {"zero.txt", "ab\0c", 4, "is not text"},
        {"/dev/null", NULL, 0, "neither a file nor a folder"},
        {"empty-folder", "", 0, "holds no text files"},
    };
    make_folder("empty-folder");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct source *s = source_new();
        char *path = rows[i].name[0] == '/' ? str_dup(rows[i].name) : scratch_path(rows[i].name);
        if (rows[i].len > 0)
            scratch_write(path, rows[i].content, rows[i].len);
        assert_int_equal(source_add(s, path, &err), -1);
        assert_contains(err.text, rows[i].says);
        assert_contains(err.text, path);
        free(path);
        source_free(s);
    }
}

/* ---- pieces ---- */

#define LARGE (5u << 20)

/* Text with much white space of all kinds, marks and apostrophes, from a seed. */
static char *make_text(uint64_t seed)
{
    static const char *const parts[] = {
        "\n",   "\n", "\n\n", " ", " ",  "  ",  "\t",       "\r\n",         "a",    "b",        "It's", "'S",
        "word", "7",  "1234", ".", "?!", "-\n", "\xc3\xa9", "\xe2\x80\xa8", "\xff", "\xc2\xa0", "'"};
    char *text = mem_zero(LARGE + 16, 1);
    for (size_t n = 0; n < LARGE;) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const char *part = parts[(seed >> 33) % (sizeof parts / sizeof *parts)];
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
    }
    text[LARGE] = '\0';
    return text;
}

static struct source *open_one(const char *path)
{
    struct err err = {""};
    struct source *s = source_new();
    if (source_add(s, path, &err) != 0)
        fail_msg("%s", err.text);
    return s;
}

/* Wherever text is cut, the pre-split of the parts is that of the whole. */
static void no_tokenizer_sees_a_cut(void **state)
{
    (void)state;
    char *text = make_text(3), *path = scratch_path("large.txt");
    scratch_write(path, text, LARGE);
    for (int kind = PRESPLIT_GPT2; kind <= PRESPLIT_LLAMA3; kind++) {
        struct err err = {""};
        struct piece p = {.last = false};
        struct source *s = open_one(path);
        size_t at = 0, count = 0;
        while (source_next(s, true, &p, &err)) {
            assert_int_equal(p.offset, at);
            const char *part = text + at;
            for (size_t i = 0; i < p.len; count++) {
                size_t whole = presplit_next((enum presplit)kind, text, LARGE, at + i);
                i = presplit_next((enum presplit)kind, part, p.len, i);
                assert_int_equal(at + i, whole);
            }
            at += p.len;
            assert_int_equal(p.last, at == LARGE);
        }
        assert_int_equal(at, LARGE);
        assert_true(count > 100000);
        source_free(s);
    }
    free(text);
    free(path);
}

static size_t count_pieces(const char *path, bool cut)
{
    struct err err = {""};
    struct piece p;
    size_t n = 0, bytes = 0;
    struct source *s = open_one(path);
    for (; source_next(s, cut, &p, &err); n++) {
        assert_true(p.len > 0);
        bytes += p.len;
    }
    assert_string_equal(err.text, "");
    assert_int_equal(bytes, source_bytes(s));
    source_free(s);
    return n;
}

static void text_is_cut_only_where_it_may_be(void **state)
{
    (void)state;
    char *text = make_text(4), *path = scratch_path("large.txt");
    scratch_write(path, text, LARGE);
    assert_in_range(count_pieces(path, true), 4, 5);
    assert_int_equal(count_pieces(path, false), 1);
    memset(text, 'a', LARGE); /* one word */
    scratch_write(path, text, LARGE);
    assert_int_equal(count_pieces(path, true), 1);
    scratch_write(path, text, (1 << 20) + 3); /* the last place for a cut would be behind the end */
    assert_int_equal(count_pieces(path, true), 1);
    text[(1 << 20) + 2] = '\n';
    scratch_write(path, text, (1 << 20) + 3);
    assert_int_equal(count_pieces(path, true), 1);
    free(text);
    free(path);
}

/* Places that look like the end of a line, but where a tokenizer might look at both sides; and where text may be cut ("|"). */
static const char *const places[] = {
    " \nb", "\t\nb",       "\r\nb", "\xe2\x80\xa8\nb", "\xc2\xa0\nb", "\xff\nb", "\n\nb", "x\n b", "x\n.b",
    "x\n7", "x\n\xc3\xa9", "x\n",   "x\n|y",           ".\n|Y",       "7\n|z",   "~\n|A", "!\n|Z"};

static void each_place_is_judged(void **state)
{
    (void)state;
    struct err err = {""};
    size_t size = 1 << 20;
    char *path = scratch_path("places.txt"), *text = mem_zero(size + 64, 1);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct piece p;
        const char *bar = strchr(places[i], '|');
        size_t before = bar ? (size_t)(bar - places[i]) : strlen(places[i]);
        memset(text, '-', size + 64);
        memcpy(text + size, places[i], before);
        if (bar)
            memcpy(text + size + before, bar + 1, strlen(bar + 1));
        scratch_write(path, text, size + 64);
        struct source *s = open_one(path);
        assert_true(source_next(s, true, &p, &err));
        if (p.len != (bar ? size + before : size + 64))
            fail_msg("place %zu: cut at %zu", i, p.len);
        source_free(s);
    }
    free(path);
    free(text);
}

/* JSON lines are cut at line ends only, and each place knows its line. */
static void lines_stay_whole(void **state)
{
    (void)state;
    struct err err = {""};
    struct piece p;
    char *text = mem_zero(LARGE, 1), *path = scratch_path("large.jsonl");
    size_t n = 0, lines = 0, at = 0;
    while (n + 4000 < LARGE) {
        size_t len = 1 + lines++ * 7919 % 3000;
        memset(text + n, 'x', len);
        text[n + len] = '\n';
        n += len + 1;
    }
    scratch_write(path, text, n);
    struct source *s = open_one(path);
    while (source_next(s, false, &p, &err)) {
        size_t before = 1;
        for (size_t i = 0; i < at; i++)
            before += text[i] == '\n';
        assert_true(p.jsonl);
        assert_int_equal(text[p.offset + p.len - 1], '\n');
        assert_int_equal(source_line(s, 0, p.offset), before);
        at += p.len;
    }
    assert_int_equal(at, n);
    source_free(s);
    free(text);
    free(path);
}

static void a_file_that_vanished_is_told(void **state)
{
    (void)state;
    struct err err = {""};
    struct piece p;
    save("gone.txt", "text");
    char *path = scratch_path("gone.txt");
    struct source *s = open_one(path);
    assert_int_equal(unlink(path), 0);
    assert_false(source_next(s, true, &p, &err));
    assert_contains(err.text, "gone.txt");
    source_free(s);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_read_in_order),
        cmocka_unit_test(token_files_are_no_text),
        cmocka_unit_test(what_cannot_be_text_is_refused),
        cmocka_unit_test(no_tokenizer_sees_a_cut),
        cmocka_unit_test(text_is_cut_only_where_it_may_be),
        cmocka_unit_test(each_place_is_judged),
        cmocka_unit_test(lines_stay_whole),
        cmocka_unit_test(a_file_that_vanished_is_told),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
