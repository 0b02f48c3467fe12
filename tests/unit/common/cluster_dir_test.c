/* cluster_dir: one rule for every program on where a cluster's folder is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cluster_dir.h"
#include "common/mem.h"

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void the_first_that_is_set_counts(void **state)
{
    static const struct {
        const char *flag, *dir, *state, *home;
        const char *root, *user; /* NULL = refused */
    } rows[] = {
        {"/flag", "/dir", "/state", "/home", "/flag", "/flag"},
        {NULL, "/dir", "/state", "/home", "/dir", "/dir"},
        {NULL, "", "/state", "/home", "/var/lib/belay", "/state/belay"},
        {NULL, NULL, "/state", "/home", "/var/lib/belay", "/state/belay"},
        {NULL, NULL, "relative", "/home", "/var/lib/belay", "/home/.local/state/belay"},
        {NULL, NULL, NULL, "/home", "/var/lib/belay", "/home/.local/state/belay"},
        {NULL, NULL, NULL, NULL, "/var/lib/belay", NULL},
        {"", "/dir", "/state", "/home", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        set("BELAY_DIR", rows[i].dir);
        set("XDG_STATE_HOME", rows[i].state);
        set("HOME", rows[i].home);
        const char *want = geteuid() == 0 ? rows[i].root : rows[i].user;
        char *dir = cluster_dir_choose(rows[i].flag, &err);
        if (want)
            assert_string_equal(dir, want);
        else
            assert_true(!dir && err.text[0]);
        free(dir);
    }
}

static void not_as_root(void **state)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(seteuid(65534), 0);
    the_first_that_is_set_counts(state);
    assert_int_equal(seteuid(0), 0);
}

static void a_relative_name_is_completed(void **state)
{
    (void)state;
    char *cwd = getcwd(NULL, 0), *want = str_printf("%s/here", cwd), *dir = cluster_dir_choose("here", NULL);
    assert_string_equal(dir, want);
    free(dir);
    free(want);
    assert_int_equal(chdir("/"), 0);
    dir = cluster_dir_choose("here", NULL);
    assert_string_equal(dir, "/here");
    free(dir);
    assert_int_equal(chdir(cwd), 0);
    free(cwd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_that_is_set_counts),
                                       cmocka_unit_test(not_as_root),
                                       cmocka_unit_test(a_relative_name_is_completed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
