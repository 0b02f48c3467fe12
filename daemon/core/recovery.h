/* recovery: what becomes of a job whose attempt has ended. Pure: facts in, decision out.
 *
 * Three budgets: the job's own errors are charged against restart.max within restart.window; node faults are not; and attempts in
 * a row that pass no new checkpoint end the job: three of its own
 * failures at the same step, which will not go away by trying, or ten of any kind, since interruptions by hardware come by chance. */
#ifndef BELAY_DAEMON_CORE_RECOVERY_H
#define BELAY_DAEMON_CORE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/machines.h"

enum {
    RECOVERY_BACKOFF_MAX_MS = 5 * 60 * 1000,
    RECOVERY_LOOP_MAX = 3,       /* own failures in a row at the same step, without a new checkpoint */
    RECOVERY_FRUITLESS_MAX = 10, /* attempts in a row without a new checkpoint, whatever ended them */
    RECOVERY_AVOID_MS =
        5000, /* a node that could not prepare a job is avoided for it, doubling each time in a row */
};

struct recovery_facts {
    enum attempt_outcome outcome;
    int exit_code;        /* of the first failing rank, -1 = none */
    bool begun;           /* the job ever got as far as `go` in this life */
    bool cancel, hold;    /* wishes of users */
    bool checkpoints;     /* the job saves checkpoints */
    int64_t charged, max; /* charged failures in the window, this one included; how many may be */
    int64_t in_row;       /* of those, since an attempt passed a new checkpoint (that one included) */
    int64_t node_faults;  /* in a row, this one included */
    int64_t fruitless;    /* attempts in a row that passed no new checkpoint, this one included */
    int64_t loop;         /* of those, its own failures at the same step as this one */
    int64_t backoff_ms;
    uint64_t jitter; /* any number; the same number gives the same pause */
};

enum recovery_cause { RECOVERY_PLAIN, RECOVERY_NO_RETRY, RECOVERY_BUDGET, RECOVERY_NO_PROGRESS };

struct recovery_decision {
    enum job_event event; /* COMPLETE, FAIL, CANCEL_DONE, HOLD_DONE, RETRY or WAIT */
    enum recovery_cause cause;
    int64_t delay_ms;
};

/* The first rule that applies decides (recovery.c has them in order). */
struct recovery_decision recovery_decide(const struct recovery_facts *facts);

/* backoff doubled n-1 times, at most 5 minutes, plus up to a tenth of jitter. */
int64_t recovery_pause(int64_t backoff_ms, int64_t n, uint64_t jitter);

#endif
