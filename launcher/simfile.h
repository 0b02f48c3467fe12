/* simfile: where a scenario comes from: a file, which is read as often as it is needed, or the standard input, which can be read once. */
#ifndef BELAY_LAUNCHER_SIMFILE_H
#define BELAY_LAUNCHER_SIMFILE_H

#include "launcher/args.h"
#include "schema/scenario.h"

struct simfile {
    const char *name; /* as given, "-" = stdin; borrowed */
    char *text;       /* of stdin, else NULL */
    size_t len;
};

/* CLI_DONE with *out (simfile_close), or CLI_USAGE after saying what is wrong. Files that a scenario on stdin names are looked up in the
 * current folder. */
int simfile_open(const char *name, struct simfile *out);
void simfile_close(struct simfile *file);

/* The scenario with "key=value" put into it. CLI_DONE with *out (scenario_free), or CLI_USAGE after printing what is wrong. */
int simfile_scenario(const struct simfile *file, const char *const *sets, size_t n_sets,
                     struct scenario **out);

#endif
