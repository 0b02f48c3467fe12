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
    const char *bad[] = {
        "{",
        "{}",
        "{\"nodes\":2,\"slots\":1,\"racks\":1,\"rack_of_node\":[0]}",
        "{\"nodes\":1,\"slots\":1,\"racks\":1,\"rack_of_node\":[7]}",
        "{\"nodes\":-1,\"slots\":1,\"racks\":1,\"rack_of_node\":[]}",
        "{\"nodes\":1,\"slots\":1,\"racks\":1,\"rack_of_node\":[0],\"file\":\"/f\"}",
        "{\"nodes\":1,\"slots\":1,\"racks\":1,\"rack_of_node\":[0],\"file\":\"/f\",\"names\":[\"a/b\"],"
        "\"slots_of_node\":[1]}",
        "{\"nodes\":1,\"slots\":1,\"racks\":1,\"rack_of_node\":[0],\"file\":\"/f\",\"names\":[\"a\"],"
        "\"slots_of_node\":[0]}"};
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

/* ---- of a cluster file ---- */

static struct cluster_spec *parse(const char *text)
{
    static struct job_diagnostics d;
    struct cluster_spec *spec = NULL;
    if (cluster_spec_parse(text, strlen(text), "f", &spec, &d) != 0)
        fail_msg("%s", d.text[0]);
    return spec;
}

#define CPU "devices: {type: cpu, per_node: 4}\n"

static void nodes_of_a_file(void **state)
{
    char dir[] = "/tmp/belay-cli-XXXXXX";
    struct cluster c = {0}, back;
    struct err err = {""};
    (void)state;
    struct cluster_spec *spec =
        parse(CPU "pods:\n  - {name: p2, racks: \"r[1-2]\", nodes: \"n[7-10]\"}\n"
                  "  - {name: p1, racks: r9, nodes: \"m[1-2]\", devices: {per_node: 2}}\n");
    assert_int_equal(cluster_ask_file(&c, spec, "/f", 4, &err), 0);
    racks_are(&c, "0011"); /* m1 m2 | n7 n8 */
    assert_string_equal(c.name[3], "n8");
    assert_int_equal(cluster_node_slots(&c, 0), 2);
    assert_int_equal(cluster_node_slots(&c, 3), 4);
    assert_int_equal(cluster_ask_file(&c, spec, "/f", 5, &err), 0);
    assert_int_equal(cluster_ask_file(&c, spec, "/f", 0, &err), 0);
    racks_are(&c, "00112");
    assert_int_equal(c.racks, 3);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(cluster_write(dir, &c, &err), 0);
    assert_int_equal(cluster_read(dir, &back, &err), 0);
    assert_string_equal(back.file, "/f");
    char *name = cluster_node_name(&back, 4);
    assert_string_equal(name, "n9");
    assert_int_equal(cluster_node_slots(&back, 1), 2);
    free(name);
    cluster_clear(&back);
    cluster_clear(&c);
    cluster_spec_free(spec);
    fs_remove_tree(dir, NULL);
}

static void files_that_do_not_fit(void **state)
{
    struct cluster c = {0}, plain = {0};
    struct err err = {""};
    (void)state;
    struct cluster_spec *small = parse(CPU "pods: [{name: p, racks: r, nodes: \"n[1-3]\"}]\n");
    struct cluster_spec *other = parse(CPU "pods: [{name: p, racks: r, nodes: \"n[2-4]\"}]\n");
    struct cluster_spec *large = parse(CPU "pods: [{name: p, racks: r, nodes: \"n[1-65]\"}]\n");
    const struct {
        struct cluster *c;
        const struct cluster_spec *spec;
        const char *path;
        int64_t nodes;
        const char *says; /* NULL: fine */
    } rows[] = {
        {&c, small, "/f", 4, "/f lists 3 nodes, not 4"},
        {&c, large, "/f", 0, "/f lists 65 nodes; on one host the first 64"},
        {&c, large, "/f", 65, "the first 64"},
        {&c, small, "/f", 2, NULL},
        {&c, small, "/f", 1, "cannot shrink to 1"},
        {&c, small, "/g", 2, "not made from /g but from /f"},
        {&c, other, "/f", 2, "/f has changed: its node number 1 is n2 now, and was n1"},
        {&plain, small, "/f", 2, "not made from /f but without a cluster file"},
    };
    assert_int_equal(cluster_ask(&plain, 2, 2, 1, 8, &err), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int rc = cluster_ask_file(rows[i].c, rows[i].spec, rows[i].path, rows[i].nodes, &err);
        if (rc != (rows[i].says ? -1 : 0) || (rows[i].says && !strstr(err.text, rows[i].says)))
            fail_msg("row %zu: %d %s", i, rc, err.text);
    }
    cluster_clear(&c);
    cluster_clear(&plain);
    cluster_spec_free(small);
    cluster_spec_free(other);
    cluster_spec_free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_time), cmocka_unit_test(later),
                                       cmocka_unit_test(kept_on_disk), cmocka_unit_test(nodes_of_a_file),
                                       cmocka_unit_test(files_that_do_not_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
