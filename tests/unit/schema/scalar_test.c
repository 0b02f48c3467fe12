/* Words as numbers, sizes and durations, and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "schema/scalar.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void words_are_classified_as_yaml_does(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum scalar_class class;
    } rows[] = {
        {"", SCALAR_NULL},
        {"~", SCALAR_NULL},
        {"null", SCALAR_NULL},
        {"NULL", SCALAR_NULL},
        {"nil", SCALAR_TEXT},
        {"y", SCALAR_BOOL},
        {"Yes", SCALAR_BOOL},
        {"oFF", SCALAR_TEXT},
        {"OFF", SCALAR_BOOL},
        {"True", SCALAR_BOOL},
        {"0", SCALAR_NUMBER},
        {"-7", SCALAR_NUMBER},
        {"12.50", SCALAR_NUMBER},
        {"007", SCALAR_ODD_NUMBER},
        {"+1", SCALAR_ODD_NUMBER},
        {".5", SCALAR_ODD_NUMBER},
        {"1.", SCALAR_ODD_NUMBER},
        {"1e3", SCALAR_ODD_NUMBER},
        {"1_0", SCALAR_ODD_NUMBER},
        {"0xfF", SCALAR_ODD_NUMBER},
        {"0b10", SCALAR_ODD_NUMBER},
        {"0o17", SCALAR_ODD_NUMBER},
        {"0xg", SCALAR_TEXT},
        {"1:30", SCALAR_ODD_NUMBER},
        {"1:30:59", SCALAR_ODD_NUMBER},
        {"1:", SCALAR_TEXT},
        {".inf", SCALAR_ODD_NUMBER},
        {"-.INF", SCALAR_ODD_NUMBER},
        {".nan", SCALAR_ODD_NUMBER},
        {"inf", SCALAR_TEXT},
        {"nan", SCALAR_TEXT},
        {".", SCALAR_TEXT},
        {"..", SCALAR_TEXT},
        {"-", SCALAR_TEXT},
        {"+", SCALAR_TEXT},
        {"--", SCALAR_TEXT},
        {"-c", SCALAR_TEXT},
        {"1.2.3", SCALAR_TEXT},
        {"10.0.0.1", SCALAR_TEXT},
        {"2026-11-29", SCALAR_TEXT},
        {"7b", SCALAR_TEXT},
        {"1e", SCALAR_TEXT},
        {"e3", SCALAR_TEXT},
        {"0x", SCALAR_TEXT},
        {"x", SCALAR_TEXT},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        if (scalar_classify(rows[i].word) != rows[i].class)
            fail_msg("\"%s\" is %d", rows[i].word, (int)scalar_classify(rows[i].word));
}

static void sizes_and_durations_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        int64_t size, duration; /* -1: refused */
    } rows[] = {
        {"0", 0, -1},
        {"0s", -1, 0},
        {"1", 1, -1},
        {"512MiB", INT64_C(512) << 20, -1},
        {"2GB", 2000000000, -1},
        {"3kB", 3000, -1},
        {"3KB", 3000, -1},
        {"1 GiB", INT64_C(1) << 30, -1},
        {"10B", 10, -1},
        {"1TiB", INT64_C(1) << 40, -1},
        {"1gib", -1, -1},
        {"1G", -1, -1},
        {"1.5GiB", -1, -1},
        {"-1GiB", -1, -1},
        {"GiB", -1, -1},
        {"", -1, -1},
        {"500ms", -1, 500},
        {"30s", -1, 30000},
        {"5m", -1, 300000},
        {"24h", -1, 86400000},
        {"14d", -1, 1209600000},
        {"1h30m", -1, -1},
        {"1w", -1, -1},
        {"0x10s", -1, -1},
        {"01s", -1, -1},
        {"9223372036854775807d", -1, -1},
        {"99999999999999999999TiB", -1, -1},
        {"1 0s", -1, -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t size = -1, duration = -1;
        int rc = scalar_size(rows[i].word, 0, INT64_MAX - 1, &size, NULL);
        if (size != rows[i].size || rc != (rows[i].size < 0 ? -1 : 0))
            fail_msg("\"%s\" is %lld bytes", rows[i].word, (long long)size);
        rc = scalar_duration(rows[i].word, 0, INT64_MAX - 1, &duration, NULL);
        if (duration != rows[i].duration || rc != (rows[i].duration < 0 ? -1 : 0))
            fail_msg("\"%s\" is %lld ms", rows[i].word, (long long)duration);
    }
}

