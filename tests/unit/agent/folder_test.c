/* Attempt folders: names, scanning, state, and what must survive a crash. */
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

#include "agent/folder.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/fresh_dir.h"

static int make_attempts_dir(void **state)
{
    if (make_dir(state) != 0)
        return -1;
    char *attempts = str_printf("%s/attempts", dir);
    int rc = mkdir(attempts, 0700);
    free(attempts);
    return rc;
}

static void put(const char *path, const char *name, const char *text)
{
    struct err err;
    char *file = str_printf("%s/%s", path, name);
    assert_int_equal(fs_write_durable(file, text, strlen(text), 0600, &err), 0);
    free(file);
}

static void only_plain_numbers_are_attempts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int rc;
        int64_t job, attempt;
    } rows[] = {
        {"7.2", 0, 7, 2},     {"9223372036854775807.1", 0, INT64_MAX, 1},
        {"7", -1, 0, 0},      {"7.", -1, 0, 0},
        {".2", -1, 0, 0},     {"0.1", -1, 0, 0},
        {"7.0", -1, 0, 0},    {"07.1", -1, 0, 0},
        {"-7.1", -1, 0, 0},   {"7.2 ", -1, 0, 0},
        {"7.2.3", -1, 0, 0},  {" 7.2", -1, 0, 0},
        {"+7.2", -1, 0, 0},   {"99999999999999999999.1", -1, 0, 0},
        {"../7.2", -1, 0, 0}, {"", -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct folder_id id;
        assert_int_equal(folder_parse(rows[i].name, &id), rows[i].rc);
        if (rows[i].rc == 0) {
            assert_int_equal(id.job, rows[i].job);
            assert_int_equal(id.attempt, rows[i].attempt);
        }
    }
}

static void scan_finds_attempts_and_leaves_the_rest(void **state)
{
    (void)state;
    struct folder_id *ids;
    size_t n;
    struct err err;
    char *one = folder_path(dir, 7, 2), *two = folder_path(dir, 8, 1),
         *other = str_printf("%s/attempts/notes", dir);
    assert_int_equal(folder_make(one, &err), 0);
    assert_int_equal(folder_make(two, &err), 0);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(folder_scan(dir, &ids, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0].job + ids[1].job, 15);
    free(ids);
    assert_int_equal(folder_make(one, &err), -1); /* never twice */
    assert_non_null(strstr(err.text, "File exists"));
    assert_int_equal(folder_remove(one, &err), 0);
    assert_int_equal(folder_scan(dir, &ids, &n, &err), 0);
    assert_int_equal(n, 1);
    free(ids);
    assert_int_equal(access(other, F_OK), 0);
    free(one);
    free(two);
    free(other);
}

static void a_removal_cut_short_is_finished(void **state)
{
    (void)state;
    struct folder_id *ids;
    size_t n;
    struct err err;
    char *hidden = str_printf("%s/attempts/.removed.7.2", dir);
    assert_int_equal(mkdir(hidden, 0700), 0);
    put(hidden, "state.json", "{}");
    assert_int_equal(folder_scan(dir, &ids, &n, &err), 0);
    assert_int_equal(n, 0);
    free(ids);
    folder_clean(dir);
    assert_int_equal(access(hidden, F_OK), -1);
    free(hidden);
}

#define REPORT "\"job\":7,\"attempt\":2,\"rev\":5,\"phase\":\"running\",\"ranks\":[]"
#define SHIM   "{\"pid\":77,\"start\":88,\"boot\":\"b\"}"

