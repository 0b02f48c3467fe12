/* Flags and variables of belay-agent: what is taken, what is refused and with which words. */
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

#include "agent/settings.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/fresh_dir.h"

static char *secret;

static void put_secret(const char *text, mode_t mode)
{
    struct err err;
    assert_int_equal(fs_write_durable(secret, text, strlen(text), 0600, &err), 0);
    assert_int_equal(chmod(secret, mode), 0);
}

static int make_secret(void **state)
{
    if (make_dir(state) != 0)
        return -1;
    secret = str_printf("%s/secret", dir);
    put_secret("0123456789abcdef0123\n", 0600);
    return 0;
}

static int drop_secret(void **state)
{
    free(secret);
    return drop_dir(state);
}

static int read_with(struct settings *s, const char *controller, const char *flag, const char *value,
                     struct err *err)
{
    const char *const given[] = {"belay-agent",  "--dir",    "d",  "--name", "node1", "--secret-file", secret,
                                 "--controller", controller, flag, value};
    char *argv[12] = {NULL};
    int argc = flag ? 11 : 9;
    for (int i = 0; i < argc; i++)
        argv[i] = str_dup(given[i]);
    int rc = settings_read(s, argc, argv, err);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return rc;
}

static void controllers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        const char *host;
        int port;
    } rows[] = {
        {"head:7000", 0, "head", 7000},
        {"127.0.0.1:1", 0, "127.0.0.1", 1},
        {"[::1]:65535", 0, "::1", 65535},
        {"::1:7000", 0, "::1", 7000},
        {"head", -1, NULL, 0},
        {"head:", -1, NULL, 0},
        {":7000", -1, NULL, 0},
        {"head:0", -1, NULL, 0},
        {"head:65536", -1, NULL, 0},
        {"head:7000x", -1, NULL, 0},
        {"head:-1", -1, NULL, 0},
        {"head: 7", -1, NULL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct settings s;
        struct err err;
        assert_int_equal(read_with(&s, rows[i].text, NULL, NULL, &err), rows[i].rc);
        if (rows[i].rc == 0) {
            assert_string_equal(s.host, rows[i].host);
            assert_int_equal(s.port, rows[i].port);
            assert_string_equal(s.secret, "0123456789abcdef0123");
        }
        settings_clear(&s);
    }
}

static void refusals_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *value, *words;
    } rows[] = {
        {"--slots", "0", "from 1 to 1024"},
        {"--slots", "1025", "from 1 to 1024"},
        {"--slots", "2.5", "whole number"},
        {"--slots", "two", "whole number"},
        {"--name", "", "--name is missing"},
        {"--name", "a b", "not allowed"},
        {"--name", "-x", "not allowed"},
        {"--name", "../x", "not allowed"},
        {"--dir", "", "--dir is missing"},
        {"--speed", "9", "unknown flag"},
        {"--secret-file", "/nonexistent", "cannot open the secret file"},
        {"more", "words", "not understood"},
        {"--rack", "0123456789012345678901234567890123456789012345678901234567890123", "at most 63"},
        {"--nvlink", "0123456789012345678901234567890123456789012345678901234567890123", "at most 63"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct settings s;
        struct err err;
        assert_int_equal(read_with(&s, "h:1", rows[i].flag, rows[i].value, &err), -1);
        if (!strstr(err.text, rows[i].words))
            fail_msg("%s %s gave: %s", rows[i].flag, rows[i].value, err.text);
        settings_clear(&s);
    }
}

static void secrets(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mode_t mode;
        const char *words;
    } rows[] = {
        {"0123456789abcdef", 0600, NULL},           {"0123456789abcdef\r\n\n", 0400, NULL},
        {"0123456789abcdef", 0640, "chmod 600"},    {"0123456789abcdef", 0604, "chmod 600"},
        {"short\n", 0600, "no secret of at least"}, {"", 0600, "no secret of at least"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct settings s;
        struct err err;
        put_secret(rows[i].text, rows[i].mode);
        assert_int_equal(read_with(&s, "h:1", NULL, NULL, &err), rows[i].words ? -1 : 0);
        if (rows[i].words)
            assert_non_null(strstr(err.text, rows[i].words));
        else
            assert_string_equal(s.secret, "0123456789abcdef");
        settings_clear(&s);
    }
}

static void a_flag_wins_over_its_variable(void **state)
{
    (void)state;
    struct settings s;
    struct err err;
    assert_int_equal(setenv("BELAY_SLOTS", "7", 1), 0);
    assert_int_equal(setenv("BELAY_RACK", "r9", 1), 0);
    assert_int_equal(setenv("BELAY_NVLINK", "d1", 1), 0);
    assert_int_equal(read_with(&s, "h:1", "--slots", "3", &err), 0);
    assert_int_equal(s.slots, 3);
    assert_string_equal(s.rack, "r9");
    assert_string_equal(s.nvlink, "d1");
    assert_string_equal(s.pod, "");
    settings_clear(&s);
    assert_int_equal(unsetenv("BELAY_SLOTS"), 0);
    assert_int_equal(unsetenv("BELAY_RACK"), 0);
    assert_int_equal(unsetenv("BELAY_NVLINK"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(controllers, make_secret, drop_secret),
        cmocka_unit_test_setup_teardown(refusals_say_what_is_wrong, make_secret, drop_secret),
        cmocka_unit_test_setup_teardown(secrets, make_secret, drop_secret),
        cmocka_unit_test_setup_teardown(a_flag_wins_over_its_variable, make_secret, drop_secret),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
