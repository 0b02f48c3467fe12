/* Addresses of objects: what is taken apart, and what is refused with which sentence. */
#include "common/s3url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct {
    const char *url, *bucket, *prefix;
} good[] = {
    {"s3://runs", "runs", ""},
    {"s3://runs/", "runs", ""},
    {"s3://runs/llama/8b", "runs", "llama/8b"},
    {"s3://runs/llama/8b/", "runs", "llama/8b"},
    {"s3://my.own-bucket.1/a=b,c:d@e+f_g.h-I", "my.own-bucket.1", "a=b,c:d@e+f_g.h-I"},
    {"s3://abc/..a/.b/...", "abc", "..a/.b/..."},
};

static const struct {
    const char *url, *says;
} bad[] = {
    {"", "begin with s3://"},
    {"s3:/runs", "begin with s3://"},
    {"S3://runs", "begin with s3://"},
    {"https://runs", "begin with s3://"},
    {"s3://", "3 to 63"},
    {"s3:///x", "3 to 63"},
    {"s3://ab", "3 to 63"},
    {"s3://Runs", "3 to 63"},
    {"s3://-runs", "3 to 63"},
    {"s3://runs-", "3 to 63"},
    {"s3://ru_ns", "3 to 63"},
    {"s3://a123456789012345678901234567890123456789012345678901234567890123", "3 to 63"},
    {"s3://runs//", "no //"},
    {"s3://runs/a//b", "no //"},
    {"s3://runs//a", "no //"},
    {"s3://runs/a/../b", "no . or .."},
    {"s3://runs/.", "no . or .."},
    {"s3://runs/..", "no . or .."},
    {"s3://runs/a b", "letters, digits"},
    {"s3://runs/a?b", "letters, digits"},
    {"s3://runs/a%2e", "letters, digits"},
    {"s3://runs/\xc3\xa9", "letters, digits"},
};

static void urls_are_taken_apart(void **state)
{
    (void)state;
    struct s3url out;
    struct err err;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (s3url_parse(good[i].url, &out, &err) != 0)
            fail_msg("%s: %s", good[i].url, err.text);
        assert_string_equal(out.bucket, good[i].bucket);
        assert_string_equal(out.prefix, good[i].prefix);
    }
}

static void other_urls_are_refused(void **state)
{
    (void)state;
    struct s3url out;
    struct err err;
    for (size_t i = 0; i < COUNT(bad); i++) {
        err.text[0] = 0;
        assert_int_equal(s3url_parse(bad[i].url, &out, &err), -1);
        if (!strstr(err.text, bad[i].says))
            fail_msg("%s: %s", bad[i].url, err.text);
    }
}

static void a_long_prefix_is_refused(void **state)
{
    (void)state;
    struct s3url out;
    char *url = mem_zero(S3URL_PREFIX_MAX + 100, 1);
    memcpy(url, "s3://abc/", 9);
    memset(url + 9, 'x', S3URL_PREFIX_MAX);
    assert_int_equal(s3url_parse(url, &out, NULL), 0);
    assert_int_equal(strlen(out.prefix), S3URL_PREFIX_MAX);
    url[9 + S3URL_PREFIX_MAX] = 'x';
    assert_int_equal(s3url_parse(url, &out, NULL), -1);
    free(url);
}

static const struct {
    const char *endpoint;
    int rc;
} endpoints[] = {
    {"https://s3.example.org", 0},
    {"https://s3.example.org:9000", 0},
    {"http://127.0.0.1:9000", 0},
    {"http://[::1]:9000", 0},
    {"https://[fe80::1]", 0},
    {"", -1},
    {"s3.example.org", -1},
    {"ftp://s3.example.org", -1},
    {"https://", -1},
    {"https://:9000", -1},
    {"https://a:", -1},
    {"https://a:0", -1},
    {"https://a:65536", -1},
    {"https://a:123456", -1},
    {"https://a:9x", -1},
    {"https://a/", -1},
    {"https://a/b", -1},
    {"https://a?b", -1},
    {"https://a b", -1},
    {"https://key:secret@a", -1},
    {"https://[]", -1},
    {"https://[::1", -1},
};

static void endpoints_are_judged(void **state)
{
    (void)state;
    struct err err;
    for (size_t i = 0; i < COUNT(endpoints); i++) {
        err.text[0] = 0;
        if (s3url_check_endpoint(endpoints[i].endpoint, &err) != endpoints[i].rc)
            fail_msg("%s: %s", endpoints[i].endpoint, err.text);
        assert_null(strstr(err.text, "secret@"));
    }
}

static void regions_are_judged(void **state)
{
    (void)state;
    assert_int_equal(s3url_check_region("us-east-1", NULL), 0);
    assert_int_equal(s3url_check_region("auto", NULL), 0);
    assert_int_equal(s3url_check_region("", NULL), -1);
    assert_int_equal(s3url_check_region("us:east", NULL), -1);
    assert_int_equal(s3url_check_region("Europe", NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_apart),     cmocka_unit_test(other_urls_are_refused),
        cmocka_unit_test(a_long_prefix_is_refused), cmocka_unit_test(endpoints_are_judged),
        cmocka_unit_test(regions_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
