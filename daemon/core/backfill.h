/* backfill: who may start before a more urgent job that still waits for its slots (as EASY backfill does).
 *
 * The most urgent job that waits for slots is the head. When the time limits of the jobs that run tell by when it can start, a later job
 * may go first only if it ends before that, or if the head could start then all the same. When they do not tell, nobody is held
 * back: the free slots would lie idle for nobody knows how long. So give jobs a limits.time where a large one is to get its turn. Whether a
 * job leaves the head its room takes a look at both; of those a round has a number, and who comes later waits for the next one. */
#ifndef BELAY_DAEMON_CORE_BACKFILL_H
#define BELAY_DAEMON_CORE_BACKFILL_H

#include "daemon/core/placement.h"

struct core;
struct job;
struct seating;

/* Of one round. Zeroed at its beginning, cleared at its end. */
struct backfill {
    struct job *head; /* NULL = nobody waits for slots */
    bool computed;
    int64_t start_ms;            /* UTC, when the head can start at the latest; INT64_MAX = not known */
    struct placement_view *then; /* what is free then */
    int looks;                   /* at whether a job leaves the head its room */
};

/* This job waits for slots (in the order of the queue: the first one is the head). */
void backfill_waits(struct backfill *b, struct core *core, struct job *job);

/* May a job that ends at ends_ms (UTC, by its limit; INT64_MAX = it has none) start now on these seats? If not, *why has a sentence. */
bool backfill_allows(struct backfill *b, const struct core *core, const struct job_spec *spec,
                     int64_t ends_ms, const struct seating *seats, struct err *why);

/* May a running job take more spares? Only when nobody waits, or the head's start is known and not delayed. */
bool backfill_spares(struct backfill *b, const struct core *core, const struct job_spec *spec,
                     int64_t ends_ms, const struct seating *spares);

/* Known without looking where it would go: it may not start. False: it must be looked at. */
bool backfill_bars(struct backfill *b, const struct core *core, int64_t ends_ms, struct err *why);

void backfill_clear(struct backfill *b);

#endif
