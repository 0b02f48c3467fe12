/* save: the ranks write checkpoints together while they train (docs/checkpoints.md).
 *
 * A save holds training up for as long as the copy into memory takes. Then each rank's thread writes its shard; before each step the ranks tell each other
 * which threads are done (save_busy), and move what can be moved (save_advance). All calls but save_busy are collective: every rank makes the same ones
 * at the same point of the run, and gets the same answer. */
#ifndef BELAY_RUNTIME_SAVE_H
#define BELAY_RUNTIME_SAVE_H

#include <stdbool.h>

#include "common/memory.h"
#include "runtime/run.h"

/* Sets the memory for saves aside, and finds the shim that holds copies where the job has a memory tier. 0, or an exit code. */
int save_open(struct run *run);
/* That shim; NULL: there is no memory tier. Not to be used while a save is under way. */
struct memory_tier *save_memory(const struct run *run);
/* Ends what is under way, unfinished, and frees. Not collective: also for a rank that ends alone. */
void save_close(struct run *run);

/* Which saves this rank's threads are still at: bits for save_advance. */
int save_busy(const struct run *run);
/* busy: save_busy of all ranks, or-ed. 0, or EXIT_SUPERSEDED: this attempt is no longer the newest. */
int save_advance(struct run *run, int busy);

/* After a step: starts a save when it is time for one, or it was asked for (signals), or the run ends here (last), and then waits for it. A save that
 * fails is told and changes nothing on the shelf; training goes on: 0. EXIT_ERROR only when the last one failed; EXIT_SUPERSEDED. */
int save_if_due(struct run *run, int signals, bool last);

/* The run has gone back to an earlier step: memory holds that now, so that a restart does not find a later step of what was left. 0 or
 * EXIT_SUPERSEDED. */
int save_went_back(struct run *run);

bool save_under_way(const struct run *run);
/* Waits until nothing is under way. 0 or EXIT_SUPERSEDED. */
int save_wait(struct run *run);

#endif
