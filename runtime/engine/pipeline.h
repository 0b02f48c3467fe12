/* pipeline: in which order a pipeline rank passes its micro-batches forward and backward. Pure.
 *
 * The model is cut into pp * virtual_stages pieces ("chunks"); piece s is chunk s / pp of pipeline rank s % pp. A list of passes is computed
 * for each rank ahead of the step, so that both ends of every message can see in which order it comes. */
#ifndef BELAY_RUNTIME_PIPELINE_H
#define BELAY_RUNTIME_PIPELINE_H

#include <stddef.h>

#include "common/err.h"
#include "schema/job.h"

enum pipeline_kind { PASS_FORWARD, PASS_BACKWARD, PASS_WEIGHTS };
/* PASS_BACKWARD: gradients of inputs and weights; with zero-bubble of inputs only, and PASS_WEIGHTS follows later (Qi et al., arXiv
 * 2401.10241). */
struct pipeline_pass {
    enum pipeline_kind kind;
    int micro, chunk;
};

/* The passes of pipeline rank `rank` (0 to pp - 1) in order: a fresh array of *count; free() it.
 *   1f1b          Narayanan et al., arXiv 1806.03377 (PipeDream-flush), any number of micro-batches
 *   interleaved   Narayanan et al., arXiv 2104.04473; micro must be a multiple of pp (Megatron-LM asks the same). With one virtual stage
 *                 it is 1f1b
 *   zero-bubble   ZB-H1 of arXiv 2401.10241: weight passes fill the bubble; each rank holds as much as the first one does with 1f1b
 * On every rank a micro-batch's forward pass comes before its backward pass and that before its weight pass. A rank that waits for each
 * input right before the pass that needs it, and sends each output right after the pass that made it, never deadlocks and gets the
 * messages of any other rank in the order in which that one sends them, activations and gradients together.
 * NULL with a sentence for numbers that no schedule has. */
struct pipeline_pass *pipeline_passes(enum job_pipeline schedule, int pp, int virtual_stages, int micro,
                                      int rank, size_t *count, struct err *err);

/* Micro-batches whose activations the rank holds at most at once, summed over its chunks: how many slots it needs. From the list itself: a
 * forward pass takes a slot, the last pass of its micro-batch and chunk gives it back. 1f1b: min(micro, pp - rank). */
int pipeline_in_flight(const struct pipeline_pass *passes, size_t count);

/* Idle part of the pipelined time by formula, 0 to 1, when forward, backward and weight passes of all pieces take equally long:
 * (p-1)/(v m + p-1); zero-bubble (p-1)/(3 m + p-1) (arXiv 2401.10241, table 1: (p-1)(F + B - W) of the time), with m < p
 * (2p-1-m)/(2m + 2p-1), counted by hand. */
double pipeline_bubble(enum job_pipeline schedule, int pp, int virtual_stages, int micro);

#endif
