/* scalar: see scalar.h. Units are tables, largest first, used for reading and printing. */
#include "schema/scalar.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/diag.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

struct unit {
    const char *word;
    int64_t factor;
    bool print; /* used for printing too */
};

static const struct unit sizes[] = {
    {"TiB", INT64_C(1) << 40, true},
    {"TB", INT64_C(1000000000000), false},
    {"GiB", INT64_C(1) << 30, true},
    {"GB", 1000000000, false},
    {"MiB", 1 << 20, true},
    {"MB", 1000000, false},
    {"KiB", 1 << 10, true},
    {"kB", 1000, false},
    {"KB", 1000, false},
    {"B", 1, false},
    {"", 1, true},
};

static const struct unit durations[] = {
    {"d", 86400000, true}, {"h", 3600000, true}, {"m", 60000, true}, {"s", 1000, true}, {"ms", 1, true},
};

/* Units of real numbers; those that are printed come first, largest first. */
struct real_unit {
    const char *word;
    double factor;
};

static const struct real_unit rates[] = {
    {"TB/s", 1e12}, {"GB/s", 1e9},      {"MB/s", 1e6},     {"kB/s", 1e3},     {"B/s", 1},
    {"KB/s", 1e3},  {"Tb/s", 1e12 / 8}, {"Gb/s", 1e9 / 8}, {"Mb/s", 1e6 / 8}, {"kb/s", 1e3 / 8},
};
#define RATES_PRINTED 5

static const struct real_unit latencies[] = {
    {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"µs", 1e-6},
};
#define LATENCIES_PRINTED 4

/* ---- what YAML 1.1 makes of a word ---- */

