/* objects_sum: the hashes that go with what is sent; see objects_call.h. */
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/objects_call.h"
#include "common/mem.h"
#include "common/proof.h"

#define READ_BYTES (1u << 20)

static void print_hex(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

static EVP_MD_CTX *begin(const EVP_MD *kind)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (!c || EVP_DigestInit_ex(c, kind, NULL) != 1)
        abort(); /* out of memory, as mem_zero does */
    return c;
}

struct sums {
    EVP_MD_CTX *sha, *md5;
    struct digest *whole;
};

static void add(struct sums *s, const void *data, size_t len)
{
    if (EVP_DigestUpdate(s->sha, data, len) != 1 || EVP_DigestUpdate(s->md5, data, len) != 1)
        abort(); /* cannot fail with the hashes that libcrypto has built in */
    if (s->whole)
        digest_add(s->whole, data, len);
}

static int add_file(struct sums *s, const struct objects_source *source, struct err *err)
{
    char *buffer = mem_grow(NULL, READ_BYTES, 1);
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < source->bytes;) {
        uint64_t left = source->bytes - at;
        ssize_t n =
            pread(source->fd, buffer, left < READ_BYTES ? left : READ_BYTES, (off_t)(source->from + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(err, "it cannot be read");
        else if (n == 0)
            rc = err_set(err, "the file is shorter than the %" PRIu64 " bytes that it should have",
                         source->from + source->bytes);
        else
            add(s, buffer, (size_t)n);
        at += n > 0 ? (uint64_t)n : 0;
    }
    free(buffer);
    return rc;
}

int objects_sum(const struct objects_source *source, struct objects_sums *out, struct digest *whole,
                struct err *err)
{
    unsigned char sha[EVP_MAX_MD_SIZE], md5[EVP_MAX_MD_SIZE];
    struct sums s = {begin(EVP_sha256()), begin(EVP_md5()), whole};
    int rc = 0;
    if (source->data)
        add(&s, source->data, source->bytes);
    else
        rc = add_file(&s, source, err);
    if (EVP_DigestFinal_ex(s.sha, sha, NULL) != 1 || EVP_DigestFinal_ex(s.md5, md5, NULL) != 1)
        abort();
    print_hex(sha, 32, out->sha256);
    print_hex(md5, 16, out->md5);
    char *base64 = base64_encode(md5, 16);
    memcpy(out->md5_base64, base64, sizeof out->md5_base64);
    free(base64);
    EVP_MD_CTX_free(s.sha);
    EVP_MD_CTX_free(s.md5);
    return rc;
}
