/* digest: XXH3 with 128 bits of files and streams, as 32 hex digits. Finds damage by accident, not on purpose. */
#ifndef BELAY_CHECKPOINT_DIGEST_H
#define BELAY_CHECKPOINT_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DIGEST_SIZE 33 /* 32 hex digits + NUL */

struct digest;
struct digest *digest_new(void);
void digest_add(struct digest *digest, const void *data, size_t len);
/* Writes the digits and frees the digest. */
void digest_end(struct digest *digest, char out[DIGEST_SIZE]);

/* The digest of len bytes at once. */
void digest_bytes(const void *data, size_t len, char out[DIGEST_SIZE]);

/* Whom to tell how far a long reading is: called with the number of bytes that have come to what was read before. */
struct digest_watch {
    void (*seen)(void *arg, size_t bytes);
    void *arg;
};

/* Reads a whole file. 0, or -1 with a sentence. */
int digest_file(const char *path, uint64_t *bytes, char out[DIGEST_SIZE], struct err *err);
/* The same, watched (NULL: not). */
int digest_file_watched(const char *path, const struct digest_watch *watch, uint64_t *bytes,
                        char out[DIGEST_SIZE], struct err *err);

#endif
