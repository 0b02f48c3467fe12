/* objects_retry: what is tried again, and when. Pure. */
#ifndef BELAY_CHECKPOINT_OBJECTS_RETRY_H
#define BELAY_CHECKPOINT_OBJECTS_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/objects.h"

/* May an answer with this status and <Code> ("" = none told) be another one when the request is sent again? */
bool objects_retry_status(long status, const char *code);

/* Milliseconds to wait after `tried` tries (1 = the first has failed), -1 when it is to be given up. The pause doubles with each try up to the longest;
 * half of it is left to chance, so that ranks which failed together do not come back together. asked_ms: what the server asked for (Retry-After,
 * 0 = nothing); it is granted up to twice the longest pause. random: any 64 bits. */
int64_t objects_retry_pause(const struct objects_limits *limits, int tried, int64_t asked_ms,
                            uint64_t random);

#endif
