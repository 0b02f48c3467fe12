/* signals: requests from outside, noticed between steps. SIGUSR1 asks for a checkpoint now, SIGTERM and SIGINT for a checkpoint and the end. */
#ifndef BELAY_RUNTIME_SIGNALS_H
#define BELAY_RUNTIME_SIGNALS_H

#include <stdbool.h>

enum { SIGNALS_SAVE = 1, SIGNALS_STOP = 2 };

/* Installs the handlers. SIGPIPE is ignored: a closed terminal must not end a training. */
void signals_install(void);

/* The requests: for a checkpoint since the last call, for the end ever since it came. That one is not forgotten by being told: a step that is
 * rolled back cannot follow it, the next one can. */
int signals_take(void);
/* Was the end asked for? */
bool signals_stop(void);

#endif
