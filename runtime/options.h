/* options: reading the values of the subcommands' options. Each looks at getopt's optarg and returns -1 to go on, or the exit code to end with,
 * whose reason was logged. */
#ifndef BELAY_RUNTIME_OPTIONS_H
#define BELAY_RUNTIME_OPTIONS_H

#include <stdint.h>

#include "kernels/kernels.h"

/* "WHAT; see belay-train COMMAND --help". Always the exit code. */
int options_bad(const char *command, const char *what);
/* --OPTION's whole number, min to max. */
int options_whole(const char *option, int64_t min, int64_t max, int64_t *out);
/* --OPTION's number, 0 to high. */
int options_real(const char *option, double high, double *out);
/* --precision fp32|bf16 */
int options_precision(const char *command, enum kernel_type *out);

#endif
