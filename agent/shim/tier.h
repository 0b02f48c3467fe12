/* tier: the memory tier of one attempt on this node: images of its ranks and of the node whose buddy this is.
 *
 * How it works: ranks hand over descriptors through a socket of packets (common/memory.h is their side); each image that a rank hands over is
 * sent to the buddy node, one after the other, tried again until it is there or a newer one takes its place; what another node holds
 * is fetched when a rank asks for it. The shim of the next attempt on this node takes everything over through a second socket, in the attempt's
 * folder. What always holds: nothing here blocks the loop; a rank or a node that vanishes in the middle changes nothing. */
#ifndef BELAY_AGENT_SHIM_TIER_H
#define BELAY_AGENT_SHIM_TIER_H

#include <event2/event.h>
#include <jansson.h>
#include <sys/types.h>

#include "common/err.h"
#include "schema/link.h"

struct tier;

/* Opens both sockets: for ranks at rank_socket, to be used by uid and this process's user only, and dir/memory.sock. The order's token and
 * rank_socket are copied. NULL with a sentence. */
struct tier *tier_open(struct event_base *base, const struct link_order *order, uid_t uid,
                       const char *rank_socket, const char *dir, struct err *err);
void tier_free(struct tier *t); /* takes NULL */

/* Takes over what shims of earlier attempts of the job on this node still hold: those whose folders stand beside dir. Waits for at most a few
 * seconds; whatever cannot be had is left, with a line in the log. */
void tier_take_over(struct tier *t, const char *dir);

/* The map is known: who the buddy is, and where the other nodes are. */
void tier_go(struct tier *t, const struct link_order *order);

/* Another shim of the attempt comes (overlay_events.memory). */
void tier_visitor(struct tier *t, int fd, const json_t *line);

/* The ranks are gone: their socket is closed. What is held stays. */
void tier_end_ranks(struct tier *t);

#endif
