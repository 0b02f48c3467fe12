/* inherit: the images that shims of earlier attempts of the job on this node still hold. */
#ifndef BELAY_AGENT_SHIM_INHERIT_H
#define BELAY_AGENT_SHIM_INHERIT_H

#include "agent/shim/images.h"

#define INHERIT_SOCKET "memory.sock" /* in an attempt's folder */

/* Takes over whatever is held behind the memory.sock of the folders beside dir (".../attempts/7.3") that are of the same job: the shims of
 * earlier attempts. Blocking, for at most five seconds together; what cannot be had is left, with a line in the log. */
void inherit(struct images *images, const char *dir);

#endif