static void state_is_read_as_far_as_it_goes(void **state)
{
    (void)state;
    static const struct {
        const char *state, *pid;
        int rc;
        bool report, shim;
        int64_t pid_is;
    } rows[] = {
        {NULL, NULL, 0, false, false, 0},
        {NULL, SHIM, 0, false, true, 77},
        {"{" REPORT "}", NULL, 0, true, false, 0},
        {"{" REPORT ",\"shim\":" SHIM ",\"scratch\":\"/dev/shm/x\",\"cgroup\":null}", NULL, 0, true, true,
         77},
        {"{" REPORT ",\"shim\":{\"pid\":99,\"start\":1,\"boot\":\"b\"}}", SHIM, 0, true, true, 99},
        {"{" REPORT, SHIM, -1, false, true, 77},
        {"[]", SHIM, -1, false, true, 77},
        {"", NULL, -1, false, false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct folder_state s;
        struct err err;
        char *path = folder_path(dir, 7, (int64_t)i + 1);
        assert_int_equal(folder_make(path, &err), 0);
        if (rows[i].state)
            put(path, "state.json", rows[i].state);
        if (rows[i].pid)
            put(path, "shim.pid", rows[i].pid);
        assert_int_equal(folder_read_state(path, &s, &err), rows[i].rc);
        assert_int_equal(s.has_report, rows[i].report);
        assert_int_equal(s.has_shim, rows[i].shim);
        assert_int_equal(s.has_shim ? s.shim.pid : 0, rows[i].pid_is);
        if (rows[i].rc < 0)
            assert_non_null(strstr(err.text, "state.json"));
        folder_state_clear(&s);
        free(path);
    }
}

static void a_written_report_is_read_back(void **state)
{
    (void)state;
    struct link_report report = {
        .job = 7, .attempt = 9, .rev = 6, .phase = REPORT_LOST, .reason = "belay-shim died"};
    struct folder_state s;
    struct err err;
    char *path = folder_path(dir, 7, 9);
    assert_int_equal(folder_make(path, &err), 0);
    assert_int_equal(folder_write_report(path, &report, &err), 0);
    assert_int_equal(folder_read_state(path, &s, &err), 0);
    assert_true(s.has_report);
    assert_false(s.has_shim);
    assert_int_equal(s.report.phase, REPORT_LOST);
    assert_string_equal(s.report.reason, report.reason);
    folder_state_clear(&s);
    free(path);
}

static void only_scratch_of_the_attempt_may_be_removed(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool ok;
    } rows[] = {
        {"/dev/shm/belay-7.2-abcdef", true},
        {"/tmp/belay-7.2-abcdef", true},
        {"/dev/shm/belay-7.20-abcdef", false},
        {"/dev/shm/belay-17.2-abcdef", false},
        {"/dev/shm", false},
        {"/", false},
        {"belay-7.2-abcdef", false},
        {"", false},
        {"/home/../etc/belay-7.2-x", false},
        {"/dev/shm/belay-7.2-x/..", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(folder_is_scratch(rows[i].path, (struct folder_id){7, 2}), rows[i].ok);
}

static void the_tail_of_the_shims_log_fits(void **state)
{
    (void)state;
    char tail[16];
    folder_log_tail(dir, tail, sizeof tail);
    assert_string_equal(tail, "");
    put(dir, "shim.log", "first line\nsecond\tline\n\n");
    folder_log_tail(dir, tail, sizeof tail);
    assert_string_equal(tail, "second line");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_numbers_are_attempts),
        cmocka_unit_test_setup_teardown(scan_finds_attempts_and_leaves_the_rest, make_attempts_dir, drop_dir),
        cmocka_unit_test_setup_teardown(a_removal_cut_short_is_finished, make_attempts_dir, drop_dir),
        cmocka_unit_test_setup_teardown(state_is_read_as_far_as_it_goes, make_attempts_dir, drop_dir),
        cmocka_unit_test_setup_teardown(a_written_report_is_read_back, make_attempts_dir, drop_dir),
        cmocka_unit_test(only_scratch_of_the_attempt_may_be_removed),
        cmocka_unit_test_setup_teardown(the_tail_of_the_shims_log_fits, make_attempts_dir, drop_dir),
    };
    return cmocka_run_group_tests_name("folder", tests, NULL, NULL);
}
