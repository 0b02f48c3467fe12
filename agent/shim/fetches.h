/* fetches: images that ranks of this node want from other nodes. What several want is fetched once; a few come at a time; a transfer that fails is
 * tried again for some seconds. */
#ifndef BELAY_AGENT_SHIM_FETCHES_H
#define BELAY_AGENT_SHIM_FETCHES_H

#include <event2/event.h>
#include <stdint.h>

#include "agent/shim/images.h"
#include "agent/shim/transfer.h"

struct fetches;

struct waiter {
    int64_t caller, question;
};

/* The end for one who waits: image (borrowed) or error. */
typedef void fetches_tell(void *ctx, struct waiter to, const struct memimage *want, struct held *image,
                          const char *error);

struct fetches *fetches_new(struct event_base *base, struct transfers *transfers, fetches_tell *tell,
                            void *ctx);
void fetches_free(struct fetches *f); /* takes NULL; nobody is told */

/* peer's address must stay valid. */
void fetches_add(struct fetches *f, const struct transfer_peer *peer, const struct memimage *want,
                 struct waiter waiter);

#endif
