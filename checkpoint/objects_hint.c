/* objects_hint: see objects_hint.h. */
#include "checkpoint/objects_hint.h"

#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define KEYS     "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials"

static const struct {
    const char *code, *hint;
} hints[] = {
    {"NoSuchBucket", "make the bucket, or correct checkpoint.upload.url"},
    {"InvalidAccessKeyId", KEYS},
    {"SignatureDoesNotMatch", KEYS},
    {"InvalidToken", KEYS ", and AWS_SESSION_TOKEN"},
    {"ExpiredToken", "give the job new keys; those in ~/.aws/credentials are read again for every request"},
    {"AccessDenied", "these keys may not do that: change the bucket's policy, or use others"},
    {"RequestTimeTooSkewed", "set this host's clock"},
    {"NoSuchUpload", "somebody else ended this upload: is another job using the same checkpoint.upload.url?"},
};

const char *objects_hint(const char *code, const char *region, char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < COUNT(hints); i++)
        if (strcmp(hints[i].code, code) == 0)
            (void)snprintf(out, size, "; %s", hints[i].hint);
    if (!out[0] && region && *region)
        (void)snprintf(out, size, "; the bucket is in %.63s: set checkpoint.upload.region", region);
    return out;
}
