/* written: remembers what the database already holds, as fingerprints, so that a turn writes only what differs.
 *
 * A job whose progress alone changed is "lazy": it need not be written at once. An attempt's placement and the reports of its
 * nodes are large; each is written only when it changed. Forgetting an entry is harmless (it is then written again). */
#ifndef BELAY_DAEMON_WRITTEN_H
#define BELAY_DAEMON_WRITTEN_H

#include <stdbool.h>

#include "daemon/core/records.h"

struct written;

struct written *written_new(void);
void written_free(struct written *w);

/* Does more than progress differ from what was last written? */
bool written_job_differs(const struct written *w, const struct job_record *job);
/* The job is about to be written. Final jobs are forgotten: they hardly change again. */
void written_job(struct written *w, const struct job_record *job);

/* Does the placement differ from what was last written? Remembers the new one. */
bool written_placement_changes(struct written *w, const struct attempt_record *attempt);
/* As above for the row of one node (index into attempt->nodes). */
bool written_node_changes(struct written *w, const struct attempt_record *attempt, size_t node);
/* The attempt has ended and is written: its entry is dropped. */
void written_attempt_forget(struct written *w, const struct attempt_record *attempt);

#endif
