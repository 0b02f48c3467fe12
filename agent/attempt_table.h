/* attempt_table: how an attempt moves, as a table: (stage, what happened) → next stage and what to do. */
#ifndef BELAY_AGENT_ATTEMPT_TABLE_H
#define BELAY_AGENT_ATTEMPT_TABLE_H

#include <stdbool.h>

enum attempt_stage {
    STAGE_CONNECTING, /* a shim lives (or starts); no connection to it */
    STAGE_LIVE,       /* connected */
    STAGE_RELEASING,  /* told that it may go */
    STAGE_SWEEPING,   /* it is dead; what it left is being ended */
    STAGE_ENDED,      /* nothing of it runs; waiting to be forgotten */
    STAGE_REMOVED,
    STAGE_COUNT
};
enum attempt_happening {
    HAPPENED_CONNECTED,
    HAPPENED_DISCONNECTED,
    HAPPENED_DIED,
    HAPPENED_SWEPT,
    HAPPENED_FORGET, /* the controller has the final report and does not want the attempt */
    HAPPENED_COUNT
};
enum attempt_action { DO_NOTHING, DO_GREET, DO_RELEASE, DO_SWEEP, DO_CONCLUDE, DO_DROP, DO_COUNT };

struct attempt_step {
    bool listed; /* in the table: true for every pair, which a test checks */
    enum attempt_stage next;
    enum attempt_action action;
};

/* The row of the pair: every pair has one. */
struct attempt_step attempt_table_step(enum attempt_stage stage, enum attempt_happening what);

#endif
