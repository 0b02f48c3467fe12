#include "common/fsutil.h"
#include "common/mem.h"
#include "scratch.h"

#include <signal.h>
#include <sys/resource.h>

#include "runtime/metrics.h"

static struct metrics *open_at(const char *path, int64_t resumed)
{
    struct err err;
    struct metrics *m = metrics_open(path, resumed, &err);
    if (!m)
        fail_msg("%s", err.text);
    return m;
}

static void append(struct metrics *m, int64_t step, double loss)
{
    struct err err;
    struct metrics_row row = {
        .step = step, .loss = loss, .grad_norm = loss / 3, .lr = 1e-3, .tokens = 1, .step_ms = 1.1f};
    assert_int_equal(metrics_append(m, &row, &err), 0);
}

static void assert_steps(const char *path, const char *steps)
{
    char *text = scratch_read(path), found[256] = "";
    assert_int_equal(strncmp(text, METRICS_HEADER "\n", strlen(METRICS_HEADER) + 1), 0);
    for (char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, "%ld ", strtol(line, NULL, 10));
    }
    assert_string_equal(found, steps);
    free(text);
}

static void test_cut_back(void **state)
{
    (void)state;
    char *path = scratch_path("metrics.csv");
    struct metrics *m = open_at(path, 0);
    for (int64_t s = 1; s <= 6; s++)
        append(m, s, 2.5);
    metrics_close(m);
    assert_steps(path, "1 2 3 4 5 6 ");
    m = open_at(path, 4);
    assert_steps(path, "1 2 3 4 ");
    append(m, 5, 2.5);
    metrics_close(m);
    m = open_at(path, 5);
    assert_steps(path, "1 2 3 4 5 ");
    metrics_close(m);
    metrics_close(open_at(path, 0));
    assert_steps(path, "");
    free(path);
}

static void test_damaged_files(void **state)
{
    (void)state;
    const struct {
        const char *content;
        int64_t resumed;
        const char *steps;
    } rows[] = {
        {METRICS_HEADER "\n1,a\n2,b\n3,tor", 3, "1 2 "},             /* a torn last line */
        {METRICS_HEADER "\n1,a\n2,b\n2,c\n1,d\n3,e\n", 3, "1 2 3 "}, /* doubled rows */
        {METRICS_HEADER "\n1,a\n9,x\n2,b\n3,c\n", 3, "1 2 3 "},      /* a stray later row */
        {METRICS_HEADER "\n1,a\nrubbish\n\n2,b\n", 2, "1 2 "},
        {METRICS_HEADER "\n1,a\n4,b\n", 4, "1 4 "}, /* a gap is told, not invented */
        {METRICS_HEADER, 2, ""},
        {"", 2, ""},
    };
    char *path = scratch_path("damaged.csv");
    static const char nul[] = METRICS_HEADER "\n1,a\n2,\0\n3,c\n\0\0\0\n4,d\n";
    scratch_write(path, nul, sizeof nul - 1); /* what a power cut leaves takes no other row along */
    metrics_close(open_at(path, 4));
    assert_steps(path, "1 3 4 ");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scratch_write(path, rows[i].content, strlen(rows[i].content));
        metrics_close(open_at(path, rows[i].resumed));
        assert_steps(path, rows[i].steps);
    }
    free(path);
}

/* A superseded process that still has the file open no longer reaches it. */
static void test_old_writer_is_cut_off(void **state)
{
    (void)state;
    char *path = scratch_path("fenced.csv");
    struct metrics *old = open_at(path, 0);
    append(old, 1, 2);
    struct metrics *new = open_at(path, 1);
    append(old, 2, 7);
    append(new, 2, 3);
    assert_steps(path, "1 2 ");
    char *text = scratch_read(path);
    assert_non_null(strstr(text, "2,3,"));
    free(text);
    metrics_close(old);
    metrics_close(new);
    free(path);
}

static void test_reads_back_bitwise(void **state)
{
    (void)state;
    struct err err;
    char *path = scratch_path("bits.csv");
    struct metrics *m = open_at(path, 0);
    struct metrics_row row = {.step = 1,
                              .loss = 2.0 / 3,
                              .grad_norm = 1e-300 / 7,
                              .lr = 0.1,
                              .tokens = UINT64_MAX,
                              .mfu = 1.0f / 3};
    assert_int_equal(metrics_append(m, &row, &err), 0);
    assert_int_equal(metrics_sync(m, &err), 0);
    metrics_close(m);
    char *text = scratch_read(path), *p = strchr(text, '\n') + 3;
    assert_true(strtod(p, &p) == row.loss);
    assert_true(strtod(p + 1, &p) == row.grad_norm);
    assert_true(strtod(p + 1, &p) == row.lr);
    assert_true(strtoull(p + 1, &p, 10) == row.tokens);
    p = strchr(strchr(p + 1, ',') + 1, ',');
    assert_true(strtof(p + 1, &p) == row.mfu);
    free(text);
    free(path);
}

static void test_foreign_columns_are_kept(void **state)
{
    (void)state;
    char *dir = scratch_path("foreign"), *path = str_printf("%s/metrics.csv", dir),
         *command = str_printf("cat %s/*.old", dir);
    fs_mkdirs(dir, 0755, NULL);
    scratch_write(path, "a,b\n1,2\n", 8);
    metrics_close(open_at(path, 1));
    assert_steps(path, "");
    FILE *old = popen(command, "re");
    char line[32];
    assert_non_null(fgets(line, sizeof line, old));
    assert_string_equal(line, "a,b\n");
    pclose(old);
    free(command);
    free(path);
    free(dir);
}

/* Rows that do not fit on the disk now are written when there is room, none twice. */
static void test_full_disk(void **state)
{
    (void)state;
    struct err err;
    struct rlimit old, tight;
    char *path = scratch_path("full.csv");
    struct metrics *m = open_at(path, 0);
    append(m, 1, 2);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = (struct rlimit){strlen(METRICS_HEADER) + 80, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    struct metrics_row row = {.step = 2, .loss = 1.0 / 3};
    assert_int_equal(metrics_append(m, &row, &err), -1);
    assert_contains(err.text, "kept in memory");
    assert_int_equal(metrics_sync(m, &err), -1);
    setrlimit(RLIMIT_FSIZE, &old);
    append(m, 3, 2);
    assert_int_equal(metrics_sync(m, &err), 0);
    metrics_close(m);
    assert_steps(path, "1 2 3 ");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_back),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_old_writer_is_cut_off),
        cmocka_unit_test(test_reads_back_bitwise),
        cmocka_unit_test(test_foreign_columns_are_kept),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
