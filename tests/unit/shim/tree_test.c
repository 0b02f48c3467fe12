/* tree: the heap of radix 32 and the frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/shim/tree.h"

static void test_parents_and_children(void **state)
{
    (void)state;
    static const struct {
        int64_t node, parent, first_child;
    } rows[] = {{0, -1, 1},    {1, 0, 33},    {32, 0, 1025},     {33, 1, 1057},
                {64, 1, 2049}, {65, 2, 2081}, {1056, 32, 33793}, {1057, 33, 33825}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(tree_parent(rows[i].node), rows[i].parent);
        assert_int_equal(tree_child(rows[i].node, 0), rows[i].first_child);
    }
}

static void test_child_counts(void **state)
{
    (void)state;
    static const struct {
        int64_t node, nodes, count;
    } rows[] = {{0, 1, 0},  {0, 2, 1},   {0, 33, 32}, {0, 34, 32},    {1, 34, 1},
                {1, 33, 0}, {1, 65, 32}, {2, 66, 1},  {95, 3072, 31}, {96, 3072, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(tree_child_count(rows[i].node, rows[i].nodes), rows[i].count);
}

/* Every node but 0 is the child of exactly one; the counts cover all. */
static void test_counts_cover_all_nodes(void **state)
{
    (void)state;
    for (int64_t nodes = 1; nodes < 3100; nodes += 77) {
        int64_t sum = 0;
        for (int64_t n = 0; n < nodes; n++)
            sum += tree_child_count(n, nodes);
        assert_int_equal(sum, nodes - 1);
    }
}

static void test_next_hop(void **state)
{
    (void)state;
    static const struct {
        int64_t from, to, hop;
    } rows[] = {{0, 1, 1},     {0, 33, 1},       {0, 64, 1},   {0, 65, 2}, {1, 33, 33},
                {1, 0, 0},     {33, 34, 1},      {33, 65, 1},  {2, 33, 0}, {0, 1057, 1},
                {1, 1057, 33}, {33, 1057, 1057}, {1057, 5, 33}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(tree_next_hop(rows[i].from, rows[i].to), rows[i].hop);
}

/* From anywhere to anywhere the hops are neighbours and arrive. */
static void test_every_path_arrives(void **state)
{
    (void)state;
    for (int64_t from = 0; from < 1200; from += 13) {
        for (int64_t to = 0; to < 1200; to += 7) {
            int64_t at = from;
            for (int steps = 0; at != to; steps++) {
                int64_t hop = tree_next_hop(at, to);
                assert_true(tree_parent(hop) == at || tree_parent(at) == hop);
                assert_in_range(steps, 0, 6);
                at = hop;
            }
        }
    }
}

static void test_subtrees(void **state)
{
    (void)state;
    assert_true(tree_in_subtree(1057, 1));
    assert_true(tree_in_subtree(1057, 1057));
    assert_true(tree_in_subtree(5, 0));
    assert_false(tree_in_subtree(65, 1));
    assert_false(tree_in_subtree(0, 1));
}

static size_t encode(const struct frame *f, uint8_t *out)
{
    frame_encode_header(f, out);
    memcpy(out + TREE_HEADER, f->key, f->key_len);
    memcpy(out + TREE_HEADER + f->key_len, f->data, f->len);
    return TREE_HEADER + f->key_len + f->len;
}

static void test_frame_round_trip(void **state)
{
    (void)state;
    uint8_t buf[256];
    struct err err = {""};
    struct frame in = {.type = FRAME_MODEX_ANSWER,
                       .source = 3071,
                       .target = 70000,
                       .status = -25,
                       .id = 0x123456789abcdef0,
                       .key = "0,5",
                       .key_len = 3,
                       .data = "a\0b",
                       .len = 3},
                 out;
    size_t n = encode(&in, buf), size;
    assert_int_equal(frame_size(buf, &size, &err), 0);
    assert_int_equal(size, n);
    assert_int_equal(frame_decode(buf, size, &out, &err), 0);
    assert_int_equal(out.type, in.type);
    assert_int_equal(out.source, in.source);
    assert_int_equal(out.target, in.target);
    assert_int_equal(out.status, in.status);
    assert_true(out.id == in.id);
    assert_int_equal(out.key_len, 3);
    assert_memory_equal(out.key, "0,5", 3);
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.data, "a\0b", 3);
}

static void test_bad_frames_are_refused(void **state)
{
    (void)state;
    uint8_t buf[256];
    struct err err = {""};
    struct frame f = {.type = FRAME_FENCE_UP, .key = "*", .key_len = 1, .data = "", .len = 0}, out;
    size_t size, n = encode(&f, buf);
    uint8_t short_head[4] = {0, 0, 0, TREE_HEADER - 5}, long_head[4] = {0x10, 0, 0, 1};
    assert_int_equal(frame_size(short_head, &size, &err), -1);
    assert_int_equal(frame_size(long_head, &size, &err), -1);
    buf[31] = 2; /* the key would end after the frame */
    assert_int_equal(frame_decode(buf, n, &out, &err), -1);
    buf[31] = 1;
    buf[4] = FRAME_TYPE_END;
    assert_int_equal(frame_decode(buf, n, &out, &err), -1);
    buf[4] = 0;
    assert_int_equal(frame_decode(buf, n, &out, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parents_and_children),   cmocka_unit_test(test_child_counts),
        cmocka_unit_test(test_counts_cover_all_nodes), cmocka_unit_test(test_next_hop),
        cmocka_unit_test(test_every_path_arrives),     cmocka_unit_test(test_subtrees),
        cmocka_unit_test(test_frame_round_trip),       cmocka_unit_test(test_bad_frames_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
