/* tell: what a run says of its steps: rows of metrics.csv, lines for people, progress for the shim. */
#ifndef BELAY_RUNTIME_TELL_H
#define BELAY_RUNTIME_TELL_H

#include "runtime/run.h"
#include "runtime/step.h"

/* After step_run. held: loss of an evaluation after this step, NAN when there was none. */
void tell_step(struct run *run, const struct step *step, double held);
/* Rank 0, at the end: the pipeline's bubble beside its formula, and what the groups moved. */
void tell_end(struct run *run);

#endif
