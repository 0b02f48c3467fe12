/* verdictview: a verdict (schema/verdict.h) for people: one plain sentence first, then the facts behind it. */
#ifndef BELAY_LAUNCHER_VERDICTVIEW_H
#define BELAY_LAUNCHER_VERDICTVIEW_H

#include "schema/verdict.h"

/* subject: who the sentence speaks of, e.g. "Job 3 (big)" or "If it were submitted now, it". To stdout. */
void verdictview_print(const struct verdict *verdict, const char *subject);

/* The exit code of `belay plan`: 0 could start now (or is running), 6 would wait, 7 can never run. */
int verdictview_exit(const struct verdict *verdict);

#endif
