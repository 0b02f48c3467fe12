/* written: remembers what the database already holds, as fingerprints, so that a turn writes only what differs.
 *
 * An attempt's placement and the reports of its nodes are large; each is written only when it changed. Forgetting an entry is
 * harmless (its parts are then written again). */
#ifndef BELAY_DAEMON_WRITTEN_H
#define BELAY_DAEMON_WRITTEN_H

#include <stdbool.h>

#include "daemon/core/records.h"

struct written;

struct written *written_new(void);
void written_free(struct written *w);

/* Does the placement differ from what was last written? Remembers the new one. */
bool written_placement_changes(struct written *w, const struct attempt_record *attempt);
/* As above for the row of one node (index into attempt->nodes). */
bool written_node_changes(struct written *w, const struct attempt_record *attempt, size_t node);
/* The attempt has ended and is written: its entry is dropped. */
void written_attempt_forget(struct written *w, const struct attempt_record *attempt);

#endif
