/* shim_table: see the header. A pair that is not written out is "stay and do nothing"; the rows that matter are all here. */
#include "agent/shim/shim_table.h"

#include <stddef.h>

struct row {
    enum shim_state state;
    enum shim_event event;
    struct shim_rule rule;
};

static const struct row ROWS[] = {
    {SHIM_PREPARING, SHIM_EV_PREPARED, {SHIM_READY, SHIM_DO_REPORT}},
    {SHIM_PREPARING, SHIM_EV_UNFIT, {SHIM_REFUSED, SHIM_DO_REFUSE}},
    {SHIM_PREPARING, SHIM_EV_STOP, {SHIM_SWEEPING, SHIM_DO_SWEEP}},
    {SHIM_PREPARING, SHIM_EV_KILL, {SHIM_SWEEPING, SHIM_DO_SWEEP}},

    {SHIM_READY, SHIM_EV_GO, {SHIM_LAUNCHING, SHIM_DO_LAUNCH}},
    {SHIM_READY, SHIM_EV_STOP, {SHIM_SWEEPING, SHIM_DO_SWEEP}},
    {SHIM_READY, SHIM_EV_KILL, {SHIM_SWEEPING, SHIM_DO_SWEEP}},

    {SHIM_REFUSED, SHIM_EV_RELEASE, {SHIM_DONE, SHIM_DO_NOTHING}},

    {SHIM_LAUNCHING, SHIM_EV_STARTED, {SHIM_RUNNING, SHIM_DO_REPORT}},
    {SHIM_LAUNCHING, SHIM_EV_UNFIT, {SHIM_REFUSED, SHIM_DO_REFUSE}},
    {SHIM_LAUNCHING, SHIM_EV_STOP, {SHIM_STOPPING, SHIM_DO_STOP}},
    {SHIM_LAUNCHING, SHIM_EV_KILL, {SHIM_SWEEPING, SHIM_DO_SWEEP}},
    {SHIM_LAUNCHING, SHIM_EV_ENDED, {SHIM_SWEEPING, SHIM_DO_SWEEP}},

    {SHIM_RUNNING, SHIM_EV_STOP, {SHIM_STOPPING, SHIM_DO_STOP}},
    {SHIM_RUNNING, SHIM_EV_KILL, {SHIM_SWEEPING, SHIM_DO_SWEEP}},
    {SHIM_RUNNING, SHIM_EV_ENDED, {SHIM_SWEEPING, SHIM_DO_SWEEP}},

    {SHIM_STOPPING, SHIM_EV_STOP, {SHIM_STOPPING, SHIM_DO_REGRACE}},
    {SHIM_STOPPING, SHIM_EV_KILL, {SHIM_SWEEPING, SHIM_DO_SWEEP}},
    {SHIM_STOPPING, SHIM_EV_GRACE_OVER, {SHIM_SWEEPING, SHIM_DO_SWEEP}},
    {SHIM_STOPPING, SHIM_EV_ENDED, {SHIM_SWEEPING, SHIM_DO_SWEEP}},

    {SHIM_SWEEPING, SHIM_EV_SWEPT, {SHIM_GONE, SHIM_DO_BURY}},

    {SHIM_GONE, SHIM_EV_RELEASE, {SHIM_DONE, SHIM_DO_NOTHING}},
};

static const struct shim_rule STAY[SHIM_STATE_COUNT] = {
    [SHIM_PREPARING] = {SHIM_PREPARING, SHIM_DO_NOTHING},
    [SHIM_READY] = {SHIM_READY, SHIM_DO_NOTHING},
    [SHIM_REFUSED] = {SHIM_REFUSED, SHIM_DO_NOTHING},
    [SHIM_LAUNCHING] = {SHIM_LAUNCHING, SHIM_DO_NOTHING},
    [SHIM_RUNNING] = {SHIM_RUNNING, SHIM_DO_NOTHING},
    [SHIM_STOPPING] = {SHIM_STOPPING, SHIM_DO_NOTHING},
    [SHIM_SWEEPING] = {SHIM_SWEEPING, SHIM_DO_NOTHING},
    [SHIM_GONE] = {SHIM_GONE, SHIM_DO_NOTHING},
    [SHIM_DONE] = {SHIM_DONE, SHIM_DO_NOTHING},
};

const struct shim_rule *shim_rule(enum shim_state state, enum shim_event event)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].state == state && ROWS[i].event == event)
            return &ROWS[i].rule;
    return &STAY[state];
}

int shim_phase(enum shim_state state)
{
    static const int phases[SHIM_STATE_COUNT] = {[SHIM_PREPARING] = REPORT_PREPARING,
                                                 [SHIM_READY] = REPORT_READY,
                                                 [SHIM_REFUSED] = REPORT_REFUSED,
                                                 [SHIM_LAUNCHING] = REPORT_READY,
                                                 [SHIM_RUNNING] = REPORT_RUNNING,
                                                 [SHIM_STOPPING] = REPORT_STOPPING,
                                                 [SHIM_SWEEPING] = -1,
                                                 [SHIM_GONE] = REPORT_GONE,
                                                 [SHIM_DONE] = -1};
    return phases[state];
}

const char *shim_state_name(enum shim_state state)
{
    static const char *const names[SHIM_STATE_COUNT] = {
        "preparing", "ready", "refused", "launching", "running", "stopping", "sweeping", "gone", "done"};
    return names[state];
}
