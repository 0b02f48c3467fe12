/* objects_address: see objects_address.h. */
#include "checkpoint/objects_address.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define PARAMS_MAX 8

static bool is_plain(char c, bool slashes_stay)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    return strchr(plain, c) || (c == '/' && slashes_stay);
}

char *objects_encode(const char *text, bool slashes_stay)
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = mem_zero(3 * strlen(text) + 1, 1), *at = out;
    for (; *text; text++) {
        if (is_plain(*text, slashes_stay)) {
            *at++ = *text;
            continue;
        }
        *at++ = '%';
        *at++ = digits[(unsigned char)*text >> 4];
        *at++ = digits[(unsigned char)*text & 15];
    }
    return out;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *objects_query(const struct objects_param *params, size_t count)
{
    char *pairs[PARAMS_MAX], *out = str_dup("");
    count = count < PARAMS_MAX ? count : PARAMS_MAX;
    for (size_t i = 0; i < count; i++) {
        char *name = objects_encode(params[i].name, false), *value = objects_encode(params[i].value, false);
        pairs[i] = str_printf("%s=%s", name, value);
        free(value);
        free(name);
    }
    if (count > 0)
        qsort(pairs, count, sizeof *pairs, by_text);
    for (size_t i = 0; i < count; i++) {
        char *longer = str_printf("%s%s%s", out, i == 0 ? "?" : "&", pairs[i]);
        free(pairs[i]);
        free(out);
        out = longer;
    }
    return out;
}

char *objects_base(const struct objects_place *place)
{
    if (place->endpoint)
        return str_printf("%s/%s", place->endpoint, place->bucket);
    const char *domain = strncmp(place->region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
    if (strchr(place->bucket, '.'))
        return str_printf("https://s3.%s.%s/%s", place->region, domain, place->bucket);
    return str_printf("https://%s.s3.%s.%s", place->bucket, place->region, domain);
}
