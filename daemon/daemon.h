/* daemon: puts belayd together: directory, store, core, turn, REST, agent link, signals. */
#ifndef BELAY_DAEMON_DAEMON_H
#define BELAY_DAEMON_DAEMON_H

#include "daemon/config.h"

/* Runs until SIGTERM or SIGINT (0) or until the disk fails (-1 with the sentence; also when it cannot start). */
int daemon_run(const struct config *config, struct err *err);

#endif
