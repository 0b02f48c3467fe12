/* gguf: the bytes of a small file, one by one, and what goes wrong. */
#include "tests/unit/scratch.h"

#include "runtime/convert/gguf.h"

#define U32(x) (char)((x)&255), (char)((x) >> 8 & 255), 0, 0
#define U64(x) U32(x), 0, 0, 0, 0

static void test_bytes(void **state)
{
    (void)state;
    static const char expected[] = {
        'G', 'G', 'U', 'F', U32(3), U64(2), U64(4),
        /* keys */
        U64(1), 'a', U32(4), U32(258), U64(1), 'b', U32(8), U64(2), 'x', 'y', U64(1), 'c', U32(9), U32(8),
        U64(2), U64(1), 's', U64(0), U64(1), 'd', U32(7), 1,
        /* tensors: innermost dimension first */
        U64(1), 't', U32(2), U64(3), U64(2), U32(0), U64(0), U64(1), 'u', U32(1), U64(2), U32(30), U64(32)};
    static const char numbers[] = {0,    0,    (char)0x80, 0x3f, 0,          0,    0, 0x40, 0,          0,
                                   0x40, 0x40, 0,          0,    (char)0x80, 0x40, 0, 0,    (char)0xa0, 0x40,
                                   0,    0,    (char)0xc0, 0x40, 0,          0,    0, 0,    0,          0,
                                   0,    0,    (char)0x80, 0x3f, 0,          0x40};
    const size_t matrix[] = {2, 3}, vector[] = {2};
    const float x[] = {1, 2, 3, 4, 5, 6};
    struct err err = {""};
    uint64_t bytes;
    size_t len;
    char *path = scratch_path("small.gguf");
    struct gguf *g = gguf_new();
    gguf_set_u32(g, "a", 258);
    gguf_set_str(g, "b", "xy");
    gguf_set_strs(g, "c", 2);
    gguf_add_str(g, "s");
    gguf_add_str(g, "");
    gguf_set_bool(g, "d", true);
    gguf_add_tensor(g, "t", DTYPE_F32, matrix, 2);
    gguf_add_tensor(g, "u", DTYPE_BF16, vector, 1);
    gguf_open(g, path);
    assert_int_equal(gguf_put(g, x, 4), 0);
    assert_int_equal(gguf_put(g, x + 4, 2), 0);
    assert_int_equal(gguf_put(g, x, 2), 0);
    assert_int_equal(gguf_finish(g, &bytes, &err), 0);
    char *content = fs_read(path, 1u << 20, &len, NULL);
    const size_t head = (sizeof expected + 31) / 32 * 32;
    assert_int_equal(len, bytes);
    assert_int_equal(len, head + 64);
    assert_memory_equal(content, expected, sizeof expected);
    for (size_t i = sizeof expected; i < head; i++)
        assert_int_equal(content[i], 0);
    assert_memory_equal(content + head, numbers, sizeof numbers);
    free(content);
    free(path);
}

static void test_counts(void **state)
{
    (void)state;
    const size_t shape[] = {3};
    const float x[4] = {0};
    for (size_t n = 2; n <= 4; n++) {
        struct err err = {""};
        uint64_t bytes;
        char *path = scratch_path("count.gguf");
        struct gguf *g = gguf_new();
        gguf_add_tensor(g, "t", DTYPE_F16, shape, 1);
        gguf_open(g, path);
        assert_int_equal(gguf_put(g, x, n), n > 3 ? -1 : 0);
        assert_int_equal(gguf_finish(g, &bytes, &err), n == 3 ? 0 : -1);
        if (n != 3)
            assert_contains(err.text, n < 3 ? "fewer numbers" : "more numbers");
        assert_int_equal(access(path, F_OK), n == 3 ? 0 : -1);
        (void)unlink(path);
        free(path);
    }
}

static void test_no_place(void **state)
{
    (void)state;
    struct err err = {""};
    uint64_t bytes;
    struct gguf *g = gguf_new();
    char *path = scratch_path("nowhere/x.gguf");
    gguf_open(g, path);
    assert_int_equal(gguf_finish(g, &bytes, &err), -1);
    assert_contains(err.text, "nowhere/x.gguf: No such file");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_counts),
                                       cmocka_unit_test(test_no_place)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
