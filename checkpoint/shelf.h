/* shelf: the checkpoint directory as a whole: what stands there, putting a new one in place, and clearing old ones away.
 *
 * A checkpoint is visible (step-00000100) only when complete; everything under way has a name that begins with ".step-" and is swept
 * away by the next owner of the directory. Only rank 0 changes the shelf, and only while it holds the claim. */
#ifndef BELAY_CHECKPOINT_SHELF_H
#define BELAY_CHECKPOINT_SHELF_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/retention.h"

/* "<directory>/step-00000100"; the caller frees. */
char *shelf_path(const char *directory, int64_t step);

/* Steps that have a folder, newest first; *steps is fresh (the caller frees). Their number, or -1 with a sentence. */
int64_t shelf_list(const char *directory, int64_t **steps, struct err *err);

/* Makes an empty folder for a checkpoint under way and returns its path (the caller frees), or NULL with a sentence. */
char *shelf_begin(const char *directory, int64_t step, int64_t attempt, struct err *err);

/* Makes a sealed folder visible as the checkpoint of `step` (one of the same step is replaced in one instant) and notes it in
 * `<directory>/latest`. Durable on return. 0, or -1 with a sentence. */
int shelf_commit(const char *directory, const char *folder, int64_t step, struct err *err);

/* Gives a sealed folder its name, as shelf_commit, but replaces nothing, and `latest` names the newest. 0, or -1 with a sentence. */
int shelf_add(const char *directory, const char *folder, int64_t step, struct err *err);

/* Has `latest` name the newest step that has a folder, as after one that is older was put in place. */
void shelf_note_newest(const char *directory);

/* The step that `latest` names, or -1. */
int64_t shelf_latest(const char *directory);

/* The step of a folder called "step-00000100", wherever it is, or -1. */
int64_t shelf_step_of(const char *path);

/* What stays by the policy, newest first; *items is fresh (the caller frees). Only as many are looked at as it takes to find `keep` complete ones
 * (sizes, no hashes); the older are taken to be complete. Their number, or -1 with a sentence. */
int64_t shelf_survey(const char *directory, const struct retention_policy *policy,
                     struct retention_item **items, struct err *err);

/* Removes what may go, but for the one of step `spare` (0 = none), which somebody reads. The checkpoint of step *verified (0 = none), the last that was read back in full, is removed only after the newest complete
 * one has been read back too (then *verified is that one). Problems are logged, not returned. */
void shelf_purge(const char *directory, const struct retention_policy *policy, int64_t spare,
                 int64_t *verified);

/* Removes what unfinished runs left under way: folders, and half-written latest, claim and metrics.csv. With the claim held: whoever holds
 * it is the only one that may have such files. */
void shelf_sweep(const char *directory);

/* Moves checkpoints later than `step` to `<directory>/set-aside/<time>/`, with a link to metrics.csv: the run goes on from `step`, they
 * are a branch it does not follow. Nothing ever removes them. `latest` is of the newest that stays. How many, or -1 with a sentence. */
int64_t shelf_set_aside(const char *directory, int64_t step, struct err *err);

#endif
