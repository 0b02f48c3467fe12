/* agent: everything of belay-agent put together. */
#ifndef BELAY_AGENT_AGENT_H
#define BELAY_AGENT_AGENT_H

#include "agent/settings.h"
#include "common/err.h"

/* Takes the folder, runs until a signal says to stop, and lets go. The shims go on unless it was SIGINT.
 * 0, or -1 with a sentence when it could not start. */
int agent_run(const struct settings *settings, struct err *err);

#endif
