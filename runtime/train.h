/* train: one training run from first setup to last checkpoint. */
#ifndef BELAY_RUNTIME_TRAIN_H
#define BELAY_RUNTIME_TRAIN_H

#include "runtime/backend.h"
#include "runtime/comm/comm.h"
#include "schema/job.h"

/* Collective. Trains what the job says; every rank returns the same exit code (runtime/exits.h), whose reason was logged. Reads BELAY_JOB_ID,
 * BELAY_ATTEMPT, BELAY_NOTIFY_SOCKET and BELAY_FAULT. */
int train(const struct job_spec *spec, const struct backend *backend, struct comm *comm);

#endif
