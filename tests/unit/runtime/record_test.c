#include "tests/unit/scratch.h"

#include "runtime/data/record.h"

static const struct {
    const char *line, *field;
    const char *prompt, *text; /* what is read, or */
    const char *says;          /* what is wrong */
} rows[] = {
    {"{\"text\":\"hello\"}", NULL, NULL, "hello", NULL},
    {"  {\"text\": \"\"}\r", NULL, NULL, "", NULL},
    {"{\"text\":\"t\",\"prompt\":\"p\",\"completion\":\"c\"}", NULL, NULL, "t", NULL},
    {"{\"prompt\":\"p\",\"completion\":\"c\"}", NULL, "p", "c", NULL},
    {"{\"content\":\"x\",\"text\":\"t\"}", "content", NULL, "x", NULL},
    {"{\"text\":\"\\u00e9\\n\"}", NULL, NULL, "\xc3\xa9\n", NULL},
    {"{\"hash\":18446744073709551615,\"text\":\"t\"}", NULL, NULL, "t", NULL},
    {"", NULL, NULL, NULL, NULL},
    {" \t\r", NULL, NULL, NULL, NULL},
    {"{\"text\":1}", NULL, NULL, NULL, "\"text\" that is no string"},
    {"{\"text\":null}", NULL, NULL, NULL, "\"text\" that is no string"},
    {"{\"prompt\":\"p\"}", NULL, NULL, NULL, "neither \"text\" nor"},
    {"{\"prompt\":1,\"completion\":\"c\"}", NULL, NULL, NULL, "\"prompt\" that is no string"},
    {"{\"prompt\":\"p\",\"completion\":[]}", NULL, NULL, NULL, "\"completion\" that is no string"},
    {"{\"text\":\"t\"}", "body", NULL, NULL, "no member \"body\""},
    {"[\"text\"]", NULL, NULL, NULL, "not a JSON object"},
    {"\"text\"", NULL, NULL, NULL, "not JSON"},
    {"{\"text\":\"a\"} x", NULL, NULL, NULL, "not JSON"},
    {"{\"text\":\"a\"", NULL, NULL, NULL, "not JSON"},
    {"{\"text\":\"\xff\"}", NULL, NULL, NULL, "not JSON"},
    {"{\"text\":\"\\ud800\"}", NULL, NULL, NULL, "not JSON"},
};

static void lines_become_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct record r;
        int rc = record_parse(rows[i].line, strlen(rows[i].line), rows[i].field, &r, &err);
        if ((rc != 0) != (rows[i].says != NULL))
            fail_msg("%s: %s", rows[i].line, rc == 0 ? "accepted" : err.text);
        if (rc != 0) {
            assert_contains(err.text, rows[i].says);
            continue;
        }
        assert_int_equal(r.empty, rows[i].text == NULL);
        if (rows[i].text)
            assert_string_equal(r.text, rows[i].text);
        assert_int_equal(r.prompt != NULL, rows[i].prompt != NULL);
        if (rows[i].prompt)
            assert_string_equal(r.prompt, rows[i].prompt);
        record_clear(&r);
    }
}

/* Zero bytes are bytes. */
static void zero_bytes_are_kept(void **state)
{
    (void)state;
    struct err err = {""};
    struct record r;
    static const char line[] = "{\"text\":\"a\\u0000b\"}";
    assert_int_equal(record_parse(line, sizeof line - 1, NULL, &r, &err), 0);
    assert_int_equal(r.text_len, 3);
    assert_memory_equal(r.text, "a\0b", 3);
    record_clear(&r);
    assert_int_equal(record_parse("\0", 1, NULL, &r, &err), -1);
}

static void endless_lines_are_refused(void **state)
{
    (void)state;
    struct err err = {""};
    struct record r;
    size_t len = RECORD_LINE_MAX + 1;
    char *line = mem_zero(len, 1);
    memset(line, 'x', len);
    assert_int_equal(record_parse(line, len, NULL, &r, &err), -1);
    assert_contains(err.text, "longer than 64 MiB");
    memset(line, '[', 100000);
    assert_int_equal(record_parse(line, 100000, NULL, &r, &err), -1);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_records),
        cmocka_unit_test(zero_bytes_are_kept),
        cmocka_unit_test(endless_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
