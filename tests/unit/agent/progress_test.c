/* Progress that waits: newest wins, checkpoints stay, the oldest goes when it is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/progress.h"

static void add(struct progress *p, int64_t rank, const char *key, const char *value)
{
    struct link_progress msg = {
        .job = 1, .attempt = 1, .rank = rank, .values = json_pack("{s:s}", key, value)};
    progress_add(p, &msg);
    link_progress_clear(&msg);
}

static void expect(struct progress *p, int64_t rank, const char *key, const char *value)
{
    const struct link_progress *first = progress_first(p);
    assert_non_null(first);
    assert_int_equal(first->rank, rank);
    assert_string_equal(json_string_value(json_object_get(first->values, key)), value);
}

static void newest_wins_per_rank_and_key(void **state)
{
    (void)state;
    struct progress *p = progress_new(8);
    add(p, 0, "STEP", "1");
    add(p, 1, "STEP", "1");
    add(p, 0, "STEP", "2");
    add(p, 0, "LOSS", "3.5");
    expect(p, 0, "STEP", "2");
    expect(p, 0, "LOSS", "3.5");
    progress_pop(p);
    expect(p, 1, "STEP", "1");
    progress_pop(p);
    assert_null(progress_first(p));
    progress_pop(p);
    progress_free(p);
}

static void checkpoints_are_never_merged(void **state)
{
    (void)state;
    struct progress *p = progress_new(8);
    add(p, 0, "CHECKPOINT_DURABLE", "100");
    add(p, 0, "STEP", "101");
    add(p, 0, "CHECKPOINT_DURABLE", "200");
    add(p, 0, "STEP", "201");
    static const char *const expected[][2] = {
        {"CHECKPOINT_DURABLE", "100"}, {"STEP", "101"}, {"CHECKPOINT_DURABLE", "200"}, {"STEP", "201"}};
    for (size_t i = 0; i < 4; i++) {
        expect(p, 0, expected[i][0], expected[i][1]);
        progress_pop(p);
    }
    assert_null(progress_first(p));
    progress_free(p);
}

static void the_oldest_goes_when_full(void **state)
{
    (void)state;
    struct progress *p = progress_new(2);
    add(p, 0, "STEP", "1");
    add(p, 1, "STEP", "1");
    add(p, 2, "STEP", "1");
    expect(p, 1, "STEP", "1");
    progress_free(p);
}

static void another_attempt_is_another_message(void **state)
{
    (void)state;
    struct progress *p = progress_new(4);
    struct link_progress msg = {.job = 1, .attempt = 2, .rank = 0, .values = json_pack("{s:s}", "STEP", "7")};
    add(p, 0, "STEP", "1");
    progress_add(p, &msg);
    link_progress_clear(&msg);
    expect(p, 0, "STEP", "1");
    progress_pop(p);
    expect(p, 0, "STEP", "7");
    progress_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_wins_per_rank_and_key),
        cmocka_unit_test(checkpoints_are_never_merged),
        cmocka_unit_test(the_oldest_goes_when_full),
        cmocka_unit_test(another_attempt_is_another_message),
    };
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
