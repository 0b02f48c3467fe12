/* Answers of object storage: what is read out of each kind, and that hostile ones are refused whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/objects_xml.h"
#include "common/mem.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define NS       "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

static struct objects_answer read_good(const char *text)
{
    struct objects_answer a;
    struct err err;
    if (objects_answer_read(text, strlen(text), &a, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    return a;
}

static void errors_are_read(void **state)
{
    (void)state;
    struct objects_answer a =
        read_good("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<Error><Code>NoSuchBucket</Code><Message>It &lt;does&gt; not</Message>"
                  "<Region>eu-west-1</Region><RequestId>1</RequestId></Error>");
    assert_string_equal(a.root, "Error");
    assert_string_equal(a.code, "NoSuchBucket");
    assert_string_equal(a.message, "It <does> not");
    assert_string_equal(a.region, "eu-west-1");
    assert_int_equal(a.n_items, 0);
    objects_answer_clear(&a);
    assert_null(a.root);
}

static void lists_are_read(void **state)
{
    (void)state;
    struct objects_answer a =
        read_good("<ListBucketResult " NS "><Name>runs</Name><Prefix>a/</Prefix><KeyCount>2</KeyCount>"
                  "<IsTruncated>true</IsTruncated><NextContinuationToken>to ken=</NextContinuationToken>"
                  "<Contents><Key>a/1&amp;2</Key><ETag>&quot;x&quot;</ETag><Size>9007199254740993</Size>"
                  "<Owner><ID>Key</ID><Key>nested</Key></Owner></Contents>"
                  "<Contents><Key>a/3</Key><Size>0</Size></Contents>"
                  "<CommonPrefixes><Prefix>a/b/</Prefix></CommonPrefixes></ListBucketResult>");
    assert_true(a.truncated);
    assert_string_equal(a.next_token, "to ken=");
    assert_int_equal(a.n_items, 3);
    assert_string_equal(a.items[0].key, "a/1&2");
    assert_string_equal(a.items[0].etag, "\"x\"");
    assert_true(a.items[0].bytes == 9007199254740993u);
    assert_false(a.items[1].folder);
    assert_true(a.items[2].folder);
    assert_string_equal(a.items[2].key, "a/b/");
    objects_answer_clear(&a);
}

static void uploads_are_read(void **state)
{
    (void)state;
    struct objects_answer a = read_good("<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key>"
                                        "<UploadId>id-1</UploadId></InitiateMultipartUploadResult>");
    assert_string_equal(a.upload_id, "id-1");
    objects_answer_clear(&a);
    a = read_good("<s3:ListMultipartUploadsResult "
                  "xmlns:s3=\"x\"><s3:Prefix>a</s3:Prefix><s3:NextKeyMarker>k</s3:NextKeyMarker>"
                  "<s3:NextUploadIdMarker>i</s3:NextUploadIdMarker><s3:IsTruncated>false</s3:IsTruncated>"
                  "<s3:Upload><s3:Key>a/x</s3:Key><s3:UploadId>id</s3:UploadId></s3:Upload>"
                  "</s3:ListMultipartUploadsResult>");
    assert_string_equal(a.root, "ListMultipartUploadsResult");
    assert_false(a.truncated);
    assert_string_equal(a.next_key, "k");
    assert_string_equal(a.next_id, "i");
    assert_string_equal(a.items[0].key, "a/x");
    assert_string_equal(a.items[0].id, "id");
    objects_answer_clear(&a);
}

static const char parts[] =
    "<ListPartsResult><UploadId>id</UploadId><IsTruncated>true</IsTruncated>"
    "<NextPartNumberMarker>7</NextPartNumberMarker>"
    "<Part><PartNumber>7</PartNumber><ETag>\"e\"</ETag><Size>5242880</Size></Part></ListPartsResult>";

static void parts_are_read(void **state)
{
    (void)state;
    struct objects_answer a = read_good(parts);
    assert_string_equal(a.next_part, "7");
    assert_int_equal(a.items[0].part, 7);
    assert_null(a.items[0].key);
    assert_true(a.items[0].bytes == 5242880);
    objects_answer_clear(&a);
}

static const struct {
    const char *text, *says;
} hostile[] = {
    {"", "no element found"},
    {"not xml", "syntax error"},
    {"<a>", "no element found"},
    {"<a></b>", "mismatched tag"},
    {"<a/><b/>", "junk after document element"},
    {"<a>&nothing;</a>", "undefined entity"},
    {"<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", "DOCTYPE"},
    {"<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", "DOCTYPE"},
    {"<a>\xff</a>", "not well-formed"},
    {"<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>", "too deep"},
    {"<Error><Code>a</Code><Code>b</Code></Error>", "twice"},
    {"<L><Contents><Key>a</Key><Key>b</Key></Contents></L>", "twice"},
    {"<L><Contents><Size></Size></Contents></L>", "Size is no number"},
    {"<L><Contents><Size>-1</Size></Contents></L>", "Size is no number"},
    {"<L><Contents><Size>1x</Size></Contents></L>", "Size is no number"},
    {"<L><Contents><Size>99999999999999999999</Size></Contents></L>", "Size is no number"},
    {"<L><Contents><Size>9223372036854775808</Size></Contents></L>", "Size is no number"},
    {"<L><Part><PartNumber>0</PartNumber></Part></L>", "PartNumber is no number"},
    {"<L><Part><PartNumber>10001</PartNumber></Part></L>", "PartNumber is no number"},
    {"<L><Part><PartNumber>4294967297</PartNumber></Part></L>", "PartNumber is no number"},
};

static void hostile_answers_are_refused(void **state)
{
    (void)state;
    struct objects_answer a;
    struct err err;
    for (size_t i = 0; i < COUNT(hostile); i++) {
        err.text[0] = 0;
        assert_int_equal(objects_answer_read(hostile[i].text, strlen(hostile[i].text), &a, &err), -1);
        if (!strstr(err.text, hostile[i].says))
            fail_msg("%s: %s", hostile[i].text, err.text);
        assert_null(a.root);
        assert_null(a.items);
    }
}

static void every_cut_is_noticed(void **state)
{
    (void)state;
    struct objects_answer a;
    for (size_t len = 0; len + 1 < sizeof parts; len++) {
        assert_int_equal(objects_answer_read(parts, len, &a, NULL), -1);
        assert_null(a.items);
    }
}

static void long_texts_are_refused(void **state)
{
    (void)state;
    struct objects_answer a;
    struct err err;
    for (size_t extra = 0; extra < 2; extra++) {
        char *long_text = mem_zero(OBJECTS_TEXT_MAX + 2, 1);
        memset(long_text, 'x', OBJECTS_TEXT_MAX + extra);
        char *text = str_printf("<Error><Message>%s</Message></Error>", long_text);
        assert_int_equal(objects_answer_read(text, strlen(text), &a, &err), extra == 0 ? 0 : -1);
        objects_answer_clear(&a);
        free(text);
        free(long_text);
    }
    assert_non_null(strstr(err.text, "too much text"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_read),
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(uploads_are_read),
        cmocka_unit_test(parts_are_read),
        cmocka_unit_test(hostile_answers_are_refused),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(long_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
