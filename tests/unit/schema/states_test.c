/* Every state's word parses back to the state; nothing else parses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "schema/states.h"

struct family {
    const char *what;
    int count;
    const char *(*name)(int);
    int (*parse)(const char *);
};

#define WRAP(prefix, type)                                                                                   \
    static const char *prefix##_word(int v)                                                                  \
    {                                                                                                        \
        return prefix##_name((type)v);                                                                       \
    }
WRAP(job_state, enum job_state)
WRAP(attempt_state, enum attempt_state)
WRAP(attempt_outcome, enum attempt_outcome)
WRAP(node_state, enum node_state)
WRAP(report_phase, enum report_phase)
WRAP(order_phase, enum order_phase)
WRAP(rank_state, enum rank_state)

static const struct family families[] = {
    {"job", JOB_STATE_COUNT, job_state_word, job_state_parse},
    {"attempt", ATTEMPT_STATE_COUNT, attempt_state_word, attempt_state_parse},
    {"outcome", OUTCOME_COUNT, attempt_outcome_word, attempt_outcome_parse},
    {"node", NODE_STATE_COUNT, node_state_word, node_state_parse},
    {"report", REPORT_PHASE_COUNT, report_phase_word, report_phase_parse},
    {"order", ORDER_PHASE_COUNT, order_phase_word, order_phase_parse},
    {"rank", RANK_STATE_COUNT, rank_state_word, rank_state_parse},
};

static void every_word_parses_back(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        for (int v = 0; v < families[f].count; v++) {
            assert_non_null(families[f].name(v));
            assert_int_equal(families[f].parse(families[f].name(v)), v);
        }
}

static void other_words_do_not_parse(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        assert_int_equal(families[f].parse("Running"), -1);
        assert_int_equal(families[f].parse(""), -1);
        assert_int_equal(families[f].parse(NULL), -1);
        assert_string_equal(families[f].name(families[f].count), "invalid");
        assert_string_equal(families[f].name(-1), "invalid");
        assert_int_equal(families[f].parse("invalid"), -1);
    }
}

static void only_three_job_states_are_final(void **state)
{
    (void)state;
    for (int v = 0; v < JOB_STATE_COUNT; v++) {
        const char *word = job_state_name((enum job_state)v);
        bool final = !strcmp(word, "completed") || !strcmp(word, "failed") || !strcmp(word, "cancelled");
        assert_int_equal(job_state_final((enum job_state)v), final);
    }
}

/* schema/openapi.yaml lists the words of each family that the API shows. */
static void the_api_description_has_the_same_words(void **state)
{
    (void)state;
    char *api = fs_read("schema/openapi.yaml", 1 << 20, NULL, NULL);
    assert_non_null(api);
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        char list[512] = "enum: [";
        bool outcome = families[f].count == OUTCOME_COUNT && families[f].parse == attempt_outcome_parse;
        bool shown = families[f].parse != report_phase_parse && families[f].parse != order_phase_parse;
        for (int v = outcome ? 1 : 0; v < families[f].count; v++) { /* no outcome is null there */
            size_t used = strlen(list);
            const char *end = v + 1 < families[f].count ? ", " : outcome ? ", null]" : "]";
            (void)snprintf(list + used, sizeof list - used, "%s%s", families[f].name(v), end);
        }
        if (shown && !strstr(api, list))
            fail_msg("schema/openapi.yaml lacks %s", list);
    }
    free(api);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_parses_back),
        cmocka_unit_test(other_words_do_not_parse),
        cmocka_unit_test(the_api_description_has_the_same_words),
        cmocka_unit_test(only_three_job_states_are_final),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
