/* outbox: images on their way to the buddy node, one after the other in the order in which they were held.
 *
 * One that does not get there is tried again, with growing pauses, until it does or a newer image of its name takes its place. */
#ifndef BELAY_AGENT_SHIM_OUTBOX_H
#define BELAY_AGENT_SHIM_OUTBOX_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/shim/images.h"
#include "agent/shim/transfer.h"

struct outbox;

/* The word on an image for the one who held it: does the buddy have it? Once when it is sent, or when that cannot be waited for (there is no buddy, it is
 * away, a newer image is there); and a second time when the buddy has it after all. */
typedef void outbox_tell(void *ctx, int64_t caller, const struct memimage *image, bool buddy);

struct outbox *outbox_new(struct event_base *base, struct transfers *transfers, outbox_tell *tell, void *ctx);
void outbox_free(struct outbox *o); /* takes NULL; before the transfers are freed or after */

/* Who the buddy is; its address must stay valid. Before that there is none. */
void outbox_aim(struct outbox *o, const struct transfer_peer *buddy);

/* A new image (held on to while it is needed). */
void outbox_put(struct outbox *o, struct held *image, int64_t caller);

#endif
