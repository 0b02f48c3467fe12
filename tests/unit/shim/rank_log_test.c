/* rank_log: segments, their names, and what is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/shim/rank_log.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/fresh_dir.h"

static char *content(const char *name)
{
    char *path = str_printf("%s/%s", dir, name), *text = fs_read(path, 1 << 20, NULL, NULL);
    free(path);
    return text;
}

static size_t files(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void test_plain(void **state)
{
    (void)state;
    struct err err = {""};
    struct rank_log *log = rank_log_open(dir, 3, 0, &err);
    rank_log_write(log, "one\n", 4);
    rank_log_write(log, "two\n", 4);
    assert_int_equal(rank_log_size(log), 8);
    rank_log_close(log);
    char *text = content("rank-00003.000000000000.log");
    assert_string_equal(text, "one\ntwo\n");
    free(text);
    assert_int_equal(files(), 1);
}

static void test_rotation_keeps_offsets(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } kept[] = {{"rank-00000.000000000050.log", "fffffggggg"},
                {"rank-00000.000000000060.log", "ggggghhhhh"},
                {"rank-00000.000000000070.log", "hhhhhiiiii"},
                {"rank-00000.000000000080.log", "iiiii"}};
    struct err err = {""};
    struct rank_log *log = rank_log_open(dir, 0, 10, &err);
    rank_log_write(log, "aaaaa", 5);
    for (char c = 'b'; c <= 'i'; c++) {
        char text[10];
        memset(text, c, sizeof text);
        rank_log_write(log, text, sizeof text);
    }
    assert_int_equal(rank_log_size(log), 85);
    rank_log_close(log);
    assert_int_equal(files(), RANK_LOG_SEGMENTS);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char *text = content(kept[i].name);
        assert_non_null(text);
        assert_string_equal(text, kept[i].text);
        free(text);
    }
}

static void test_one_big_write(void **state)
{
    (void)state;
    struct err err = {""};
    char text[1000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 26);
    struct rank_log *log = rank_log_open(dir, 12345, 300, &err);
    rank_log_write(log, text, sizeof text);
    rank_log_close(log);
    assert_int_equal(files(), 4);
    char *last = content("rank-12345.000000000900.log");
    assert_int_equal(strlen(last), 100);
    assert_memory_equal(last, text + 900, 100);
    free(last);
}

static void test_no_folder(void **state)
{
    (void)state;
    struct err err = {""};
    assert_null(rank_log_open("/no/such/folder", 0, 0, &err));
    assert_non_null(strstr(err.text, "/no/such/folder"));
}

/* A file size limit stands for a full disk: what was lost is said once writing works again. */
static void test_loss_is_confessed(void **state)
{
    (void)state;
    struct err err = {""};
    struct rlimit was, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    struct rank_log *log = rank_log_open(dir, 1, 0, &err);
    assert_non_null(log);
    small = (struct rlimit){.rlim_cur = 6, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rank_log_write(log, "four", 4);
    rank_log_write(log, "12345", 5);
    rank_log_write(log, "gone", 4);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    rank_log_write(log, "back", 4);
    char *text = content("rank-00001.000000000000.log");
    assert_string_equal(text, "four12\n[belay: 7 bytes of output are missing here: File too large]\nback");
    assert_int_equal(rank_log_size(log), strlen(text));
    rank_log_close(log);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_rotation_keeps_offsets, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_one_big_write, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_no_folder, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_loss_is_confessed, make_dir, drop_dir)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
