/* The table of the CUDA backend as a whole: every kernel is there, in both types. */
#include <stddef.h>

#include "tests/cuda/check.h"

static void every_kernel_is_there(void **)
{
    typedef void (*kernel)(void);
    const size_t first = offsetof(f32::kernels, describe), last = sizeof(f32::kernels);
    for (f32::kernel_type type : {f32::KERNEL_FP32, f32::KERNEL_BF16}) {
        const char *table = (const char *)kernels_cuda(type);
        assert_non_null(table);
        for (size_t at = first; at < last; at += sizeof(kernel)) {
            kernel k;
            memcpy(&k, table + at, sizeof k);
            if (!k && at != offsetof(f32::kernels, fp8_step)) /* which some devices do not have */
                fail_msg("%s: kernel %zu of the table (kernels.h, from describe on) is missing",
                         type == f32::KERNEL_BF16 ? "bf16" : "fp32", (at - first) / sizeof k);
        }
    }
}

static void the_table_says_what_it_is(void **)
{
    for (f32::kernel_type type : {f32::KERNEL_FP32, f32::KERNEL_BF16}) {
        const f32::kernels *k = kernels_cuda(type);
        assert_int_equal(k->type, type);
        assert_int_equal(k->act_size, type == f32::KERNEL_BF16 ? 2 : 4);
        assert_true(k->logits > 0);
        assert_ptr_equal(kernels_cuda(type), k);
    }
}

/* The line is cut, not overrun. */
static void the_device_is_described(void **)
{
    char line[256], part[20];
    memset(part, 'x', sizeof part);
    kernels_cuda(f32::KERNEL_FP32)->describe(line, sizeof line);
    kernels_cuda(f32::KERNEL_FP32)->describe(part, 10);
    assert_non_null(strstr(line, "cuBLASLt"));
    assert_memory_equal(part, line, 9);
    assert_int_equal(part[9], 0);
    assert_int_equal(part[10], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table_says_what_it_is),
                                       cmocka_unit_test(the_device_is_described),
                                       cmocka_unit_test(every_kernel_is_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
