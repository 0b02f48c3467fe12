/* exits: the exit codes of belay-train (docs/protocols.md, section 4). A larger one prevails when ranks differ. */
#ifndef BELAY_RUNTIME_EXITS_H
#define BELAY_RUNTIME_EXITS_H

#include "schema/job.h"

enum {
    EXIT_DONE = 0,
    EXIT_ERROR = 1,
    EXIT_BAD_CONFIG = 2,
    EXIT_STOPPED = JOB_EXIT_STOPPED,
    EXIT_NO_RETRY = JOB_EXIT_NO_RETRY,
    EXIT_NOT_FINITE = 94,
    EXIT_SUPERSEDED = 95
};

#endif
