/* shim_table: the life of an attempt on one node as a table: (state, event) → next state and what to do. */
#ifndef BELAY_AGENT_SHIM_SHIM_TABLE_H
#define BELAY_AGENT_SHIM_SHIM_TABLE_H

#include "schema/states.h"

enum shim_state {
    SHIM_PREPARING,
    SHIM_READY,     /* everything checked, waiting for go */
    SHIM_REFUSED,   /* nothing was started; waiting for release */
    SHIM_LAUNCHING, /* forked, not all known to be exec'd */
    SHIM_RUNNING,
    SHIM_STOPPING, /* SIGTERM was sent, the grace runs */
    SHIM_SWEEPING, /* SIGKILL until no process of the attempt is left */
    SHIM_GONE,     /* all gone and reported; waiting for release */
    SHIM_DONE,     /* may exit */
    SHIM_STATE_COUNT
};

enum shim_event {
    SHIM_EV_PREPARED,
    SHIM_EV_UNFIT, /* preparing failed, or starting failed before anything ran */
    SHIM_EV_GO,
    SHIM_EV_STARTED, /* no rank is waiting any more */
    SHIM_EV_STOP,
    SHIM_EV_KILL,
    SHIM_EV_ENDED,      /* every rank has ended */
    SHIM_EV_GRACE_OVER, /* the stop order's grace */
    SHIM_EV_SWEPT,      /* no process is left */
    SHIM_EV_RELEASE,
    SHIM_EVENT_COUNT
};

enum shim_action {
    SHIM_DO_NOTHING,
    SHIM_DO_REPORT,  /* the report's phase follows the state */
    SHIM_DO_REFUSE,  /* give back what was made, report */
    SHIM_DO_LAUNCH,  /* register with PMIx, fork */
    SHIM_DO_STOP,    /* SIGTERM, start the grace */
    SHIM_DO_REGRACE, /* a later order may shorten the grace */
    SHIM_DO_SWEEP,   /* SIGKILL everything */
    SHIM_DO_BURY     /* give everything back, report gone */
};

struct shim_rule {
    enum shim_state next;
    enum shim_action action;
};

/* The rule for this pair; every pair has one. */
const struct shim_rule *shim_rule(enum shim_state state, enum shim_event event);

/* The phase that is reported in a state. `swept` states keep the phase they came from: -1. */
int shim_phase(enum shim_state state);

/* For logs and tests. */
const char *shim_state_name(enum shim_state state);

#endif