static bool is_one_of(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

static bool is_bool(const char *text)
{
    static const char *const words[] = {"y",  "Y",  "yes",  "Yes",  "YES",  "n",     "N",     "no",
                                        "No", "NO", "true", "True", "TRUE", "false", "False", "FALSE",
                                        "on", "On", "ON",   "off",  "Off",  "OFF"};
    return is_one_of(text, words, COUNT(words));
}

static bool is_null(const char *text)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    return is_one_of(text, words, COUNT(words));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_sign(const char *c)
{
    return *c == '-' || *c == '+' ? c + 1 : c;
}

static const char *skip_digits(const char *c)
{
    return c + strspn(c, "0123456789");
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)? */
static bool is_simple_number(const char *text)
{
    const char *c = *text == '-' ? text + 1 : text;
    if (!is_digit(*c) || (*c == '0' && is_digit(c[1])))
        return false;
    c = skip_digits(c);
    if (*c == '.' && is_digit(c[1]))
        c = skip_digits(c + 1);
    return *c == '\0';
}

/* Digits and underscores with at most one point and an exponent: 1_000, 010, +1, .5, 1., 1e3. */
static bool is_loose_decimal(const char *text)
{
    const char *c = skip_sign(text);
    if (!is_digit(*c) && !(*c == '.' && is_digit(c[1])))
        return false;
    c += strspn(c, "0123456789_");
    if (*c == '.')
        c += 1 + strspn(c + 1, "0123456789_");
    if ((*c == 'e' || *c == 'E') && is_digit(*skip_sign(c + 1)))
        c = skip_digits(skip_sign(c + 1));
    return *c == '\0';
}

static bool is_radix(const char *text)
{
    const char *c = skip_sign(text);
    if (*c != '0' || !c[1] || !strchr("xXoObB", c[1]) || !c[2])
        return false;
    const char *digits = c[1] == 'x' || c[1] == 'X'   ? "0123456789abcdefABCDEF_"
                         : c[1] == 'b' || c[1] == 'B' ? "01_"
                                                      : "01234567_";
    return c[2 + strspn(c + 2, digits)] == '\0';
}

/* 1:30, which YAML 1.1 reads as ninety. */
static bool is_sexagesimal(const char *text)
{
    const char *c = skip_sign(text);
    if (!is_digit(*c) || !strchr(c, ':'))
        return false;
    for (c = skip_digits(c); *c == ':'; c = skip_digits(c + 1))
        if (!is_digit(c[1]))
            return false;
    return *c == '\0';
}

static bool is_infinite_or_nan(const char *text)
{
    static const char *const words[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
    return is_one_of(skip_sign(text), words, COUNT(words));
}

enum scalar_class scalar_classify(const char *text)
{
    if (is_null(text))
        return SCALAR_NULL;
    if (is_bool(text))
        return SCALAR_BOOL;
    if (is_simple_number(text))
        return SCALAR_NUMBER;
    if (is_loose_decimal(text) || is_radix(text) || is_sexagesimal(text) || is_infinite_or_nan(text))
        return SCALAR_ODD_NUMBER;
    return SCALAR_TEXT;
}

/* ---- reading ---- */

/* Whole decimal number at text; *end is what follows it. errno is ERANGE when it is too large for int64, else 0. False when no
 * such number begins here. */
static bool read_whole(const char *text, int64_t *out, const char **end)
{
    const char *digits = *text == '-' ? text + 1 : text;
    if (!is_digit(*digits) || (*digits == '0' && is_digit(digits[1])))
        return false;
    *end = skip_digits(digits);
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return true;
}

static const char *whole_hint(const char *text)
{
    if (is_radix(text))
        return " (write it in decimal)";
    if (is_loose_decimal(text) && strchr(text, '_'))
        return " (write it without _)";
    if (is_loose_decimal(text) && !strpbrk(text, ".eE") && skip_sign(text)[0] == '0' &&
        is_digit(skip_sign(text)[1]))
        return " (write it without the leading 0)";
    return "";
}

int scalar_int(const char *text, int64_t min, int64_t max, int64_t *out, struct err *err)
{
    const char *end = NULL;
    int64_t n = 0;
    if (read_whole(text, &n, &end) && errno == 0 && *end == '\0' && n >= min && n <= max) {
        *out = n;
        return 0;
    }
    char quoted[DIAG_QUOTE_SIZE];
    return err_set(err, "must be a whole number from %" PRId64 " to %" PRId64 ", not %s%s", min, max,
                   diag_quote(quoted, text), whole_hint(text));
}

int scalar_real(const char *text, double low, double high, double *out, struct err *err)
{
    bool shaped = is_loose_decimal(text) && !strchr(text, '_');
    double value = shaped ? strtod(text, NULL) : NAN;
    if (value >= low && value <= high) {
        *out = value + 0.0; /* -0 becomes 0, so that one value has one spelling */
        return 0;
    }
    char quoted[DIAG_QUOTE_SIZE], from[SCALAR_PRINT_SIZE], to[SCALAR_PRINT_SIZE];
    return err_set(err, "must be a number from %s to %s, not %s", scalar_print_real(from, low),
                   scalar_print_real(to, high), diag_quote(quoted, text));
}

int scalar_bool(const char *text, bool *out, struct err *err)
{
    *out = strcmp(text, "true") == 0;
    if (*out || strcmp(text, "false") == 0)
        return 0;
    char quoted[DIAG_QUOTE_SIZE];
    return err_set(err, "must be true or false, not %s", diag_quote(quoted, text));
}

static const struct unit *find_unit(const char *word, const struct unit *units, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(units[i].word, word) == 0)
            return &units[i];
    return NULL;
}

/* False unless text is a whole number with a unit; a value beyond int64 gives INT64_MAX. */
static bool read_with_unit(const char *text, const struct unit *units, size_t count, int64_t *out)
{
    const char *end = NULL;
    if (!read_whole(text, out, &end))
        return false;
    end += strspn(end, " ");
    const struct unit *unit = find_unit(end, units, count);
    if (unit && (errno || __builtin_mul_overflow(*out, unit->factor, out)))
        *out = *text == '-' ? INT64_MIN : INT64_MAX; /* outside every range that a field has */
    return unit != NULL;
}

int scalar_size(const char *text, int64_t min, int64_t max, int64_t *out, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE], from[SCALAR_PRINT_SIZE], to[SCALAR_PRINT_SIZE];
    int64_t value = 0;
    if (!read_with_unit(text, sizes, COUNT(sizes), &value))
        return err_set(err, "must be a size such as 512MiB, 1GiB or 2GB, not %s", diag_quote(quoted, text));
    if (value < min || value > max)
        return err_set(err, "must be a size from %s to %s, not %s", scalar_print_size(from, min),
                       scalar_print_size(to, max), diag_quote(quoted, text));
    *out = value;
    return 0;
}

