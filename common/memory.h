/* memory: a rank's side of the memory tier (docs/checkpoints.md): images are handed to the shim of this node, which holds them across
 * the rank's end, and are got back from it.
 *
 * The socket is named by BELAY_MEMORY_SOCKET; without that variable the job has no memory tier. memory_hold only sends and all the others only
 * receive answers, so one thread may hold while another uses the rest; no function may be in two threads at once. */
#ifndef BELAY_COMMON_MEMORY_H
#define BELAY_COMMON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/memimage.h"

#define MEMORY_SOCKET_ENV "BELAY_MEMORY_SOCKET"
#define MEMORY_HERE       (-1) /* this node, for memory_image */

struct memory_tier;

/* Connects to the shim. NULL with a sentence. */
struct memory_tier *memory_open(const char *path, struct err *err);
void memory_close(struct memory_tier *m); /* takes NULL; what is held stays held */

/* Hands over the image in fd, a memory file of exactly image->bytes bytes by memimage_new, or another memfd that allows sealing (its size is sealed
 * then). The shim has a descriptor of its own; the caller keeps fd and may write into it again once a newer image of that name is held (what
 * was said of this one is then wrong, which its hash shows).
 * image->attempt is not looked at: it is this attempt. An image ends those of its name that have the same or a later step (training went
 * back), and of those left the newest two stay. Returns when it is sent: memory_poll tells when it is held. 0, or -1 when the shim is gone or
 * does not listen. */
int memory_hold(struct memory_tier *m, const struct memimage *image, int fd, struct err *err);

/* The shim's word on one memory_hold. */
struct memory_held {
    int64_t step;
    char name[MEMIMAGE_NAME_MAX + 1];
    bool buddy;      /* the buddy node holds it, too */
    char error[256]; /* "" = it is held; else why not */
};

/* What the shim has said since the last call: writes at most max words and returns how many, 0 when there is nothing. Never waits. There is one word
 * for each memory_hold: when the buddy has the image, or, with buddy false, when there is none, or it could not be reached, or a newer image
 * of that name took its place. An image whose buddy was reached after all later is told again, with buddy true. -1 when the shim is gone. */
int memory_poll(struct memory_tier *m, struct memory_held *out, size_t max, struct err *err);

/* Everything that the shim of this node holds, its buddy's images and those of earlier attempts included: a fresh array. Waits for at most
 * timeout_ms. 0 or -1. */
int memory_list(struct memory_tier *m, int timeout_ms, struct memimage **images, size_t *n, struct err *err);

/* The image `want`, as memory_list told of it on the node with that node_rank of this attempt (MEMORY_HERE: this one); another node's is fetched first,
 * verified by its hash, and then held here as well. A descriptor to be read only, the caller's to close, or -1 with a sentence. Waits for at most
 * timeout_ms. The content of an image that was here all the time is not verified: whoever uses it checks the hash. */
int memory_image(struct memory_tier *m, const struct memimage *want, int64_t node, int timeout_ms,
                 struct err *err);

#endif
