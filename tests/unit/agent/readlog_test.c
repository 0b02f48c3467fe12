/* Reading a rank's log over its segments, holes and hostile folders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/readlog.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/fresh_dir.h"

static void put(const char *name, const char *text)
{
    char *path = str_printf("%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    free(path);
}

/* Rank 3: "0123456789" "abcdef", a hole of 4, "uvwxyz". Rank 31 must not be taken for it. */
static void put_segments(void)
{
    put("rank-00003.000000000000.log", "0123456789");
    put("rank-00003.000000000010.log", "abcdef");
    put("rank-00003.000000000020.log", "uvwxyz");
    put("rank-00031.000000000000.log", "not mine");
    put("rank-00003.12x.log", "no number");
    put("rank-00003.000000000099.txt", "no log");
}

static void reads_over_segments(void **state)
{
    (void)state;
    static const struct {
        int64_t offset;
        size_t limit;
        int64_t from;
        const char *data;
    } rows[] = {
        {0, 100, 0, "0123456789abcdef"}, /* ends at the hole */
        {0, 4, 0, "0123"},
        {8, 4, 8, "89ab"},
        {9, 1, 9, "9"},
        {10, 100, 10, "abcdef"},
        {16, 100, 20, "uvwxyz"}, /* starts after the hole */
        {18, 3, 20, "uvw"},
        {25, 100, 25, "z"},
        {26, 100, 26, ""}, /* at the end */
        {900, 100, 26, ""},
        {-1, 3, 23, "xyz"},
        {-1, 100, 20, "uvwxyz"}, /* the tail does not reach over a hole */
        {0, 0, 0, "0"},          /* a limit below 1 is 1 */
    };
    put_segments();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct readlog r;
        struct err err;
        assert_int_equal(readlog_read(dir, 3, rows[i].offset, rows[i].limit, &r, &err), 0);
        assert_false(r.missing);
        assert_int_equal(r.size, 26);
        assert_int_equal(r.offset, rows[i].from);
        assert_int_equal(r.next - r.offset, strlen(rows[i].data));
        assert_memory_equal(r.data, rows[i].data, strlen(rows[i].data));
        readlog_clear(&r);
    }
}

static void an_answer_has_at_most_one_mebibyte(void **state)
{
    (void)state;
    char *big = mem_zero(READLOG_MAX + 100, 1);
    struct readlog r;
    struct err err;
    memset(big, 'x', READLOG_MAX + 99);
    put("rank-00000.000000000000.log", big);
    assert_int_equal(readlog_read(dir, 0, 0, READLOG_MAX * 4, &r, &err), 0);
    assert_int_equal(r.next, READLOG_MAX);
    assert_int_equal(r.size, READLOG_MAX + 99);
    readlog_clear(&r);
    free(big);
}

static void a_missing_log_is_said(void **state)
{
    (void)state;
    struct readlog r;
    struct err err;
    assert_int_equal(readlog_read(dir, 5, 0, 10, &r, &err), 0);
    assert_true(r.missing);
    assert_int_equal(readlog_read("/nonexistent/belay", 5, 0, 10, &r, &err), 0);
    assert_true(r.missing);
}

static void links_and_pipes_are_not_followed(void **state)
{
    (void)state;
    struct readlog r;
    struct err err;
    char *link = str_printf("%s/rank-00007.000000000000.log", dir);
    char *pipe = str_printf("%s/rank-00008.000000000000.log", dir);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    for (int64_t rank = 7; rank <= 8; rank++) {
        assert_int_equal(readlog_read(dir, rank, 0, 10, &r, &err), 0);
        assert_true(r.missing);
    }
    char *folder = str_printf("%s/folder", dir);
    assert_int_equal(symlink("/tmp", folder), 0);
    assert_int_equal(readlog_read(folder, 0, 0, 10, &r, &err), -1);
    assert_non_null(strstr(err.text, folder));
    free(link);
    free(pipe);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_over_segments, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(an_answer_has_at_most_one_mebibyte, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(a_missing_log_is_said, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(links_and_pipes_are_not_followed, make_dir, drop_dir),
    };
    return cmocka_run_group_tests_name("readlog", tests, NULL, NULL);
}
