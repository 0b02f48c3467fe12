/* progress: what ranks said of themselves while the controller could not be told, bounded. */
#ifndef BELAY_AGENT_PROGRESS_H
#define BELAY_AGENT_PROGRESS_H

#include <stddef.h>

#include "schema/link.h"

struct progress;

/* Keeps at most `limit` messages; when full the oldest goes. */
struct progress *progress_new(size_t limit);
void progress_free(struct progress *p);

/* Adds a message. Newest wins per rank and key, except that one naming a CHECKPOINT_* key stays a message of its own.
 * Copies what it needs. */
void progress_add(struct progress *p, const struct link_progress *msg);

/* The oldest message, or NULL; valid until the next call that changes p. progress_pop drops it. */
const struct link_progress *progress_first(const struct progress *p);
void progress_pop(struct progress *p);

#endif
