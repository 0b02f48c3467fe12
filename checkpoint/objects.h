/* objects: one bucket of S3-compatible object storage, over libcurl.
 *
 * Every request is signed (AWS Signature Version 4) and says the hash of what it sends, so that what was damaged on its way is refused; what may
 * pass (5xx, 429, a connection that breaks, stalls or cannot be made, an answer cut short) is tried again after a pause that doubles, a bounded
 * number of times. A large object goes in parts, and one whose upload broke off is resumed: parts that are there already are not sent again.
 *
 * One struct objects belongs to one thread, in which SIGPIPE is blocked or ignored. Keys never leave objects_keys.h but into signatures. */
#ifndef BELAY_CHECKPOINT_OBJECTS_H
#define BELAY_CHECKPOINT_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/digest.h"
#include "common/err.h"

#define OBJECTS_PARTS_MAX 10000               /* of one object, by the protocol */
#define OBJECTS_PART_MIN  ((uint64_t)5 << 20) /* but for the last */

struct objects;

struct objects_place {
    const char *endpoint; /* "https://HOST:PORT"; NULL: AWS's of the region */
    const char *region, *bucket;
};

/* How patient requests are. */
struct objects_limits {
    int tries;                    /* of one request, the first included */
    int64_t pause_ms, longest_ms; /* before the second try; it doubles up to the longest */
    int64_t connect_ms;
    int64_t stall_s; /* less than 1 KiB/s for so long is a stall */
};
extern const struct objects_limits objects_usual_limits;

/* Shared with other threads while one works: they may set `cancel`, which ends what is under way within a tenth of a second or so, and read the
 * counters, which only grow. */
struct objects_watch {
    atomic_bool cancel;
    atomic_ullong sent, received; /* bytes of content that arrived whole */
    atomic_ullong parts, reused;  /* parts sent; parts that were there already */
    atomic_ullong retries;
};

enum objects_result {
    OBJECTS_OK = 0,
    OBJECTS_ERROR = -1,
    OBJECTS_ABSENT = 1, /* there is no such object; a sentence says so, too */
    OBJECTS_CANCELLED = 2
};

/* What is sent: `bytes` from `data`, or from byte `from` of fd on. It must not change meanwhile. */
struct objects_source {
    const void *data; /* NULL: fd */
    int fd;
    uint64_t from, bytes;
};

/* Opens no connection yet. All strings are copied; watch is borrowed, NULL is fine. limits NULL: the usual ones. NULL with a sentence when there are
 * no keys. */
struct objects *objects_open(const struct objects_place *place, const struct objects_limits *limits,
                             struct objects_watch *watch, struct err *err);
void objects_close(struct objects *o);

struct objects_info {
    uint64_t bytes;
    char hash[DIGEST_SIZE]; /* as given to objects_put; "" when it was put by something else */
};
enum objects_result objects_head(struct objects *o, const char *key, struct objects_info *out,
                                 struct err *err);

/* Makes or replaces an object. hash: its XXH3 (digest.h), checked while it is read and kept with it. What is larger than `part` bytes goes in parts of
 * that size (or larger: at most OBJECTS_PARTS_MAX). An upload of the same key that broke off is gone on with. One that fails here is given up and
 * removed; one that is cancelled stays, to be resumed. */
enum objects_result objects_put(struct objects *o, const char *key, const struct objects_source *source,
                                uint64_t part, const char *hash, struct err *err);

/* Bytes [from, from + bytes) of an object to fd, from its byte `at` on. A try goes on where the last one broke off. */
enum objects_result objects_get(struct objects *o, const char *key, uint64_t from, uint64_t bytes, int fd,
                                uint64_t at, struct err *err);

/* Removing what is not there is fine. */
enum objects_result objects_delete(struct objects *o, const char *key, struct err *err);

/* Calls each(ctx, key, bytes) for the objects whose keys begin with prefix, in the order of the keys. With `folders`, what has a slash behind the
 * prefix is told once, as the key up to that slash, with 0 bytes. each returns 0, or anything else to stop: that is no error. */
enum objects_result objects_list(struct objects *o, const char *prefix, bool folders,
                                 int (*each)(void *ctx, const char *key, uint64_t bytes), void *ctx,
                                 struct err *err);

/* Removes uploads that broke off, of keys that begin with prefix and for which gone(ctx, key) is true. A server that cannot list them has none. */
enum objects_result objects_sweep(struct objects *o, const char *prefix,
                                  bool (*gone)(void *ctx, const char *key), void *ctx, struct err *err);

#endif
