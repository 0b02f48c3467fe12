#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/scratch.h"

#include <float.h>
#include <math.h>
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

/* The field of row 1 under a name of the header, as text. */
static const char *field(const char *text, const char *name)
{
    static char out[64];
    const char *head = text, *row = strchr(text, '\n') + 1;
    size_t len = strlen(name);
    while (strncmp(head, name, len) != 0 || (head[len] != ',' && head[len] != '\n')) {
        head += strcspn(head, ",\n");
        row += strcspn(row, ",\n");
        if (*head++ != ',' || *row++ != ',')
            fail_msg("no column %s", name);
    }
    snprintf(out, sizeof out, "%.*s", (int)strcspn(row, ",\n"), row);
    return out;
}

static void test_every_column(void **state)
{
    (void)state;
    struct err err;
    char *path = scratch_path("columns.csv");
    struct metrics *m = open_at(path, 0);
    const struct metrics_row row = {.step = 1,
                                    .loss = 2,
                                    .grad_norm = 3,
                                    .lr = 4,
                                    .tokens = 5,
                                    .step_ms = 6,
                                    .tokens_per_second = 7,
                                    .mfu = 8,
                                    .compute_ms = 9,
                                    .wait_ms = 10,
                                    .attempt = 11,
                                    .hfu = 12,
                                    .router_loss = 2.0 / 3,
                                    .held_loss = 1.0 / 3,
                                    .skipped = true,
                                    .bubble = 15,
                                    .axis_ms = {16, 17, 18, 19, 20},
                                    .axis_mib = {21, 22, 23, 24, 25},
                                    .staged_ms = 26,
                                    .durable_ms = 27};
    const struct {
        const char *name;
        double value;
    } columns[] = {{"step", 1},       {"loss", 2},
                   {"grad_norm", 3},  {"lr", 4},
                   {"tokens", 5},     {"step_ms", 6},
                   {"mfu", 8},        {"tokens_per_second", 7},
                   {"compute_ms", 9}, {"wait_ms", 10},
                   {"attempt", 11},   {"hfu", 12},
                   {"skipped", 1},    {"router_loss", 2.0 / 3},
                   {"bubble", 15},    {"held_loss", 1.0 / 3},
                   {"tp_ms", 16},     {"cp_ms", 17},
                   {"pp_ms", 18},     {"ep_ms", 19},
                   {"dp_ms", 20},     {"tp_mib", 21},
                   {"cp_mib", 22},    {"pp_mib", 23},
                   {"ep_mib", 24},    {"dp_mib", 25},
                   {"staged_ms", 26}, {"durable_ms", 27}};
    assert_int_equal(metrics_append(m, &row, &err), 0);
    metrics_close(m);
    char *text = scratch_read(path);
    size_t commas = 0;
    for (const char *c = METRICS_HEADER; *c; c++)
        commas += *c == ',';
    assert_int_equal(commas + 1, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (strtod(field(text, columns[i].name), NULL) != columns[i].value)
            fail_msg("%s is %s", columns[i].name, field(text, columns[i].name));
    free(text);
    free(path);
}

/* Without an evaluation its field is empty, and numbers of any length leave the row whole. */
static void test_empty_and_long_fields(void **state)
{
    (void)state;
    struct err err;
    char *path = scratch_path("long.csv");
    struct metrics *m = open_at(path, 0);
    struct metrics_row row = {.step = 1, .held_loss = NAN};
    assert_int_equal(metrics_append(m, &row, &err), 0);
    row = (struct metrics_row){.step = INT64_MAX,
                               .loss = -DBL_MAX,
                               .grad_norm = -DBL_MIN,
                               .lr = -DBL_MAX,
                               .tokens = UINT64_MAX,
                               .attempt = INT64_MIN,
                               .router_loss = -DBL_MAX,
                               .held_loss = -DBL_MIN};
    for (size_t i = 0; i < METRICS_AXES; i++)
        row.axis_ms[i] = row.axis_mib[i] = -FLT_MIN;
    assert_int_equal(metrics_append(m, &row, &err), 0);
    metrics_close(m);
    assert_steps(path, "1 9223372036854775807 ");
    char *text = scratch_read(path);
    assert_string_equal(field(text, "held_loss"), "");
    assert_string_equal(field(text, "skipped"), "0");
    free(text);
    free(path);
}

/* What a resumed run's guard is told of the rows before. */
static void test_recall(void **state)
{
    (void)state;
    char *path = scratch_path("recall.csv");
    struct metrics_past past[3];
    assert_int_equal(metrics_recall(path, past, 3), 0);
    struct metrics *m = open_at(path, 0);
    assert_int_equal(metrics_recall(path, past, 3), 0);
    for (int64_t step = 1; step <= 5; step++)
        append(m, step, step == 4 ? (double)NAN : 1.0 / (double)step);
    metrics_close(m);
    assert_int_equal(metrics_recall(path, past, 0), 0);
    assert_int_equal(metrics_recall(path, past, 3), 3);
    assert_int_equal(past[0].step, 3);
    assert_true(past[0].loss == 1.0 / 3 && past[0].grad_norm == past[0].loss / 3);
    assert_int_equal(past[1].step, 4);
    assert_true(isnan(past[1].loss));
    assert_int_equal(past[2].step, 5);
    FILE *torn = fopen(path, "ae");
    fputs("6,1,2,3\nrubbish\n7,x,1\n8,1.5,2", torn); /* the last line has no end */
    fclose(torn);
    assert_int_equal(metrics_recall(path, past, 3), 3);
    assert_int_equal(past[2].step, 6);
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
        cmocka_unit_test(test_every_column),
        cmocka_unit_test(test_empty_and_long_fields),
        cmocka_unit_test(test_recall),
        cmocka_unit_test(test_foreign_columns_are_kept),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
