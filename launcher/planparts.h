/* planparts: the parts of a plan's memory and of its step by name, for the report and for JSON, so that both show the same. */
#ifndef BELAY_LAUNCHER_PLANPARTS_H
#define BELAY_LAUNCHER_PLANPARTS_H

#include <stddef.h>

#include "planner/planner.h"

extern const size_t planparts_memory_count, planparts_step_count;

/* Bytes of part i, and its name, which is its JSON key. */
double planparts_memory(const struct plan *plan, size_t i);
const char *planparts_memory_name(size_t i);

/* Seconds of part i, its JSON key, and it in words. They add up to the step. */
double planparts_step(const struct plan *plan, size_t i);
const char *planparts_step_key(size_t i);
const char *planparts_step_words(size_t i);

#endif
