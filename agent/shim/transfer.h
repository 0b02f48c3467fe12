/* transfer: images between the shims of one attempt, each over a TCP connection of its own to the other's port.
 *
 * The one that connects proves that it belongs to the attempt and says what it wants in one line; the other answers with one line; the
 * bytes go one way. Everything is done in small pieces from the loop, so that nothing else waits. A transfer that breaks or stands still
 * changes nothing: what was received is thrown away, and the one that asked hears why. Whatever is received is held only when its hash is right. */
#ifndef BELAY_AGENT_SHIM_TRANSFER_H
#define BELAY_AGENT_SHIM_TRANSFER_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/shim/images.h"
#include "common/err.h"

struct transfers;

struct transfer_id {
    int64_t job, attempt, node_rank;
    const char *token; /* must outlive the transfers */
};

struct transfers *transfers_new(struct event_base *base, const struct transfer_id *id, struct images *images);
void transfers_free(struct transfers *t); /* takes NULL; ends what is under way without a word */

struct transfer_peer {
    const char *addr;
    int64_t port;
};

/* How a transfer ended that this side asked for. */
struct transfer_end {
    struct held *image; /* that was fetched; borrowed */
    const char *error;  /* NULL: it went well */
    bool hopeless;      /* the other side has spoken: to ask again would not help */
};
typedef void transfer_done(void *ctx, const struct transfer_end *end); /* called once, from the loop */

/* Sends an image for the other side to hold; it is held on to meanwhile. */
void transfer_push(struct transfers *t, const struct transfer_peer *peer, struct held *image,
                   transfer_done *done, void *ctx);
/* Fetches an image and holds it here, as images_adopt does. */
void transfer_fetch(struct transfers *t, const struct transfer_peer *peer, const struct memimage *want,
                    transfer_done *done, void *ctx);

/* The line by which another shim says who it is (which the port has checked with transfer_proof) and what it wants; fd is taken over. */
void transfer_serve(struct transfers *t, int fd, const json_t *line);

#define TRANSFER_PROOF_TEXT 128
/* What the proof of node_rank is made over, with the attempt's token. */
void transfer_proof_text(int64_t job, int64_t attempt, int64_t node_rank, char out[TRANSFER_PROOF_TEXT]);

#endif
