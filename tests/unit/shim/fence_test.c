/* fence: a whole tree of nodes in one process; messages wait in a queue and are delivered in a seeded random order (each link
 * keeps its own order). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/shim/fence.h"
#include "agent/shim/tree.h"
#include "common/mem.h"

#define NODES_MAX 1100

struct message {
    struct message *next;
    int64_t from, to;
    bool up;
    char *key, *data;
    size_t len;
    int status;
};

struct node {
    int64_t me;
    struct fences *fences;
    int done, status;
    char *data;
    size_t len;
};

static struct node node[NODES_MAX];
static struct rankmap map;
static struct message *queue;
static uint64_t seed;

static void enqueue(int64_t from, int64_t to, bool up, const char *key, int status, const void *data,
                    size_t len)
{
    struct message *m = mem_zero(1, sizeof *m), **at = &queue;
    *m = (struct message){.from = from,
                          .to = to,
                          .up = up,
                          .key = str_dup(key),
                          .data = mem_zero(len + 1, 1),
                          .len = len,
                          .status = status};
    if (len)
        memcpy(m->data, data, len);
    while (*at)
        at = &(*at)->next;
    *at = m;
}

static void up(void *ctx, const char *key, int status, const void *data, size_t len)
{
    const struct node *n = ctx;
    enqueue(n->me, tree_parent(n->me), true, key, status, data, len);
}

static void down(void *ctx, int64_t child, const char *key, int status, const void *data, size_t len)
{
    const struct node *n = ctx;
    enqueue(n->me, child, false, key, status, data, len);
}

static void done(void *ctx, void *waiter, int status, void *data, size_t len)
{
    struct node *n = ctx;
    assert_ptr_equal(waiter, n);
    n->done++;
    n->status = status;
    free(n->data);
    n->data = data;
    n->len = len;
}

static const struct fence_ops OPS = {.up = up, .down = down, .done = done};

static uint64_t next_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

/* Takes a message that is the first of its link. */
static struct message *take(void)
{
    size_t n = 0;
    for (struct message *m = queue; m; m = m->next)
        n++;
    struct message **at = &queue;
    for (size_t skip = n ? next_random() % n : 0; skip > 0; skip--)
        at = &(*at)->next;
    for (struct message **first = &queue; *first != *at; first = &(*first)->next)
        if ((*first)->from == (*at)->from && (*first)->to == (*at)->to) {
            at = first;
            break;
        }
    struct message *m = *at;
    *at = m->next;
    return m;
}

static void deliver_all(void)
{
    struct err err = {""};
    while (queue) {
        struct message *m = take();
        if (m->up)
            assert_int_equal(
                fences_from_child(node[m->to].fences, m->from, m->key, m->status, m->data, m->len, &err), 0);
        else
            fences_from_parent(node[m->to].fences, m->key, m->status, m->data, m->len);
        free(m->key);
        free(m->data);
        free(m);
    }
}

/* One rank a node. */
static void build(int64_t nodes)
{
    map = (struct rankmap){.world = nodes,
                           .nodes = nodes,
                           .node_of = mem_zero((size_t)nodes, sizeof(int32_t)),
                           .local = mem_zero((size_t)nodes, sizeof(int32_t))};
    for (int64_t n = 0; n < nodes; n++) {
        map.node_of[n] = (int32_t)n;
        node[n] = (struct node){.me = n};
        node[n].fences = fences_new(n, &map, &OPS, &node[n]);
    }
}

static void clear(void)
{
    for (int64_t n = 0; n < map.nodes; n++) {
        fences_free(node[n].fences, -1);
        free(node[n].data);
    }
    rankmap_clear(&map);
}

static void enter(int64_t n, const char *key, int status, const char *data)
{
    fences_local(node[n].fences, key, status, data, strlen(data), &node[n]);
}

static void test_all_get_everything_in_node_order(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 33, 34, 70, 1090};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        build(sizes[k]);
        char *expected = mem_zero((size_t)sizes[k] * 8 + 1, 1);
        for (int64_t n = 0; n < sizes[k]; n++)
            snprintf(expected + 8 * n, 9, "<%06d>", (int)n);
        for (int round = 1; round <= 2; round++) {
            for (int64_t n = sizes[k] - 1; n >= 0; n--) { /* the last first */
                char text[16];
                snprintf(text, sizeof text, "<%06d>", (int)n);
                enter(n, "*", 0, text);
            }
            deliver_all();
            for (int64_t n = 0; n < sizes[k]; n++) {
                assert_int_equal(node[n].done, round);
                assert_int_equal(node[n].status, 0);
                assert_int_equal(node[n].len, 8 * sizes[k]);
                assert_memory_equal(node[n].data, expected, node[n].len);
                assert_int_equal(fences_outstanding(node[n].fences), 0);
            }
        }
        free(expected);
        clear();
    }
}

