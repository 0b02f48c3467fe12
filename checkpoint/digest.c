/* digest: see digest.h. */
#include "checkpoint/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include "checkpoint/account.h"
#include "common/mem.h"

#define READ_BYTES (1u << 20)

struct digest {
    XXH3_state_t *state;
};

static void print_hash(XXH128_hash_t hash, char out[DIGEST_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, hash);
    for (size_t i = 0; i < sizeof bytes.digest; i++) {
        out[2 * i] = digits[bytes.digest[i] >> 4];
        out[2 * i + 1] = digits[bytes.digest[i] & 15];
    }
    out[DIGEST_SIZE - 1] = 0;
}

struct digest *digest_new(void)
{
    struct digest *d = mem_zero(1, sizeof *d);
    d->state = XXH3_createState();
    if (!d->state)
        abort(); /* out of memory, as mem_zero does */
    XXH3_128bits_reset(d->state);
    return d;
}

void digest_add(struct digest *digest, const void *data, size_t len)
{
    XXH3_128bits_update(digest->state, data, len);
}

void digest_end(struct digest *digest, char out[DIGEST_SIZE])
{
    print_hash(XXH3_128bits_digest(digest->state), out);
    XXH3_freeState(digest->state);
    free(digest);
}

void digest_bytes(const void *data, size_t len, char out[DIGEST_SIZE])
{
    print_hash(XXH3_128bits(data, len), out);
}

int digest_file(const char *path, uint64_t *bytes, char out[DIGEST_SIZE], struct err *err)
{
    return digest_file_watched(path, NULL, bytes, out, err);
}

int digest_file_watched(const char *path, const struct digest_watch *watch, uint64_t *bytes,
                        char out[DIGEST_SIZE], struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "cannot open %s", path);
    struct digest *d = digest_new();
    char *buffer = mem_grow(NULL, READ_BYTES, 1);
    ssize_t n;
    *bytes = 0;
    while ((n = read(fd, buffer, READ_BYTES)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        digest_add(d, buffer, (size_t)n);
        *bytes += (uint64_t)n;
        if (watch)
            watch->seen(watch->arg, (size_t)n);
    }
    int rc = n == 0 ? 0 : err_sys(err, "cannot read %s", path);
    if (account_counts(fd))
        account_read(*bytes);
    digest_end(d, out);
    free(buffer);
    close(fd);
    return rc;
}
