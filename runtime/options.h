/* options: reading the options of belay-train and its subcommands, and their values. Each returns -1 to go on, or the exit code to end with, whose
 * reason was logged; those of values look at getopt's optarg. */
#ifndef BELAY_RUNTIME_OPTIONS_H
#define BELAY_RUNTIME_OPTIONS_H

#include <getopt.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "schema/job.h"

/* Reads the options among the words behind argv[0]: calls apply with the number of each (from 256 on, so that no letter is one) until that returns
 * 0 or more. What is no option is left at the end, from optind on. `command` is the subcommand's name, NULL for belay-train itself. */
int options_read(const char *command, const struct option *table, int argc, char **argv,
                 int (*apply)(int option, void *arg), void *arg);
/* "WHAT; see belay-train COMMAND --help". Always the exit code. */
int options_bad(const char *command, const char *what);
/* --OPTION's whole number, min to max. */
int options_whole(const char *option, int64_t min, int64_t max, int64_t *out);
/* --OPTION's number, 0 to high. */
int options_real(const char *option, double high, double *out);
/* --precision fp32|bf16 */
int options_precision(const char *command, enum kernel_type *out);
/* --device auto|cpu|gpu */
int options_device(const char *command, enum job_device *out);

#endif
