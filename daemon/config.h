/* config: belayd's settings: flags, then BELAY_* variables, then DIR/belay.conf ("key = value", # starts a comment). */
#ifndef BELAY_DAEMON_CONFIG_H
#define BELAY_DAEMON_CONFIG_H

#include <stdbool.h>

#include "common/err.h"
#include "daemon/core/core.h"

struct config {
    char *dir;    /* absolute; --dir, BELAY_DIR, else /var/lib/belay as root or $XDG_STATE_HOME/belay */
    char *listen; /* host of the agent link */
    int port;     /* 0 = the one of the last run if it is free, else any */
    int64_t heartbeat_ms;
    struct cluster_spec *cluster; /* the cluster file, or NULL; core.cluster borrows it */
    struct core_config core;
    bool help, version; /* asked for: print and exit 0 */
};

/* Reads all three sources; makes the directory. The caller zeroes config and calls config_clear in any case. */
int config_load(struct config *config, int argc, char *const *argv, struct err *err);
void config_clear(struct config *config);

/* What --help prints. */
extern const char *const config_help;

#endif
