/* resume: the ranks find, verify and load the checkpoint to go on from. */
#ifndef BELAY_RUNTIME_RESUME_H
#define BELAY_RUNTIME_RESUME_H

#include "runtime/run.h"

/* Collective. After it run->state says where the run stands (step 0 with initial parameters when there is nothing to go on from).
 *
 * checkpoint.resume: auto = the newest complete checkpoint; STEP = that one; never = from the start. The latter two are meant for the first
 * attempt: a restarted attempt (BELAY_ATTEMPT > 1) goes on from the newest checkpoint of its own job, if there is one.
 * What is incomplete or damaged is skipped with a sentence. Checkpoints later than the chosen step are set aside.
 * Every rank gets the same: 0 or an exit code, whose reason was logged. */
int resume_run(struct run *run);

/* Collective. Back to the newest checkpoint on storage that is undamaged, in the middle of a run: its numbers and its step (run->saved), but not its samples:
 * those used since, with those of the step at hand, are behind it. What is damaged is skipped with a sentence. 0 or an exit code, whose reason was
 * logged. */
int resume_back(struct run *run);

#endif
