/* What is signed: paths and queries in canonical form, hashes of what is sent; and what sentences advise. */
#include <fcntl.h>

#include "tests/unit/scratch.h"

#include "checkpoint/objects_address.h"
#include "checkpoint/objects_call.h"
#include "checkpoint/objects_hint.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void same(char *got, const char *expected)
{
    assert_string_equal(got, expected);
    free(got);
}

static void only_plain_bytes_stay(void **state)
{
    (void)state;
    same(objects_encode("AZaz09-._~", false), "AZaz09-._~");
    same(objects_encode("a/b c", true), "a/b%20c");
    same(objects_encode("a/b", false), "a%2Fb");
    same(objects_encode("+=&?#%", true), "%2B%3D%26%3F%23%25");
    same(objects_encode("\xc3\xa9\x01\xff", true), "%C3%A9%01%FF");
    same(objects_encode("", true), "");
}

static void queries_are_sorted(void **state)
{
    (void)state;
    const struct objects_param list[] = {
        {"prefix", "a/b"}, {"list-type", "2"}, {"delimiter", "/"}, {"continuation-token", "x+y="}};
    same(objects_query(list, 4), "?continuation-token=x%2By%3D&delimiter=%2F&list-type=2&prefix=a%2Fb");
    const struct objects_param uploads[] = {{"uploads", ""}};
    same(objects_query(uploads, 1), "?uploads=");
    const struct objects_param part[] = {{"uploadId", "~id"}, {"partNumber", "10"}};
    same(objects_query(part, 2), "?partNumber=10&uploadId=~id");
    same(objects_query(NULL, 0), "");
}

static void buckets_have_an_address(void **state)
{
    (void)state;
    same(objects_base(&(struct objects_place){NULL, "eu-central-1", "runs"}),
         "https://runs.s3.eu-central-1.amazonaws.com");
    same(objects_base(&(struct objects_place){NULL, "us-east-1", "my.runs"}),
         "https://s3.us-east-1.amazonaws.com/my.runs");
    same(objects_base(&(struct objects_place){NULL, "cn-north-1", "runs"}),
         "https://runs.s3.cn-north-1.amazonaws.com.cn");
    same(objects_base(&(struct objects_place){"http://127.0.0.1:9000", "us-east-1", "runs"}),
         "http://127.0.0.1:9000/runs");
}

static const struct {
    const char *text, *sha256, *md5, *base64;
} sums[] = {
    /* of FIPS 180-2 and RFC 1321 */
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "d41d8cd98f00b204e9800998ecf8427e", "1B2M2Y8AsgTpgAmY7PhCfg=="},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
     "900150983cd24fb0d6963f7d28e17f72", "kAFQmDzST7DWlj99KOF/cg=="},
};

static void sums_are_those_of_the_standards(void **state)
{
    (void)state;
    char *path = scratch_path("file");
    for (size_t i = 0; i < COUNT(sums); i++) {
        struct objects_sums memory, file;
        char *text = str_printf("before%safter", sums[i].text);
        scratch_write(path, text, strlen(text));
        struct objects_source of_file = {
            .fd = open(path, O_RDONLY | O_CLOEXEC), .from = 6, .bytes = strlen(sums[i].text)};
        struct objects_source of_memory = {.data = sums[i].text, .bytes = strlen(sums[i].text)};
        assert_int_equal(objects_sum(&of_memory, &memory, NULL, NULL), 0);
        assert_int_equal(objects_sum(&of_file, &file, NULL, NULL), 0);
        close(of_file.fd);
        assert_string_equal(memory.sha256, sums[i].sha256);
        assert_string_equal(memory.md5, sums[i].md5);
        assert_string_equal(memory.md5_base64, sums[i].base64);
        assert_string_equal(file.sha256, sums[i].sha256);
        free(text);
    }
    free(path);
}

static void a_short_file_is_noticed(void **state)
{
    (void)state;
    struct objects_sums out;
    struct err err;
    char *path = scratch_path("short");
    scratch_write(path, "1234", 4);
    struct objects_source s = {.fd = open(path, O_RDONLY | O_CLOEXEC), .from = 2, .bytes = 3};
    assert_int_equal(objects_sum(&s, &out, NULL, &err), -1);
    assert_string_equal(err.text, "the file is shorter than the 5 bytes that it should have");
    close(s.fd);
    free(path);
}

static void hints_name_what_to_do(void **state)
{
    (void)state;
    char out[256];
    assert_string_equal(objects_hint("NoSuchBucket", NULL, out, sizeof out),
                        "; make the bucket, or correct checkpoint.upload.url");
    assert_string_equal(objects_hint("PermanentRedirect", "eu-west-1", out, sizeof out),
                        "; the bucket is in eu-west-1: set checkpoint.upload.region");
    assert_string_equal(objects_hint("SlowDown", NULL, out, sizeof out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_bytes_stay),   cmocka_unit_test(queries_are_sorted),
        cmocka_unit_test(buckets_have_an_address), cmocka_unit_test(sums_are_those_of_the_standards),
        cmocka_unit_test(a_short_file_is_noticed), cmocka_unit_test(hints_name_what_to_do),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
