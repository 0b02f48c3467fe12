/* safetensors: what is written reads back, in boxes of every kind; what is malformed is refused with a sentence. */
#include "tests/unit/scratch.h"

#include <math.h>

#include "checkpoint/safetensors.h"

#define ROWS 5
#define COLUMNS                                                                                              \
    4000 /* rows are wide enough that some parts are read by themselves, others picked out of a span */

static float number(size_t i)
{
    return (float)((i * 2654435761u) % 255) - 128; /* exact in every type */
}

static struct safetensors_tensor declare(const char *name, enum dtype type, size_t rows, size_t columns)
{
    struct safetensors_tensor t = {.type = type, .shape = {rows, columns}, .dims = columns > 0 ? 2 : 1};
    (void)snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

/* Tensors of all types, a matrix and a vector of each, and an empty one. */
static void write_file(const char *path)
{
    struct err err = {""};
    struct safetensors_tensor tensors[9];
    char hash[DIGEST_SIZE], again[DIGEST_SIZE];
    uint64_t bytes, found;
    float *x = malloc(ROWS * COLUMNS * sizeof *x);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        x[i] = number(i);
    for (size_t type = 0; type < 4; type++) {
        char name[40];
        (void)snprintf(name, sizeof name, "matrix.%s", dtype_name((enum dtype)type));
        tensors[2 * type] = declare(name, (enum dtype)type, ROWS, COLUMNS);
        (void)snprintf(name, sizeof name, "vector.%s", dtype_name((enum dtype)type));
        tensors[2 * type + 1] = declare(name, (enum dtype)type, 7, 0);
    }
    tensors[8] = declare("empty", DTYPE_F32, 0, 0);
    struct safetensors_writer *w = safetensors_create(path, tensors, 9, "format", "pt", &err);
    assert_non_null(w);
    for (size_t t = 0; t < 8; t++)
        assert_int_equal(safetensors_put(w, x, t % 2 ? 7 : ROWS * COLUMNS), 0);
    assert_int_equal(safetensors_finish(w, &bytes, hash, &err), 0);
    assert_int_equal(digest_file(path, &found, again, &err), 0);
    assert_int_equal(bytes, found);
    assert_string_equal(hash, again);
    free(x);
}

static void check_box(struct safetensors *f, const struct safetensors_tensor *t, size_t columns,
                      const struct box *box, size_t stride)
{
    struct err err = {""};
    size_t rows = box->to[0] - box->from[0], width = box->to[1] - box->from[1];
    float *x = malloc(rows * stride * sizeof *x);
    for (size_t i = 0; i < rows * stride; i++)
        x[i] = 0.5F;
    if (safetensors_read(f, t, box, x, stride, &err) != 0)
        fail_msg("%s", err.text);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < stride; c++)
            assert_true(x[r * stride + c] ==
                        (c < width ? number((box->from[0] + r) * columns + box->from[1] + c) : 0.5F));
    free(x);
}

static void test_boxes(void **state)
{
    (void)state;
    struct err err = {""};
    char *path = scratch_path("boxes.safetensors");
    write_file(path);
    struct safetensors *f = safetensors_open(path, &err);
    assert_non_null(f);
    assert_int_equal(safetensors_count(f), 9);
    static const struct box boxes[] = {
        {{0, 0}, {ROWS, COLUMNS}}, {{1, 0}, {3, COLUMNS}}, {{0, 3}, {ROWS, 11}},  {{2, 3999}, {4, 4000}},
        {{1, 100}, {4, 3900}},     {{4, 7}, {5, 3000}},    {{0, 0}, {1, COLUMNS}}};
    for (size_t type = 0; type < 4; type++) {
        char name[40];
        (void)snprintf(name, sizeof name, "matrix.%s", dtype_name((enum dtype)type));
        const struct safetensors_tensor *t = safetensors_find(f, name);
        assert_non_null(t);
        for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
            size_t width = boxes[i].to[1] - boxes[i].from[1];
            check_box(f, t, COLUMNS, &boxes[i], width);
            check_box(f, t, COLUMNS, &boxes[i], width + 3);
        }
        (void)snprintf(name, sizeof name, "vector.%s", dtype_name((enum dtype)type));
        const struct box some = {{2, 0}, {6, 1}};
        check_box(f, safetensors_find(f, name), 1, &some, 1);
        check_box(f, safetensors_find(f, name), 1, &some, 2);
    }
    assert_null(safetensors_find(f, "matrix"));
    safetensors_close(f);
    free(path);
}

static void test_bad_boxes(void **state)
{
    (void)state;
    struct err err = {""};
    float x[16];
    char *path = scratch_path("bad_boxes.safetensors");
    write_file(path);
    struct safetensors *f = safetensors_open(path, &err);
    static const struct box boxes[] = {
        {{0, 0}, {8, 1}}, {{0, 0}, {1, 2}}, {{3, 0}, {3, 1}}, {{4, 0}, {3, 1}}, {{0, 1}, {1, 1}}};
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        assert_int_equal(safetensors_read(f, safetensors_find(f, "vector.F32"), &boxes[i], x, 2, &err), -1);
        assert_contains(err.text, "expected shape");
    }
    safetensors_close(f);
    free(path);
}