static void rates_and_latencies_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        double rate, latency; /* -1: refused */
    } rows[] = {
        {"450GB/s", 450e9, -1},
        {"400Gb/s", 50e9, -1},
        {"7.143 GB/s", 7.143e9, -1},
        {"3TB/s", 3e12, -1},
        {"1B/s", 1, -1},
        {"0GB/s", -1, -1},
        {"-1GB/s", -1, -1},
        {"1.GB/s", -1, -1},
        {".5GB/s", -1, -1},
        {"1e3GB/s", -1, -1},
        {"9GB", -1, -1},
        {"infGB/s", -1, -1},
        {"450", -1, -1},
        {"9999999999TB/s", -1, -1},
        {"100ns", -1, 100e-9},
        {"2.5us", -1, 2.5e-6},
        {"2.5µs", -1, 2.5e-6},
        {"1ms", -1, 1e-3},
        {"0s", -1, 0},
        {"1001s", -1, -1},
        {"5", -1, -1},
        {"", -1, -1},
        {"us", -1, -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        double rate = 0, latency = 0;
        int rate_rc = scalar_rate(rows[i].word, &rate, NULL);
        int latency_rc = scalar_latency(rows[i].word, &latency, NULL);
        if (rate_rc != (rows[i].rate < 0 ? -1 : 0) || latency_rc != (rows[i].latency < 0 ? -1 : 0))
            fail_msg("\"%s\": %d %d", rows[i].word, rate_rc, latency_rc);
        assert_true(rate_rc < 0 || fabs(rate - rows[i].rate) <= 1e-12 * rate);
        assert_true(latency_rc < 0 || fabs(latency - rows[i].latency) <= 1e-12 * latency);
    }
    char word[SCALAR_PRINT_SIZE];
    assert_string_equal(scalar_print_rate(word, 50e9), "50GB/s");
    assert_string_equal(scalar_print_rate(word, 50e9 / 7), "7.14286GB/s");
    assert_string_equal(scalar_print_rate(word, 3e12), "3TB/s");
    assert_string_equal(scalar_print_rate(word, 0.5), "0.5B/s");
    assert_string_equal(scalar_print_latency(word, 2.5e-6), "2.5us");
    assert_string_equal(scalar_print_latency(word, 100e-9), "100ns");
    assert_string_equal(scalar_print_latency(word, 0), "0ns");
}

static void printed_values_read_back(void **state)
{
    (void)state;
    static const int64_t whole[] = {
        0, 1, 999, 1000, 1024, 1500, 60000, 3600000, 86400000, 86400001, INT64_C(3) << 40, 1000000007};
    static const double real[] = {0,         1,       0.1,         1e-8,    3e-4,          1e6,
                                  0.1 + 0.2, DBL_MIN, DBL_EPSILON, 1.0 / 3, 123456789.125, 1e22};
    char word[SCALAR_PRINT_SIZE];
    for (size_t i = 0; i < COUNT(whole); i++) {
        int64_t back = -1;
        assert_int_equal(scalar_size(scalar_print_size(word, whole[i]), 0, INT64_MAX, &back, NULL), 0);
        assert_int_equal(back, whole[i]);
        assert_int_equal(scalar_duration(scalar_print_duration(word, whole[i]), 0, INT64_MAX, &back, NULL),
                         0);
        assert_int_equal(back, whole[i]);
    }
    for (size_t i = 0; i < COUNT(real); i++) {
        double back = -1;
        assert_int_equal(scalar_real(scalar_print_real(word, real[i]), 0, DBL_MAX, &back, NULL), 0);
        assert_true(back == real[i]);
    }
    assert_string_equal(scalar_print_size(word, INT64_C(512) << 20), "512MiB");
    assert_string_equal(scalar_print_duration(word, 90 * 60000), "90m");
    assert_string_equal(scalar_print_real(word, 3e-4), "0.0003");
}

static void whole_numbers_stay_within_their_range(void **state)
{
    (void)state;
    int64_t n = 0;
    assert_int_equal(scalar_int("9223372036854775807", 0, INT64_MAX, &n, NULL), 0);
    assert_int_equal(n, INT64_MAX);
    assert_int_equal(scalar_int("9223372036854775808", 0, INT64_MAX, &n, NULL), -1);
    assert_int_equal(scalar_int("-9223372036854775809", INT64_MIN, 0, &n, NULL), -1);
    assert_int_equal(scalar_int("-1", 0, 5, &n, NULL), -1);
    assert_int_equal(scalar_int("-0", 0, 5, &n, NULL), 0);
    assert_int_equal(scalar_int("5 ", 0, 5, &n, NULL), -1);
    assert_int_equal(scalar_int("", 0, 5, &n, NULL), -1);
    assert_int_equal(scalar_int("-", 0, 5, &n, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_classified_as_yaml_does),
        cmocka_unit_test(sizes_and_durations_have_units),
        cmocka_unit_test(rates_and_latencies_have_units),
        cmocka_unit_test(printed_values_read_back),
        cmocka_unit_test(whole_numbers_stay_within_their_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
