/* jobfile: a job file on its way to belayd: read once, checked here with the same reader that belayd uses. */
#ifndef BELAY_LAUNCHER_JOBFILE_H
#define BELAY_LAUNCHER_JOBFILE_H

#include <jansson.h>
#include <stddef.h>

#include "launcher/args.h"
#include "launcher/client.h"
#include "schema/job.h"

struct jobfile {
    const char *name; /* as given, "-" = stdin */
    char *text;
    size_t len;
    struct job_spec *spec;
};

/* Reads and checks, and says what is no mistake but may be one (jobnotes). CLI_DONE with *out filled (jobfile_clear), or CLI_USAGE after
 * printing what is wrong. */
int jobfile_load(const char *name, const struct args_list *sets, struct jobfile *out);
/* As jobfile_load, for a job that is only planned: what the bundled runtime cannot do yet is accepted. */
int jobfile_load_plan(const char *name, const struct args_list *sets, struct jobfile *out);
void jobfile_clear(struct jobfile *f);

/* Prints "N more" and the diagnostics, one a line, on stderr. */
void jobfile_print_diagnostics(const struct job_diagnostics *d);

/* Hands it to belayd, under one key as often as the connection breaks. CLI_DONE with *id, or prints and returns the code. */
int jobfile_submit(struct client *c, const struct jobfile *f, const struct args_list *sets, int64_t *id);

/* Both for a command line: load, submit. */
int jobfile_send(struct client *c, const char *name, const struct args_list *sets, int64_t *id);

#endif
