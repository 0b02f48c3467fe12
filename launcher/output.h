/* output: what listings have in common. */
#ifndef BELAY_LAUNCHER_OUTPUT_H
#define BELAY_LAUNCHER_OUTPUT_H

#include <jansson.h>

/* Prints the value indented, with a newline. */
void output_json(const json_t *value);

/* On one line, flushed: for listings that go on. */
void output_json_line(const json_t *value);

#endif
