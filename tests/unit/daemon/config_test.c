/* config: which source wins, what each setting accepts, and the sentence for each mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "daemon/config.h"
#include "daemon/secret.h"

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/belay-config-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unsetenv("BELAY_LISTEN");
    unsetenv("BELAY_HEARTBEAT_MS");
    unsetenv("BELAY_DIR");
    return fs_remove_tree(folder, NULL);
}

static void write_conf(const char *text)
{
    char *path = str_printf("%s/belay.conf", folder);
    assert_int_equal(fs_write_durable(path, text, strlen(text), 0644, NULL), 0);
    free(path);
}

/* Loads with --dir FOLDER and one more flag pair (or none). */
static int load(struct config *c, const char *flag, const char *value, struct err *err)
{
    char *argv[] = {(char *)"belayd", (char *)"--dir", folder, (char *)flag, (char *)value, NULL};
    memset(c, 0, sizeof(*c));
    return config_load(c, flag ? value ? 5 : 4 : 3, argv, err);
}

static void test_defaults(void **state)
{
    struct config c;
    struct core_config core;
    (void)state;
    core_config_defaults(&core);
    assert_int_equal(load(&c, NULL, NULL, NULL), 0);
    assert_string_equal(c.listen, "127.0.0.1");
    assert_int_equal(c.port, 0);
    assert_int_equal(c.heartbeat_ms, 1000);
    assert_int_equal(c.core.down_after_ms, core.down_after_ms);
    config_clear(&c);
}

/* Flags before variables before belay.conf. */
static void test_precedence(void **state)
{
    struct config c;
    (void)state;
    write_conf("listen = 127.0.0.3:3\nheartbeat_ms = 300\nsettle_ms=0\n");
    assert_int_equal(load(&c, NULL, NULL, NULL), 0);
    assert_true(c.port == 3 && c.heartbeat_ms == 300 && c.core.settle_ms == 0);
    config_clear(&c);
    setenv("BELAY_LISTEN", "127.0.0.2:2", 1);
    assert_int_equal(load(&c, NULL, NULL, NULL), 0);
    assert_true(c.port == 2 && c.heartbeat_ms == 300);
    config_clear(&c);
    assert_int_equal(load(&c, "--listen", "127.0.0.1:1", NULL), 0);
    assert_int_equal(c.port, 1);
    config_clear(&c);
}

static void test_dir_from_environment(void **state)
{
    char *argv[] = {(char *)"belayd", NULL}, *inner = str_printf("%s/a/b", folder);
    struct config c = {0};
    (void)state;
    setenv("BELAY_DIR", inner, 1);
    assert_int_equal(config_load(&c, 1, argv, NULL), 0);
    assert_string_equal(c.dir, inner);
    assert_int_equal(access(inner, F_OK), 0); /* made */
    config_clear(&c);
    free(inner);
}

static void test_listen(void **state)
{
    static const struct {
        const char *text, *host; /* NULL: refused */
        int port;
    } rows[] = {
        {"0.0.0.0:7070", "0.0.0.0", 7070},
        {"[::1]:7070", "::1", 7070},
        {"head:0", "head", 0},
        {"127.0.0.1", NULL, 0},
        {":7070", NULL, 0},
        {"127.0.0.1:", NULL, 0},
        {"127.0.0.1:x", NULL, 0},
        {"127.0.0.1:-1", NULL, 0},
        {"127.0.0.1:65536", NULL, 0},
        {"127.0.0.1:7 ", NULL, 0},

    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config c;
        struct err err = {0};
        int rc = load(&c, "--listen", rows[i].text, &err);
        if (rc != (rows[i].host ? 0 : -1))
            fail_msg("\"%s\": %d %s", rows[i].text, rc, err.text);
        if (rows[i].host) {
            assert_string_equal(c.listen, rows[i].host);
            assert_int_equal(c.port, rows[i].port);
        } else {
            assert_non_null(strstr(err.text, "must be HOST:PORT"));
        }
        config_clear(&c);
    }
}

static void test_spares_count_with(void **state)
{
    struct config c;
    (void)state;
    write_conf("failures_per_1000_node_days = 2.5\nnode_repair_ms = 21600000\n");
    assert_int_equal(load(&c, NULL, NULL, NULL), 0);
    assert_true(c.core.failures_per_node_day > 0.002499 && c.core.failures_per_node_day < 0.002501);
    assert_true(c.core.repair_days > 0.2499 && c.core.repair_days < 0.2501);
    config_clear(&c);
}

