/* The hash map against a plain array, with many puts and removals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/core/directory.h"
#include "daemon/core/idmap.h"

enum { KEYS = 3000 };

static char *key_of(int i, char *out, size_t size)
{
    (void)snprintf(out, size, "node%d", i);
    return out;
}

static void compare(const struct idmap *map, void *const *model)
{
    char key[32];
    size_t count = 0;
    for (int i = 0; i < KEYS; i++) {
        assert_ptr_equal(idmap_get(map, key_of(i, key, sizeof(key))), model[i]);
        count += model[i] != NULL;
    }
    assert_int_equal(idmap_count(map), count);
}

static void test_against_a_model(void **state)
{
    (void)state;
    static void *model[KEYS];
    static int values[KEYS];
    struct idmap *map = idmap_new();
    uint64_t x = 1;
    char key[32];
    for (int n = 0; n < 60000; n++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        int i = (int)((x >> 33) % KEYS);
        bool put = (x >> 20) % 3 != 0;
        model[i] = put ? &values[(x >> 40) % KEYS] : NULL;
        if (put)
            idmap_put(map, key_of(i, key, sizeof(key)), model[i]);
        else
            idmap_remove(map, key_of(i, key, sizeof(key)));
        if (n % 6000 == 0)
            compare(map, model);
    }
    compare(map, model);
    idmap_free(map);
}

static void test_directories(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"/home/ann", "ckpt", "/home/ann/ckpt"},
        {"/home/ann/", "./a//b/", "/home/ann/a/b"},
        {"/home/ann", "/x/y", "/x/y"},
        {"/home/ann", "../bob/./c/..", "/home/bob"},
        {"/", "../../..", "/"},
        {"/a", "..b/...", "/a/..b/..."},
        {"/a", "", "/a"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *got = directory_absolute(rows[i][0], rows[i][1]);
        assert_string_equal(got, rows[i][2]);
        free(got);
    }
    assert_null(directory_absolute("/a", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_model),
        cmocka_unit_test(test_directories),
    };
    return cmocka_run_group_tests_name("core idmap", tests, NULL, NULL);
}
