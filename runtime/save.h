/* save: the ranks write a checkpoint together (docs/checkpoint-format.md). */
#ifndef BELAY_RUNTIME_SAVE_H
#define BELAY_RUNTIME_SAVE_H

#include "runtime/run.h"

/* Collective. Saves run->state and all arrays: shards into a hidden folder, manifest, claim check, rename, `latest`, purge. Rows of metrics.csv
 * up to this step are on disk before the checkpoint can be seen.
 * Every rank gets the same: 0; EXIT_ERROR (the reason was logged, nothing changed on the shelf, training may go on); EXIT_SUPERSEDED. */
int save_checkpoint(struct run *run);

#endif
