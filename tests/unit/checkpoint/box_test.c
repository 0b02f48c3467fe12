/* box: overlaps, and whether boxes hold each element once, held against counting every element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/box.h"

#define ROWS    7
#define COLUMNS 5
#define MOST    40

static int by_box(const void *a, const void *b)
{
    return box_compare(a, b);
}

static uint64_t seed = 1;
static size_t draw(size_t below)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (size_t)(seed >> 33) % below;
}

static enum box_cover count(const struct box *boxes, size_t n)
{
    int times[ROWS][COLUMNS] = {0};
    enum box_cover rc = BOX_COVER_EXACT;
    for (size_t i = 0; i < n; i++)
        for (size_t r = boxes[i].from[0]; r < boxes[i].to[0]; r++)
            for (size_t c = boxes[i].from[1]; c < boxes[i].to[1]; c++)
                times[r][c]++;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < COLUMNS; c++) {
            if (times[r][c] > 1)
                return BOX_COVER_TWICE;
            if (times[r][c] == 0)
                rc = BOX_COVER_GAP;
        }
    return rc;
}

/* Cuts the whole into random boxes. */
static size_t cut(struct box *boxes, size_t cuts)
{
    size_t n = 1;
    boxes[0] = (struct box){{0, 0}, {ROWS, COLUMNS}};
    for (size_t i = 0; i < cuts; i++) {
        struct box *b = &boxes[draw(n)];
        int d = (int)draw(2);
        if (b->to[d] - b->from[d] < 2)
            continue;
        boxes[n] = *b;
        boxes[n++].from[d] = b->to[d] = b->from[d] + 1 + draw(b->to[d] - b->from[d] - 1);
    }
    return n;
}

/* Then moves an edge of one of them, or not. */
static void test_against_counting(void **state)
{
    (void)state;
    static const size_t shape[] = {ROWS, COLUMNS};
    int seen[BOX_COVER_OUTSIDE + 1] = {0};
    for (int round = 0; round < 20000; round++) {
        struct box boxes[MOST];
        size_t n = cut(boxes, draw(MOST - 1));
        if (draw(2)) {
            size_t at = draw(n), d = draw(2);
            size_t *edge = draw(2) ? &boxes[at].to[d] : &boxes[at].from[d];
            *edge += draw(2) ? 1 : (size_t)-1;
        }
        bool outside = false;
        for (size_t i = 0; i < n; i++)
            outside = outside || !box_valid(&boxes[i]) || boxes[i].to[0] > ROWS || boxes[i].to[1] > COLUMNS;
        enum box_cover should = outside ? BOX_COVER_OUTSIDE : count(boxes, n);
        qsort(boxes, n, sizeof *boxes, by_box);
        enum box_cover is = box_check_cover(boxes, sizeof *boxes, n, shape);
        if (should == BOX_COVER_OUTSIDE)
            assert_int_not_equal(is, BOX_COVER_EXACT);
        else
            assert_int_equal(is, should);
        seen[should]++;
    }
    for (int i = 0; i <= BOX_COVER_OUTSIDE; i++)
        assert_true(seen[i] > 1000);
}

static void test_overlap(void **state)
{
    (void)state;
    static const struct {
        struct box a, b, shared;
        bool any;
    } rows[] = {
        {{{0, 0}, {4, 4}}, {{2, 3}, {9, 9}}, {{2, 3}, {4, 4}}, true},
        {{{0, 0}, {4, 4}}, {{4, 0}, {5, 4}}, {{0, 0}, {0, 0}}, false},
        {{{0, 0}, {4, 4}}, {{1, 4}, {2, 5}}, {{0, 0}, {0, 0}}, false},
        {{{3, 1}, {4, 2}}, {{0, 0}, {9, 9}}, {{3, 1}, {4, 2}}, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct box shared;
        assert_int_equal(box_overlap(&rows[i].a, &rows[i].b, &shared), rows[i].any);
        if (rows[i].any)
            assert_memory_equal(&shared, &rows[i].shared, sizeof shared);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_counting),
                                       cmocka_unit_test(test_overlap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
