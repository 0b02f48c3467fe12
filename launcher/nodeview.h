/* nodeview: node objects as belayd sends them. */
#ifndef BELAY_LAUNCHER_NODEVIEW_H
#define BELAY_LAUNCHER_NODEVIEW_H

#include <jansson.h>
#include <stdbool.h>

/* A table of all, to stdout. */
void nodeview_table(const json_t *nodes, bool wide);

/* "key: value" lines, to stdout. */
void nodeview_block(const json_t *node);

/* The ids of its jobs, "3 7"; fresh string. */
char *nodeview_jobs(const json_t *node);

#endif
