/* planview: a plan as people and as programs read it. */
#ifndef BELAY_LAUNCHER_PLANVIEW_H
#define BELAY_LAUNCHER_PLANVIEW_H

#include <jansson.h>
#include <stdbool.h>

#include "launcher/plannotes.h"
#include "planner/planner.h"
#include "planner/search.h"
#include "schema/verdict.h"

/* Prints the report in sections: one sentence and the notes, then model, mesh, memory, traffic, step, cost. wide: every number that there
 * is. */
void planview_report(const struct plan_request *request, const struct plan *plan,
                     const struct plannotes *notes, bool wide);

/* Prints the first `top` meshes as a table, and how many there are. verdicts: of those, in a cluster, or NULL. */
void planview_search(const struct plan_request *base, const struct search_result *meshes, size_t count,
                     size_t top, const struct verdict *verdicts, bool wide);

/* {"model","mesh","flops","memory","traffic","step","cost","notes"} (docs/cli.md). */
json_t *planview_json(const struct plan_request *request, const struct plan *plan,
                      const struct plannotes *notes);
/* Array of {"tp",…,"fits","seconds","mfu","tokens_per_s","memory","days","why"}, with verdicts also "verdict" and "sentence". */
json_t *planview_search_json(const struct search_result *meshes, size_t count, size_t top,
                             const struct verdict *verdicts);

#endif