int scalar_duration(const char *text, int64_t min, int64_t max, int64_t *out_ms, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE], from[SCALAR_PRINT_SIZE], to[SCALAR_PRINT_SIZE];
    int64_t value = 0;
    if (!read_with_unit(text, durations, COUNT(durations), &value))
        return err_set(err, "must be a duration such as 500ms, 30s, 5m, 24h or 14d, not %s%s",
                       diag_quote(quoted, text), is_simple_number(text) ? " (the unit is missing)" : "");
    if (value < min || value > max)
        return err_set(err, "must be a duration from %s to %s, not %s", scalar_print_duration(from, min),
                       scalar_print_duration(to, max), diag_quote(quoted, text));
    *out_ms = value;
    return 0;
}

/* False unless text is a number such as 12.5 with one of the units, and the result within low..high. */
static bool read_real_unit(const char *text, const struct real_unit *units, size_t count, double low,
                           double high, double *out)
{
    const char *end = skip_digits(text);
    if (end == text || (*end == '.' && !is_digit(end[1])))
        return false;
    if (*end == '.')
        end = skip_digits(end + 1);
    double number = strtod(text, NULL);
    end += strspn(end, " ");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(units[i].word, end) != 0)
            continue;
        *out = number * units[i].factor;
        return *out >= low && *out <= high;
    }
    return false;
}

int scalar_rate(const char *text, double *out_bytes_per_s, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    if (read_real_unit(text, rates, COUNT(rates), 1, 1e18, out_bytes_per_s))
        return 0;
    return err_set(err, "must be a rate such as 450GB/s or 400Gb/s (bits), not %s", diag_quote(quoted, text));
}

int scalar_latency(const char *text, double *out_s, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    if (read_real_unit(text, latencies, COUNT(latencies), 0, 1000, out_s))
        return 0;
    return err_set(err, "must be a latency such as 100ns, 2.5us or 1ms, not %s", diag_quote(quoted, text));
}

/* ---- printing ---- */

static const char *print_with_unit(char out[SCALAR_PRINT_SIZE], int64_t value, const struct unit *units,
                                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool last = i + 1 == count;
        if (units[i].print && (last || (value != 0 && value % units[i].factor == 0))) {
            (void)snprintf(out, SCALAR_PRINT_SIZE, "%" PRId64 "%s", value / units[i].factor, units[i].word);
            break;
        }
    }
    return out;
}

const char *scalar_print_size(char out[SCALAR_PRINT_SIZE], int64_t bytes)
{
    return print_with_unit(out, bytes, sizes, COUNT(sizes));
}

const char *scalar_print_duration(char out[SCALAR_PRINT_SIZE], int64_t ms)
{
    return print_with_unit(out, ms, durations, COUNT(durations));
}

const char *scalar_print_real(char out[SCALAR_PRINT_SIZE], double value)
{
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(out, SCALAR_PRINT_SIZE, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return out;
}

/* In the first unit that leaves a number of at least 1, else in the last. */
static const char *print_real_unit(char out[SCALAR_PRINT_SIZE], double value, const struct real_unit *units,
                                   size_t count)
{
    size_t i = 0;
    while (i + 1 < count && value / units[i].factor < 0.9999995) /* what %.6g prints as 1 is one */
        i++;
    (void)snprintf(out, SCALAR_PRINT_SIZE, "%.6g%s", value / units[i].factor, units[i].word);
    return out;
}

const char *scalar_print_rate(char out[SCALAR_PRINT_SIZE], double bytes_per_s)
{
    return print_real_unit(out, bytes_per_s, rates, RATES_PRINTED);
}

const char *scalar_print_latency(char out[SCALAR_PRINT_SIZE], double seconds)
{
    return print_real_unit(out, seconds, latencies, LATENCIES_PRINTED);
}
