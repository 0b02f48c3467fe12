/* turn: one round of the daemon: events have been given to the core; decide, commit, and only then let anyone see it.
 *
 * Whoever gives the core an event calls turn_poke. The turn runs when the sockets are quiet for a moment, so that all requests of
 * one loop iteration (and those that arrive while they are read) share one transaction. Everything that may be seen outside
 * (a reply, an order, an acknowledgement) is made in turn_after callbacks or commit hooks. */
#ifndef BELAY_DAEMON_TURN_H
#define BELAY_DAEMON_TURN_H

#include <event2/event.h>

#include "daemon/core/core.h"
#include "daemon/store.h"

struct turn;

/* base must have TURN_PRIORITIES priorities. core and store are borrowed. on_failure is called once, after everybody who waited
 * was told, when a commit failed: memory is ahead of the disk, so the caller must end the loop. */
#define TURN_PRIORITIES 3
struct turn *turn_new(struct event_base *base, struct core *core, struct store *store,
                      void (*on_failure)(void *ctx, const struct err *why), void *ctx);
void turn_free(struct turn *turn);

/* Borrowed: what the turn was made of. */
struct core *turn_core(struct turn *turn);
struct store *turn_store(struct turn *turn);

/* The time now, for the core. */
struct core_time turn_time(void);

/* Something was given to the core (or waits for a turn): run one soon. */
void turn_poke(struct turn *turn);

/* Calls fn after the next commit: failure NULL = everything given to the core until now is on disk; else nothing of it can be
 * relied on and the sentence says why. Pokes. */
void turn_after(struct turn *turn, void (*fn)(void *ctx, const struct err *failure), void *ctx);

/* fn is called after every commit with what changed, before the turn_after callbacks. At most TURN_HOOKS_MAX. */
#define TURN_HOOKS_MAX 4
void turn_on_commit(struct turn *turn, void (*fn)(void *ctx, const struct core_changes *changes), void *ctx);

/* Runs a turn now (at the end, so that nothing that was accepted stays unanswered). */
void turn_run(struct turn *turn);

/* Why nothing can be kept any more, or NULL. */
const struct err *turn_failure(const struct turn *turn);

#endif
