/* claim: fencing. Of all processes that ever wrote to a checkpoint directory only the newest attempt may go on doing so.
 *
 * `<directory>/claim` names the attempt that owns the directory; `<directory>/claim.lock` is held (flock) while it is read and
 * acted upon. An attempt takes the claim when it starts and finds it changed at its next checkpoint when a newer one came. */
#ifndef BELAY_CHECKPOINT_CLAIM_H
#define BELAY_CHECKPOINT_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct claim;

enum claim_result { CLAIM_ERROR = -1, CLAIM_OK = 0, CLAIM_SUPERSEDED = 1 };

/* Takes the directory (which must exist) for (job, attempt); job "" and attempt 0 = started by hand.
 *
 * Refused (CLAIM_SUPERSEDED, with a sentence) when the same job's claim has a higher attempt, or when a run by hand meets the claim of a
 * job that has not ended. A run by hand takes over from another one, with a warning when that one's process is alive on this host. */
enum claim_result claim_take(const char *directory, const char *job, int64_t attempt, struct claim **out,
                             struct err *err);

/* Locks the claim and checks that it is still this one. CLAIM_OK: the lock is held until claim_unlock. */
enum claim_result claim_lock(struct claim *claim, struct err *err);
void claim_unlock(struct claim *claim);

/* ---- for whoever looks after a directory without training in it ---- */

struct claim_view {
    char job[64]; /* "" = started by hand */
    int64_t attempt;
    bool
        live; /* held by a run that has not ended: of a job, or by hand by a process that is alive or that this host cannot tell of */
};

/* Who holds the directory? Nobody: *out is all zero. 0, or -1 with a sentence. */
int claim_look(const char *directory, struct claim_view *out, struct err *err);

/* Locks the claim, whoever's it is, and changes nothing of it: until claim_close no run commits or clears up. NULL with a sentence. */
struct claim *claim_borrow(const char *directory, struct err *err);

/* Ends the claim; `done` marks the run as ended in order, so that a run by hand may follow. NULL is fine. */
void claim_close(struct claim *claim, bool done);

#endif
