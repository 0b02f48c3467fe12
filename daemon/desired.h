/* desired: the message that tells a node the full set of attempts that it should be running (docs/protocols.md section 1).
 *
 * In an attempt on thousands of nodes the map of ranks is most of each message, and the same in all of them: it becomes text once and is
 * lent to every message, without being copied. */
#ifndef BELAY_DAEMON_DESIRED_H
#define BELAY_DAEMON_DESIRED_H

#include <event2/buffer.h>

#include "schema/link.h"

struct desired;

struct desired *desired_new(void);
void desired_free(struct desired *desired); /* takes NULL; what was written stays valid */

/* What a node is to do: orders, and the jobs whose ended attempts there keep what they hold in memory. Borrowed. */
struct desired_set {
    const struct link_order *orders;
    size_t n_orders;
    const int64_t *keep;
    size_t n_keep;
};

/* Appends the line, newline included, to out. Returns a hash of what it says, never 0. The map of an attempt never changes. */
uint64_t desired_write(struct desired *desired, const struct desired_set *set, struct evbuffer *out);

#endif
