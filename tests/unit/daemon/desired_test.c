/* The message of desired attempts: the same as encoding each order by itself, with the map lent instead of copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdlib.h>

#include "common/mem.h"
#include "daemon/desired.h"

enum { NODES = 3 };

static struct link_map_node *make_map(void)
{
    struct link_map_node *map = mem_zero(NODES, sizeof(*map));
    for (int i = 0; i < NODES; i++) {
        map[i] = (struct link_map_node){.node = str_printf("node%d", i),
                                        .addr = str_dup("10.0.0.1"),
                                        .port = 4000 + i,
                                        .master_port = 5000 + i,
                                        .ranks = mem_zero(1, sizeof(int64_t)),
                                        .n_ranks = 1};
        map[i].ranks[0] = i;
    }
    return map;
}

static struct link_order make_order(int64_t job, struct link_map_node *map)
{
    struct link_order o = {.job = job, .attempt = 1, .phase = map ? ORDER_GO : ORDER_PREPARE};
    o.token = str_dup("0123456789abcdef0123456789abcdef");
    o.name = str_dup("a \"quoted\" name}");
    o.user = str_dup("ann");
    o.cwd = str_dup("/home/ann");
    o.spec = str_dup("name: x\n");
    o.device = str_dup("cpu");
    o.reason = str_dup("");
    o.argv = mem_zero(2, sizeof(char *));
    o.argv[0] = str_dup("prog");
    o.argc = 1;
    o.world = o.nodes = NODES;
    o.ranks = mem_zero(1, sizeof(*o.ranks));
    o.n_ranks = 1;
    o.map = map;
    o.n_map = map ? NODES : 0;
    o.map_borrowed = true;
    return o;
}

static json_t *read_line(struct evbuffer *buffer)
{
    char *line = evbuffer_readln(buffer, NULL, EVBUFFER_EOL_LF);
    json_error_t why;
    assert_non_null(line);
    json_t *msg = json_loads(line, JSON_REJECT_DUPLICATES, &why);
    if (!msg)
        fail_msg("%s in %s", why.text, line);
    free(line);
    return msg;
}

static void test_same_as_encoded(void **state)
{
    (void)state;
    struct desired *d = desired_new();
    struct evbuffer *out = evbuffer_new();
    struct link_map_node *map = make_map();
    struct link_order orders[2] = {make_order(1, map), make_order(2, NULL)};
    for (size_t n = 0; n <= 2; n++) {
        struct desired_set set = {orders, n, (const int64_t[]){3, 700}, n};
        assert_true(desired_write(d, &set, out) != 0);
        json_t *got = read_line(out), *want = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(want, link_order_encode(&orders[i], NULL));
        assert_string_equal(json_string_value(json_object_get(got, "t")), "desired");
        assert_true(json_equal(json_object_get(got, "attempts"), want));
        json_t *keep = json_object_get(got, "keep");
        assert_int_equal(json_array_size(keep), n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(json_integer_value(json_array_get(keep, i)), set.keep[i]);
        json_decref(got);
        json_decref(want);
    }
    for (int i = 0; i < 2; i++)
        link_order_clear(&orders[i]);
    link_map_free(map, NODES);
    evbuffer_free(out);
    desired_free(d);
}

/* The hash tells messages apart; what was written outlives the writer and many other maps. */
static void test_hash_and_life(void **state)
{
    (void)state;
    struct desired *d = desired_new();
    struct evbuffer *out = evbuffer_new(), *rest = evbuffer_new();
    struct link_map_node *map = make_map();
    struct link_order o = make_order(7, map);
    struct desired_set set = {.orders = &o, .n_orders = 1, .keep = (const int64_t[]){7}};
    uint64_t with = desired_write(d, &set, out), again = desired_write(d, &set, rest);
    assert_true(with == again);
    o.n_map = 0;
    assert_true(desired_write(d, &set, rest) != with);
    o.n_map = NODES;
    set.n_keep = 1;
    assert_true(desired_write(d, &set, rest) != with);
    set.n_keep = 0;
    o.checkpoint = 1;
    assert_true(desired_write(d, &set, rest) != with);
    for (int64_t job = 100; job < 200; job++) {
        struct link_order other = make_order(job, map);
        (void)desired_write(d, &(struct desired_set){.orders = &other, .n_orders = 1}, rest);
        link_order_clear(&other);
    }
    desired_free(d);
    evbuffer_free(rest);
    json_t *got = read_line(out);
    const json_t *first = json_array_get(json_object_get(got, "attempts"), 0);
    assert_int_equal(json_array_size(json_object_get(first, "map")), NODES);
    json_decref(got);
    evbuffer_free(out);
    link_order_clear(&o);
    link_map_free(map, NODES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_encoded),
        cmocka_unit_test(test_hash_and_life),
    };
    return cmocka_run_group_tests_name("desired", tests, NULL, NULL);
}