static void test_waits_for_the_last(void **state)
{
    (void)state;
    build(35);
    for (int64_t n = 0; n < 34; n++)
        enter(n, "*", 0, "x");
    deliver_all();
    assert_int_equal(node[0].done + node[33].done, 0);
    enter(34, "*", 0, "x");
    deliver_all();
    assert_int_equal(node[0].done + node[33].done + node[34].done, 3);
    clear();
}

static void test_one_bad_status_reaches_all(void **state)
{
    (void)state;
    build(40);
    for (int64_t n = 0; n < 40; n++)
        enter(n, "*", n == 37 ? -52 : 0, "");
    deliver_all();
    for (int64_t n = 0; n < 40; n++)
        assert_int_equal(node[n].status, -52);
    assert_int_equal(node[5].len, 0);
    clear();
}

static void test_some_ranks_only(void **state)
{
    (void)state;
    build(70);
    enter(34, "2,34,66", 0, "B"); /* 34 is below 1, which takes no part; 66 is below 2 */
    enter(66, "2,34,66", 0, "C");
    enter(2, "2,34,66", 0, "A");
    deliver_all();
    for (int64_t n = 0; n < 70; n++) {
        assert_int_equal(node[n].done, n == 2 || n == 34 || n == 66);
        assert_int_equal(fences_outstanding(node[n].fences), 0);
    }
    assert_memory_equal(node[34].data, "ABC", 3);
    clear();
}

/* A child may be a round ahead: its parent is still to hear of its own ranks. */
static void test_next_round_is_kept(void **state)
{
    (void)state;
    struct err err = {""};
    build(2);
    uint32_t packed[2][3] = {{1, 4, 0x31313131}, {1, 4, 0x32323232}};
    assert_int_equal(fences_from_child(node[0].fences, 1, "*", 0, packed[0], 12, &err), 0);
    assert_int_equal(fences_from_child(node[0].fences, 1, "*", 0, packed[1], 12, &err), 0);
    enter(0, "*", 0, "a");
    assert_int_equal(node[0].done, 1);
    assert_memory_equal(node[0].data, "a1111", 5);
    enter(0, "*", 0, "b");
    assert_int_equal(node[0].done, 2);
    assert_memory_equal(node[0].data, "b2222", 5);
    while (queue) {
        struct message *m = take();
        free(m->key);
        free(m->data);
        free(m);
    }
    clear();
}

static void test_two_keys_at_once(void **state)
{
    (void)state;
    build(3);
    enter(1, "0,1", 0, "p");
    enter(1, "*", 0, "q");
    enter(0, "*", 0, "r");
    enter(0, "0,1", 0, "s");
    deliver_all();
    assert_int_equal(node[0].done, 1);
    assert_memory_equal(node[0].data, "sp", 2);
    enter(2, "*", 0, "t");
    deliver_all();
    assert_int_equal(node[0].done, 2);
    assert_memory_equal(node[2].data, "rqt", 3);
    clear();
}

static void test_failing_answers_those_who_wait(void **state)
{
    (void)state;
    build(2);
    enter(1, "*", 0, "x");
    fences_fail(node[1].fences, -101);
    assert_int_equal(node[1].done, 1);
    assert_int_equal(node[1].status, -101);
    fences_from_parent(node[1].fences, "*", 0, "late", 4); /* nobody waits any more */
    assert_int_equal(node[1].done, 1);
    while (queue) {
        struct message *m = take();
        free(m->key);
        free(m->data);
        free(m);
    }
    clear();
}

static void test_rubbish_is_refused(void **state)
{
    (void)state;
    struct err err = {""};
    build(2);
    uint32_t too_long[2] = {1, 5};
    assert_int_equal(fences_from_child(node[0].fences, 1, "*", 0, too_long, sizeof too_long, &err), -1);
    assert_int_equal(fences_from_child(node[0].fences, 1, "*", 0, "abc", 3, &err), -1);
    assert_int_equal(fences_from_child(node[0].fences, 1, "5,1", 0, NULL, 0, &err), -1);
    assert_int_equal(fences_from_child(node[1].fences, 0, "*", 0, NULL, 0, &err), -1);
    clear();
}

static void test_keys(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        bool valid;
    } rows[] = {{"*", true},   {"0", true},   {"0,5,7", true}, {"", false},
                {"0,", false}, {",0", false}, {"5,5", false},  {"7,5", false},
                {"**", false}, {"-1", false}, {"1 2", false},  {" 1", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(fence_key_valid(rows[i].key), rows[i].valid);
}

int main(void)
{
    seed = 20261129;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_get_everything_in_node_order),
                                       cmocka_unit_test(test_waits_for_the_last),
                                       cmocka_unit_test(test_one_bad_status_reaches_all),
                                       cmocka_unit_test(test_some_ranks_only),
                                       cmocka_unit_test(test_next_round_is_kept),
                                       cmocka_unit_test(test_two_keys_at_once),
                                       cmocka_unit_test(test_failing_answers_those_who_wait),
                                       cmocka_unit_test(test_rubbish_is_refused),
                                       cmocka_unit_test(test_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
