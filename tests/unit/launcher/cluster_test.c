/* cluster: which racks, and what may change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "launcher/cluster.h"

static void racks_are(const struct cluster *c, const char *expected)
{
    char got[64] = "";
    for (int64_t i = 0; i < c->nodes; i++)
        got[i] = (char)('0' + c->rack[i]);
    assert_string_equal(got, expected);
}

static void first_time(void **state)
{
    static const struct {
        int64_t nodes, slots, racks, cores;
        int64_t want_slots;
        const char *want_racks;
    } rows[] = {{0, 0, 0, 8, 0, "0"},    {4, 2, 2, 8, 2, "0011"}, {5, 1, 2, 8, 1, "00011"},
                {4, 0, 3, 8, 2, "0012"}, {4, 0, 1, 2, 1, "0000"}, {1, 3, 1, 8, 3, "0"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cluster c = {0};
        assert_int_equal(cluster_ask(&c, rows[i].nodes, rows[i].slots, rows[i].racks, rows[i].cores, NULL),
                         0);
        assert_int_equal(c.slots, rows[i].want_slots);
        racks_are(&c, rows[i].want_racks);
        cluster_clear(&c);
    }
    struct cluster c = {0};
    assert_int_equal(cluster_ask(&c, 1, 1, 2, 8, NULL), -1);
    cluster_clear(&c);
}

static void later(void **state)
{
    struct cluster c = {0};
    struct err err = {""};
    (void)state;
    assert_int_equal(cluster_ask(&c, 4, 2, 2, 8, &err), 0);
    assert_int_equal(cluster_ask(&c, 0, 0, 0, 8, &err), 0);
    racks_are(&c, "0011");
    assert_int_equal(cluster_ask(&c, 3, 0, 0, 8, &err), -1);
    assert_non_null(strstr(err.text, "cannot shrink to 3 nodes"));
    assert_int_equal(cluster_ask(&c, 4, 3, 0, 8, &err), -1);
    assert_non_null(strstr(err.text, "2 slots a node"));
    assert_int_equal(cluster_ask(&c, 4, 2, 1, 8, &err), -1);
    assert_int_equal(cluster_ask(&c, 4, 2, 3, 8, &err), -1); /* a rack without a node */
    assert_int_equal(cluster_ask(&c, 6, 0, 0, 8, &err), 0);  /* to all racks */
    racks_are(&c, "001101");
    assert_int_equal(cluster_ask(&c, 8, 2, 3, 8, &err), 0); /* to the new rack */
    racks_are(&c, "00110122");
    cluster_clear(&c);
}

static void kept_on_disk(void **state)
{
    char dir[] = "/tmp/belay-cli-XXXXXX";
    struct cluster c = {0}, back;
    struct err err = {""};
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(cluster_read(dir, &back, &err), 0);
    assert_int_equal(back.nodes, 0);
    assert_int_equal(cluster_ask(&c, 4, 2, 2, 8, &err), 0);
    assert_int_equal(cluster_write(dir, &c, &err), 0);
    assert_int_equal(cluster_read(dir, &back, &err), 0);
    assert_int_equal(back.slots, 2);
    racks_are(&back, "0011");
    cluster_clear(&back);
    char *path = str_printf("%s/cluster.json", dir);
    const char *bad[] = {"{", "{}", "{\"nodes\":2,\"slots\":1,\"racks\":1,\"rack_of_node\":[0]}",
                         "{\"nodes\":1,\"slots\":1,\"racks\":1,\"rack_of_node\":[7]}",
                         "{\"nodes\":-1,\"slots\":1,\"racks\":1,\"rack_of_node\":[]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(fs_write_durable(path, bad[i], strlen(bad[i]), 0600, &err), 0);
        assert_int_equal(cluster_read(dir, &back, &err), -1);
        assert_non_null(strstr(err.text, path));
        cluster_clear(&back);
    }
    free(path);
    cluster_clear(&c);
    fs_remove_tree(dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_time), cmocka_unit_test(later),
                                       cmocka_unit_test(kept_on_disk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
