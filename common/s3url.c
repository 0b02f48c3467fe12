/* s3url: see s3url.h. */
#include "common/s3url.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "s3://"
#define LOWER  "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int bad_url(struct err *err, const char *why)
{
    return err_set(err, "must be s3://BUCKET or s3://BUCKET/PREFIX: %s", why);
}

/* What every server of objects takes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html */
static bool is_bucket(const char *name, size_t len)
{
    bool ends = len >= 3 && strchr(LOWER, name[0]) && strchr(LOWER, name[len - 1]);
    return ends && len <= S3URL_BUCKET_MAX && strspn(name, LOWER ".-") >= len;
}

/* Nothing between two slashes, "." and ".." would be other objects to some of those who read the address on its way. */
static bool has_odd_part(const char *prefix)
{
    for (const char *part = prefix;; part++) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len <= 2 && strspn(part, ".") >= len))
            return true;
        part += len;
        if (!*part)
            return false;
    }
}

static int parse_prefix(const char *prefix, size_t len, struct s3url *out, struct err *err)
{
    if (len > S3URL_PREFIX_MAX)
        return err_set(err, "must have a prefix of at most %d bytes, not %zu", S3URL_PREFIX_MAX, len);
    memcpy(out->prefix, prefix, len);
    out->prefix[len] = 0;
    if (strspn(out->prefix, LOWER UPPER "/._-=+@,:") != len)
        return bad_url(err, "a prefix has letters, digits and / . _ - = + @ , : only");
    if (len > 0 && has_odd_part(out->prefix))
        return bad_url(err, "a prefix has no //, and no . or .. between slashes");
    return 0;
}

int s3url_parse(const char *url, struct s3url *out, struct err *err)
{
    *out = (struct s3url){.bucket = ""};
    if (strncmp(url, SCHEME, strlen(SCHEME)) != 0)
        return bad_url(err, "it does not begin with " SCHEME);
    const char *bucket = url + strlen(SCHEME);
    size_t len = strcspn(bucket, "/");
    if (!is_bucket(bucket, len))
        return bad_url(err, "a bucket has 3 to 63 small letters, digits, . and -");
    memcpy(out->bucket, bucket, len);
    const char *prefix = bucket + len + (bucket[len] == '/');
    size_t rest = strlen(prefix);
    if (rest > 1 && prefix[rest - 1] == '/')
        rest--;
    return parse_prefix(prefix, rest, out, err);
}

static bool is_port(const char *port)
{
    size_t len = strlen(port);
    long number = len <= 5 && strspn(port, "0123456789") == len ? strtol(port, NULL, 10) : 0;
    return number > 0 && number <= 65535;
}

/* "[::1]" or "host.example"; its length, or 0. */
static size_t host_length(const char *host)
{
    if (*host != '[')
        return strspn(host, LOWER UPPER "._-");
    size_t inside = strspn(host + 1, LOWER UPPER ":.");
    return inside > 0 && host[1 + inside] == ']' ? inside + 2 : 0;
}

int s3url_check_endpoint(const char *endpoint, struct err *err)
{
    size_t scheme = strncmp(endpoint, "https://", 8) == 0 ? 8 : strncmp(endpoint, "http://", 7) == 0 ? 7 : 0;
    const char *host = endpoint + scheme;
    if (strchr(host, '@'))
        return err_set(err, "must not hold a name or a key; keys come from AWS_ACCESS_KEY_ID and "
                            "AWS_SECRET_ACCESS_KEY, or from ~/.aws/credentials");
    size_t len = scheme > 0 ? host_length(host) : 0;
    if (len == 0 || (host[len] && !(host[len] == ':' && is_port(host + len + 1))))
        return err_set(err, "must be https://HOST or https://HOST:PORT (http:// too), with nothing behind");
    return 0;
}

int s3url_check_region(const char *region, struct err *err)
{
    size_t len = strlen(region);
    if (len == 0 || len > S3URL_REGION_MAX || strspn(region, LOWER "-") != len)
        return err_set(err, "must be the name of a region, such as eu-central-1");
    return 0;
}