/* The writer is told too little or too much. */
static void test_counts(void **state)
{
    (void)state;
    const float x[4] = {0};
    for (size_t n = 2; n <= 4; n++) {
        struct err err = {""};
        uint64_t bytes;
        char hash[DIGEST_SIZE], *path = scratch_path("count.safetensors");
        struct safetensors_tensor t = declare("t", DTYPE_BF16, 3, 0);
        struct safetensors_writer *w = safetensors_create(path, &t, 1, NULL, NULL, &err);
        assert_int_equal(safetensors_put(w, x, n), n > 3 ? -1 : 0);
        assert_int_equal(safetensors_finish(w, &bytes, hash, &err), n == 3 ? 0 : -1);
        if (n != 3)
            assert_contains(err.text, n < 3 ? "fewer numbers" : "more numbers");
        assert_int_equal(access(path, F_OK), n == 3 ? 0 : -1);
        (void)unlink(path);
        free(path);
    }
}

/* A file with this header over `data` bytes of zeros. */
static void write_header(const char *path, const char *header, size_t data)
{
    uint64_t len = strlen(header);
    char *bytes = calloc(1, 8 + len + data + 1);
    memcpy(bytes, &len, 8);
    memcpy(bytes + 8, header, len);
    scratch_write(path, bytes, 8 + len + data);
    free(bytes);
}

#define T(shape, from, to) "{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

static void test_bad_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *says; /* NULL: is good */
    } rows[] = {
        {"{}", 0, NULL},
        {"{\"x\":" T("1", "0", "4") "}   ", 4, NULL},
        {"{\"x\":" T("", "0", "4") "}", 4, NULL},
        {"{\"x\":" T("0", "4", "4") ",\"y\":" T("1", "0", "4") "}", 4, NULL},
        {"{\"__metadata__\":{\"a\":\"b\"}}", 0, NULL},
        {"{\"x\":{\"dtype\":\"I64\",\"shape\":[2,1,1,1],\"data_offsets\":[0,16]}}", 16, NULL},
        {"", 0, "would have 0 bytes"},
        {"[]", 0, "does not begin with {"},
        {" {}", 0, "does not begin with {"},
        {"{!", 0, "not a JSON object"},
        {"{\"x\":1}", 0, "\"\", which is not known"},
        {"{\"x\":" T("1", "0", "4") ",\"x\":" T("1", "0", "4") "}", 4, "not a JSON object"},
        {"{\"x\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "\"F31\", which is not known"},
        {"{\"x\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "does not fit"},
        {"{\"x\":" T("2", "0", "4") "}", 4, "does not fit"},
        {"{\"x\":" T("1", "0", "8") "}", 4, "within the file"},
        {"{\"x\":" T("1", "-4", "0") "}", 4, "within the file"},
        {"{\"x\":" T("1", "4", "0") "}", 4, "within the file"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "within the file"},
        {"{\"x\":" T("-1", "0", "4") "}", 4, "bad shape"},
        {"{\"x\":" T("1.0", "0", "4") "}", 4, "bad shape"},
        {"{\"x\":" T("1,1,1,1,1,1,1,1,1", "0", "4") "}", 4, "bad shape"},
        {"{\"x\":" T("4294967296,4294967296,4294967296", "0", "0") "}", 0, "does not fit"},
        {"{\"x\":" T("1", "4", "8") "}", 8, "x does not begin where"},
        {"{\"x\":" T("1", "0", "4") ",\"y\":" T("1", "8", "12") "}", 12, "y does not begin where"},
        {"{\"x\":" T("2", "0", "8") ",\"y\":" T("1", "4", "8") "}", 8, "y does not begin where"},
        {"{\"x\":" T("1", "0", "4") "}", 5, "end after 4 of 5 bytes"},
        {"{\"x\":" T("1", "0", "4") "}", 3, "within the file"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
    };
    char *path = scratch_path("bad.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        write_header(path, rows[i].header, rows[i].data);
        struct safetensors *f = safetensors_open(path, &err);
        if (!rows[i].says != !!f)
            fail_msg("%s: %s", rows[i].header, err.text);
        if (rows[i].says)
            assert_contains(err.text, rows[i].says);
        safetensors_close(f);
    }
    free(path);
}

static void test_bad_lengths(void **state)
{
    (void)state;
    static const struct {
        const char *content;
        size_t len;
        const char *says;
    } rows[] = {{"", 0, "only 0 bytes"},
                {"\2\0\0\0\0\0\0", 7, "only 7 bytes"},
                {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "its header would have"},
                {"\x09\0\0\0\0\0\0\0{}", 10, "its header would have 9 bytes"}};
    char *path = scratch_path("short.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        scratch_write(path, rows[i].content, rows[i].len);
        assert_null(safetensors_open(path, &err));
        assert_contains(err.text, rows[i].says);
    }
    free(path);
}

/* What holds no real numbers can be there, but not be read. */
static void test_integers(void **state)
{
    (void)state;
    struct err err = {""};
    float x;
    const struct box one = {{0, 0}, {1, 1}};
    char *path = scratch_path("integers.safetensors");
    write_header(path, "{\"x\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    struct safetensors *f = safetensors_open(path, &err);
    assert_int_equal(safetensors_read(f, safetensors_find(f, "x"), &one, &x, 1, &err), -1);
    assert_contains(err.text, "does not hold floating point numbers");
    safetensors_close(f);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boxes),       cmocka_unit_test(test_bad_boxes),
                                       cmocka_unit_test(test_counts),      cmocka_unit_test(test_bad_headers),
                                       cmocka_unit_test(test_bad_lengths), cmocka_unit_test(test_integers)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
