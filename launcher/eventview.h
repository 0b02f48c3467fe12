/* eventview: events as belayd sends them, shown as rows or in one line. */
#ifndef BELAY_LAUNCHER_EVENTVIEW_H
#define BELAY_LAUNCHER_EVENTVIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A table of all, to stdout. */
void eventview_table(const json_t *events, bool wide);

/* One line that lines up with the next, for lists that go on. */
void eventview_row(FILE *out, const json_t *event);

/* The largest id among them, or `after` when there is none. */
int64_t eventview_last(const json_t *events, int64_t after);

#endif
