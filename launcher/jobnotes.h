/* jobnotes: what is no mistake in a job file, but what somebody who hands it in should know: said on stderr, never refused. */
#ifndef BELAY_LAUNCHER_JOBNOTES_H
#define BELAY_LAUNCHER_JOBNOTES_H

#include "schema/job.h"

/* A line "FILE: note: sentence" for each: a part of the file without effect, what a training would read and this host does not have, and
 * memory that is not set aside. file: as it was given. */
void jobnotes_print(const char *file, const struct job_spec *spec);

#endif
