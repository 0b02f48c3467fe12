/* attempt_table: every pair is listed. What cannot happen in a stage stays and does nothing; a FORGET that comes before its time is
 * remembered by attempt.c and comes again. */
#include "agent/attempt_table.h"

#define STEP(next, action)                                                                                   \
    {                                                                                                        \
        true, next, action                                                                                   \
    }

static const struct attempt_step table[STAGE_COUNT][HAPPENED_COUNT] = {
    [STAGE_CONNECTING] = {[HAPPENED_CONNECTED] = STEP(STAGE_LIVE, DO_GREET),
                          [HAPPENED_DISCONNECTED] = STEP(STAGE_CONNECTING, DO_NOTHING),
                          [HAPPENED_DIED] = STEP(STAGE_SWEEPING, DO_SWEEP),
                          [HAPPENED_SWEPT] = STEP(STAGE_CONNECTING, DO_NOTHING),
                          [HAPPENED_FORGET] = STEP(STAGE_CONNECTING, DO_NOTHING)},
    [STAGE_LIVE] = {[HAPPENED_CONNECTED] = STEP(STAGE_LIVE, DO_GREET),
                    [HAPPENED_DISCONNECTED] = STEP(STAGE_CONNECTING, DO_NOTHING),
                    [HAPPENED_DIED] = STEP(STAGE_SWEEPING, DO_SWEEP),
                    [HAPPENED_SWEPT] = STEP(STAGE_LIVE, DO_NOTHING),
                    [HAPPENED_FORGET] = STEP(STAGE_RELEASING, DO_RELEASE)},
    [STAGE_RELEASING] = {[HAPPENED_CONNECTED] = STEP(STAGE_RELEASING, DO_RELEASE),
                         [HAPPENED_DISCONNECTED] = STEP(STAGE_RELEASING, DO_NOTHING),
                         [HAPPENED_DIED] = STEP(STAGE_SWEEPING, DO_SWEEP),
                         [HAPPENED_SWEPT] = STEP(STAGE_RELEASING, DO_NOTHING),
                         [HAPPENED_FORGET] = STEP(STAGE_RELEASING, DO_NOTHING)},
    [STAGE_SWEEPING] = {[HAPPENED_CONNECTED] = STEP(STAGE_SWEEPING, DO_NOTHING),
                        [HAPPENED_DISCONNECTED] = STEP(STAGE_SWEEPING, DO_NOTHING),
                        [HAPPENED_DIED] = STEP(STAGE_SWEEPING, DO_NOTHING),
                        [HAPPENED_SWEPT] = STEP(STAGE_ENDED, DO_CONCLUDE),
                        [HAPPENED_FORGET] = STEP(STAGE_SWEEPING, DO_NOTHING)},
    [STAGE_ENDED] = {[HAPPENED_CONNECTED] = STEP(STAGE_ENDED, DO_NOTHING),
                     [HAPPENED_DISCONNECTED] = STEP(STAGE_ENDED, DO_NOTHING),
                     [HAPPENED_DIED] = STEP(STAGE_ENDED, DO_NOTHING),
                     [HAPPENED_SWEPT] = STEP(STAGE_ENDED, DO_NOTHING),
                     [HAPPENED_FORGET] = STEP(STAGE_REMOVED, DO_DROP)},
    [STAGE_REMOVED] = {[HAPPENED_CONNECTED] = STEP(STAGE_REMOVED, DO_NOTHING),
                       [HAPPENED_DISCONNECTED] = STEP(STAGE_REMOVED, DO_NOTHING),
                       [HAPPENED_DIED] = STEP(STAGE_REMOVED, DO_NOTHING),
                       [HAPPENED_SWEPT] = STEP(STAGE_REMOVED, DO_NOTHING),
                       [HAPPENED_FORGET] = STEP(STAGE_REMOVED, DO_NOTHING)},
};

struct attempt_step attempt_table_step(enum attempt_stage stage, enum attempt_happening what)
{
    return table[stage][what];
}
