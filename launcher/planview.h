/* planview: a plan as people and as programs read it. */
#ifndef BELAY_LAUNCHER_PLANVIEW_H
#define BELAY_LAUNCHER_PLANVIEW_H

#include <jansson.h>
#include <stdbool.h>

#include "planner/planner.h"
#include "planner/search.h"

/* Prints the report in sections: one sentence, then model, mesh, memory, traffic, step, cost. wide: every number that there is. */
void planview_report(const struct plan_request *request, const struct plan *plan, bool wide);

/* Prints the first `top` meshes as a table, and how many there are. */
void planview_search(const struct plan_request *base, const struct search_result *meshes, size_t count,
                     size_t top, bool wide);

/* {"model","mesh","flops","memory","traffic","step","cost"} (docs/cli.md). */
json_t *planview_json(const struct plan_request *request, const struct plan *plan);
/* Array of {"tp",…,"fits","seconds","mfu","tokens_per_s","memory","days","why"}. */
json_t *planview_search_json(const struct search_result *meshes, size_t count, size_t top);

#endif
