/* scratch: the folder on tmpfs that one attempt works in on one node, <place>/belay-<job>.<attempt>-XXXXXXXX. */
#ifndef BELAY_COMMON_SCRATCH_H
#define BELAY_COMMON_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>

/* A fresh name that nobody else can guess, below the first place that can be written to. It is chosen before the folder is made, so
 * that whoever is to make it can first put down, durably, what has to be removed one day. The caller frees. */
char *scratch_name(int64_t job, int64_t attempt);

/* Is this path a scratch folder of the attempt called "7.2"? (It is about to be removed with all that is in it.) */
bool scratch_is_of(const char *path, const char *attempt);

#endif
