/* format and progress: numbers and the progress line as people read them. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/format.h"
#include "launcher/progress.h"

static void numbers(void **state)
{
    static const struct {
        char *(*format)(double, char *);
        double value;
        const char *text;
    } rows[] = {
        {format_count, 0, "0"},
        {format_count, 950, "950"},
        {format_count, 12345, "12.3k"},
        {format_count, 999600, "1.00M"},
        {format_count, 124439808, "124M"},
        {format_count, 1.5, "1.5"},
        {format_count, NAN, ""},
        {format_loss, 2.31449, "2.3145"},
        {format_loss, 1e-5, "1.000e-05"},
        {format_loss, 123456, "1.235e+05"},
        {format_loss, INFINITY, ""},
        {format_loss, 0, "0.0000"},
        {format_percent, 0.987, "98.7%"},
        {format_percent, NAN, ""},
        {format_seconds, 245, "4m05s"},
        {format_seconds, -1, ""},
        {format_seconds, NAN, ""},
    };
    char out[FORMAT_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(rows[i].format(rows[i].value, out), rows[i].text);
}

static void bytes_and_steps(void **state)
{
    char out[FORMAT_SIZE];
    (void)state;
    assert_string_equal(format_bytes(512, out), "512 B");
    assert_string_equal(format_bytes(1536, out), "1.50 KiB");
    assert_string_equal(format_bytes(INT64_C(3) << 30, out), "3.00 GiB");
    assert_string_equal(format_bytes((INT64_C(1) << 20) - 1, out), "1.00 MiB");
    assert_string_equal(format_bytes(INT64_MAX, out), "8.00 EiB");
    assert_string_equal(format_bytes(-1, out), "");
    assert_string_equal(format_step(120, 200, out), "120/200");
    assert_string_equal(format_step(120, -1, out), "120");
    assert_string_equal(format_step(-1, 200, out), "");
}

static void times(void **state)
{
    char out[FORMAT_SIZE];
    (void)state;
    assert_int_equal(format_parse_time("1970-01-02T00:00:01.250Z"), 86401250);
    assert_int_equal(format_parse_time("2026-01-31T12:00:00Z"), INT64_C(1769860800000));
    assert_int_equal(format_parse_time("yesterday"), -1);
    assert_int_equal(format_parse_time("2026-01-31T12:00:00.1234Z"), -1);
    assert_int_equal(format_parse_time(NULL), -1);
    setenv("TZ", "UTC", 1);
    assert_string_equal(format_time("2026-01-31T12:00:00.123Z", out), "01-31 12:00:00");
    assert_string_equal(format_time("odd", out), "odd");
    assert_string_equal(format_time(NULL, out), "");
}

static void line_is(const char *job_text, double rate, size_t bar, bool utf8, const char *expected)
{
    json_t *job = json_loads(job_text, 0, NULL);
    assert_non_null(job);
    char *line = progress_text(job, rate, bar, utf8);
    assert_string_equal(line, expected);
    free(line);
    json_decref(job);
}

static void progress_line(void **state)
{
    const char *running =
        "{\"name\":\"s\",\"state\":\"running\",\"phase\":\"training\",\"step\":50,\"steps\":200,\"loss\":2.5,"
        "\"tokens_per_second\":12345}";
    (void)state;
    line_is(running, 2, 8, true, "s  ━━╌╌╌╌╌╌  50/200  25%  loss 2.5000  12.3k tokens/s  eta 1m15s");
    line_is(running, 0, 4, false, "s  #---  50/200  25%  loss 2.5000  12.3k tokens/s");
    line_is(running, 2, 0, true, "s  step 50/200  25%  loss 2.5000  12.3k tokens/s  eta 1m15s");
    line_is("{\"name\":\"s\",\"state\":\"restarting\",\"step\":50,\"steps\":200}", 2, 0, true,
            "s  step 50/200  25%  restarting");
    line_is("{\"name\":\"s\",\"state\":\"running\",\"step\":null}", 0, 8, true, "s  running");
    line_is("{\"name\":\"\\u001b[2J\",\"state\":\"running\",\"phase\":\"loading\"}", 0, 8, true,
            "?[2J  loading");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(bytes_and_steps),
                                       cmocka_unit_test(times), cmocka_unit_test(progress_line)};
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
