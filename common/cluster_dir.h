/* cluster_dir: which cluster a program speaks to, or serves: one rule for belay and belayd, so that they meet. */
#ifndef BELAY_COMMON_CLUSTER_DIR_H
#define BELAY_COMMON_CLUSTER_DIR_H

#include "common/err.h"

/* The cluster's directory as an absolute path (fresh string): flag when not NULL, else $BELAY_DIR, else /var/lib/belay
 * as root, else $XDG_STATE_HOME/belay, else ~/.local/state/belay. It need not exist. NULL with a sentence when there is
 * no home folder to put it in, or the flag is empty. */
char *cluster_dir_choose(const char *flag, struct err *err);

#endif
