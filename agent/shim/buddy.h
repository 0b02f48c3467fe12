/* buddy: which node holds a second copy of a node's images. Pure: the same on every node of an attempt. */
#ifndef BELAY_AGENT_SHIM_BUDDY_H
#define BELAY_AGENT_SHIM_BUDDY_H

#include <stddef.h>
#include <stdint.h>

/* The buddy of node i among n nodes whose racks are domains[0..n-1] ("" = not known, which counts as one rack); -1 when there is none (n = 1).
 *
 * Every node is the buddy of exactly one other, so that nobody holds more than its share. Its rack is another one for every node as long as no
 * rack has more than half of them; of a rack that has more, as many as there are others. */
int64_t buddy_of(const char *const *domains, size_t n, size_t i);

#endif
