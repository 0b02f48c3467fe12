/* idmap: a hash map from strings to pointers (nodes by name, jobs by idempotency key or checkpoint directory).
 *
 * Open addressing with linear probing, at most half full; removal shifts back, so there are no tombstones. Keys are copied. */
#ifndef BELAY_DAEMON_CORE_IDMAP_H
#define BELAY_DAEMON_CORE_IDMAP_H

#include <stddef.h>

struct idmap;

struct idmap *idmap_new(void);
void idmap_free(struct idmap *map); /* the values stay the caller's */

/* The value of key, or NULL. */
void *idmap_get(const struct idmap *map, const char *key);
/* Sets key to value (not NULL), replacing an older one. */
void idmap_put(struct idmap *map, const char *key, void *value);
/* Forgets key; an unknown key is fine. */
void idmap_remove(struct idmap *map, const char *key);
size_t idmap_count(const struct idmap *map);

#endif
