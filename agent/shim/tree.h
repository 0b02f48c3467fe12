/* tree: the shape of the tree of shims and the frames that travel along it. Pure: no sockets here (overlay has those).
 *
 * Nodes are numbered 0..n-1 by node_rank like a heap of radix 32: the children of i are 32*i+1 .. 32*i+32. 3,072 nodes are
 * four levels deep.
 *
 * A frame on the wire, all numbers big-endian:
 *   u32 length of what follows | u8 type | u8 0 0 0 | u32 source | u32 target | i32 status | u64 id | u32 key length | key | data */
#ifndef BELAY_AGENT_SHIM_TREE_H
#define BELAY_AGENT_SHIM_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define TREE_RADIX     32
#define TREE_FRAME_MAX (256u << 20) /* the business cards of 24,576 ranks in one fence are some 30 MiB */
#define TREE_HEADER    32           /* bytes before the key, the length included */

int64_t tree_parent(int64_t node);           /* -1 for node 0 */
int64_t tree_child(int64_t node, int64_t i); /* the i-th child, 0..31; may be >= the number of nodes */
int64_t tree_child_count(int64_t node, int64_t nodes); /* children that exist among nodes */
bool tree_in_subtree(int64_t node, int64_t top);       /* is node below top, or top itself? */
int64_t tree_next_hop(int64_t from, int64_t to); /* the neighbour of `from` on the way to `to` != from */

enum frame_type {
    FRAME_FENCE_UP = 1,  /* key: fence, data: fence_pack'ed contributions of a whole subtree */
    FRAME_FENCE_DOWN,    /* key: fence, data: all contributions in node order */
    FRAME_MODEX_REQUEST, /* key: rank in decimal, id: the asker's number */
    FRAME_MODEX_ANSWER,  /* id: the asker's number, data: the rank's blob */
    FRAME_TYPE_END
};

struct frame {
    enum frame_type type;
    uint32_t source, target; /* node_ranks; source made it, target consumes it */
    int32_t status;          /* a pmix_status_t */
    uint64_t id;
    const char *key; /* not NUL-terminated after decoding */
    size_t key_len;
    const void *data;
    size_t len;
};

/* Writes everything before the key. The caller sends header, key, data. */
void frame_encode_header(const struct frame *f, uint8_t out[TREE_HEADER]);

/* How many bytes the frame takes that starts with these four: 0 or -1 when no frame can be that short or long. */
int frame_size(const uint8_t head[4], size_t *size, struct err *err);

/* Takes one whole frame of `size` bytes apart; key and data point into buf. 0 or -1. */
int frame_decode(const uint8_t *buf, size_t size, struct frame *out, struct err *err);

#endif