static void test_bad_lines(void **state)
{
    static const struct {
        const char *conf, *sentence; /* NULL: fine */
    } rows[] = {
        {"", NULL},
        {"# a comment\n\n  \t\n", NULL},
        {"heartbeat_ms=500", NULL},
        {"  heartbeat_ms  =  500  # comment\r\n", NULL},
        {"slots = 7\n", NULL}, /* another program's */
        {"heartbeat_ms\n", "belay.conf:1: \"heartbeat_ms\" is not \"key = value\""},
        {"\nheartbeat_ms = 5s\n",
         "belay.conf:2: heartbeat_ms is \"5s\"; it must be a whole number of at least 10"},
        {"heartbeat_ms = 9\n", "at least 10"},
        {"heartbeat_ms =\n", "whole number"},
        {"down_after_ms = 99999999999999999999\n", "whole number"},
        {"settle_ms = -1\n", "at least 0"},
        {"failures_per_1000_node_days = 2.34\nnode_repair_ms = 14400000\nkeep_ms = 0\n", NULL},
        {"failures_per_1000_node_days = many\n", "must be a number from 0 to 1000000, like 6.5"},
        {"failures_per_1000_node_days = -1\n", "must be a number"},
        {"failures_per_1000_node_days = nan\n", "must be a number"},
        {"node_repair_ms = 0\n", "at least 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config c;
        struct err err = {0};
        write_conf(rows[i].conf);
        int rc = load(&c, NULL, NULL, &err);
        if (rc != (rows[i].sentence ? -1 : 0) || (rows[i].sentence && !strstr(err.text, rows[i].sentence)))
            fail_msg("row %zu: %d %s", i, rc, err.text);
        config_clear(&c);
    }
}

static void test_flags(void **state)
{
    struct config c;
    struct err err = {0};
    (void)state;
    assert_int_equal(load(&c, "--bogus", NULL, &err), -1);
    assert_non_null(strstr(err.text, "--bogus"));
    config_clear(&c);
    assert_int_equal(load(&c, "word", NULL, &err), -1);
    assert_non_null(strstr(err.text, "\"word\""));
    config_clear(&c);
    assert_int_equal(load(&c, "--help", NULL, &err), 0);
    assert_true(c.help && !c.version);
    config_clear(&c);
}

static void write_cluster(const char *text)
{
    char *path = str_printf("%s/c.yaml", folder);
    assert_int_equal(fs_write_durable(path, text, strlen(text), 0644, NULL), 0);
    free(path);
}

static void test_cluster(void **state)
{
    struct config c;
    struct err err = {0};
    (void)state;
    char *path = str_printf("%s/c.yaml", folder);
    write_cluster("name: lab\npods: [{name: p, racks: r, nodes: n, devices: {type: cpu, per_node: 2}}]\n");
    assert_int_equal(load(&c, NULL, NULL, &err), 0);
    assert_null(c.core.cluster);
    config_clear(&c);
    assert_int_equal(load(&c, "--cluster", path, &err), 0);
    assert_string_equal(c.core.cluster->name, "lab");
    config_clear(&c);
    write_conf("cluster = c.yaml # from the folder of belay.conf\n");
    assert_int_equal(load(&c, NULL, NULL, &err), 0);
    assert_string_equal(c.core.cluster->name, "lab");
    assert_false(c.core.played);
    config_clear(&c);
    write_conf("cluster = c.yaml\nplay = 1\n");
    assert_int_equal(load(&c, NULL, NULL, &err), 0);
    assert_true(c.core.played);
    config_clear(&c);
    write_cluster("nam: lab\n");
    assert_int_equal(load(&c, NULL, NULL, &err), -1);
    assert_non_null(strstr(err.text, "belay.conf:1: the cluster file has 2 mistakes\n"));
    assert_non_null(strstr(err.text, "c.yaml:1:1: unknown field \"nam\"; did you mean \"name\"?"));
    config_clear(&c);
    assert_int_equal(load(&c, "--cluster", "/nowhere.yaml", &err), -1);
    assert_non_null(strstr(err.text, "/nowhere.yaml:1:1: cannot open /nowhere.yaml"));
    config_clear(&c);
    free(path);
}

/* ---- secret ---- */

static void test_secret_is_made_once(void **state)
{
    char *path = str_printf("%s/secret", folder);
    struct stat st;
    (void)state;
    char *first = secret_load(path, NULL), *second = secret_load(path, NULL);
    assert_non_null(first);
    assert_int_equal(strlen(first), 64);
    assert_string_equal(first, second);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    free(first);
    free(second);
    free(path);
}

static void test_bad_secrets(void **state)
{
    static const char good[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const struct {
        const char *text;
        mode_t mode;
        const char *sentence; /* NULL: fine */
    } rows[] = {
        {"G", 0600, NULL},
        {"G\n", 0600, NULL},
        {"G", 0640, "has mode 0640"},
        {"G", 0604, "has mode 0604"},
        {"G", 0400, NULL},
        {"", 0600, "does not hold"},
        {"abc", 0600, "does not hold"},
        {"gG", 0600, "does not hold"},
    };
    char *path = str_printf("%s/secret", folder);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = {0};
        const char *g = strchr(rows[i].text, 'G');
        char *text = g ? str_printf("%.*s%s%s", (int)(g - rows[i].text), rows[i].text, good, g + 1)
                       : str_dup(rows[i].text);
        unlink(path);
        assert_int_equal(fs_write_durable(path, text, strlen(text), 0600, NULL), 0);
        assert_int_equal(chmod(path, rows[i].mode), 0);
        char *secret = secret_load(path, &err);
        if (rows[i].sentence ? secret || !strstr(err.text, rows[i].sentence)
                             : !secret || strcmp(secret, good) != 0)
            fail_msg("row %zu: %s", i, err.text);
        free(secret);
        free(text);
    }
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_precedence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dir_from_environment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_listen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_spares_count_with, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flags, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cluster, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_secret_is_made_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_secrets, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
