/* simsvg: utilisation and goodput over time as one self-contained SVG. */
#ifndef BELAY_LAUNCHER_SIMSVG_H
#define BELAY_LAUNCHER_SIMSVG_H

#include <stdio.h>

#include "sim/sim.h"

/* Writes it; the same result gives the same bytes. Errors of writing stay in `out` (ferror). */
void simsvg_write(FILE *out, const struct sim_result *result, const char *title);

#endif
