/* s3url: where objects are kept, as people write it: s3://bucket/prefix, an endpoint, a region. Pure. */
#ifndef BELAY_COMMON_S3URL_H
#define BELAY_COMMON_S3URL_H

#include "common/err.h"

#define S3URL_BUCKET_MAX 63
#define S3URL_PREFIX_MAX 800 /* a key has at most 1024 bytes, and names of checkpoints' files follow */
#define S3URL_REGION_MAX 63

struct s3url {
    char bucket[S3URL_BUCKET_MAX + 1];
    char prefix[S3URL_PREFIX_MAX + 1]; /* without a slash at either end; "" = the bucket's top */
};

/* "s3://runs/llama/8b" gives "runs" and "llama/8b"; one slash at the end is left out. The sentence of an error begins "must" and goes on behind the
 * name of what was given. 0 or -1. */
int s3url_parse(const char *url, struct s3url *out, struct err *err);

/* Is it "https://HOST" or "http://HOST", with a port or not, and nothing behind? 0, or -1 with a sentence of the same kind. */
int s3url_check_endpoint(const char *endpoint, struct err *err);

/* Is it a name such as "eu-central-1"? 0, or -1 with a sentence of the same kind. */
int s3url_check_region(const char *region, struct err *err);

#endif
