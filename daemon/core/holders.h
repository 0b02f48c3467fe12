/* holders: the jobs that hold slots, in the order in which they must give them back by their time limits. */
#ifndef BELAY_DAEMON_CORE_HOLDERS_H
#define BELAY_DAEMON_CORE_HOLDERS_H

#include "daemon/core/placement.h"

struct core;
struct job;

struct holder {
    int64_t job, until_ms;   /* UTC; INT64_MAX = no time limit */
    const char *name, *user; /* borrowed */
    struct placed_rank *ranks;
    size_t n;
    int64_t memory; /* bytes per slot */
};

struct holders {
    struct holder *list; /* soonest end first, then by job */
    size_t n;
};

/* When the job's time limit ends it, counted from now when it has not begun; UTC, INT64_MAX = it has none. */
int64_t holders_end_of(const struct core *core, const struct job *job);

/* All but `except` (may be NULL). To be cleared. */
struct holders holders_collect(const struct core *core, const struct job *except);
void holders_clear(struct holders *holders);

/* Gives the slots of list[from..to-1] back in the view, or takes them again. */
void holders_give(const struct holders *holders, struct placement_view *view, size_t from, size_t to);
void holders_take(const struct holders *holders, struct placement_view *view, size_t from, size_t to);

/* The smallest number of holders, from the front, whose slots would let the job start; n + 1 when all do not suffice. The job is known
 * not to fit with none. ranks: room for spec->ranks. The view is left as it was. */
size_t holders_needed(const struct holders *holders, struct placement_view *view, const struct job_spec *spec,
                      struct placed_rank *ranks);

#endif
