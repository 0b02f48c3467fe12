/* secret: the cluster's secret, DIR/secret: 32 random bytes in hex, readable by its owner alone. */
#ifndef BELAY_DAEMON_SECRET_H
#define BELAY_DAEMON_SECRET_H

#include "common/err.h"

/* Reads it, or makes it (mode 0600, durable) when missing. A fresh string, or NULL: a mode that lets others read it, a file
 * that is not ours, or content that is no secret, each refused with what to do. */
char *secret_load(const char *path, struct err *err);

#endif
