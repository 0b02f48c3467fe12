/* Which device is chosen where there is no GPU; with one: tests/integration/cuda_train_test.sh. */
#include "runtime/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void no_library(const char *path)
{
    assert_int_equal(setenv("BELAY_CUDA_LIBRARY", path, 1), 0);
}

static void expect_cpu(enum job_device wanted)
{
    struct backend b;
    struct err err = {""};
    assert_int_equal(backend_open(wanted, &b, &err), 0);
    assert_null(b.cuda);
    assert_null(backend_comm(&b));
    assert_ptr_equal(backend_kernels(&b, KERNEL_BF16, &err), kernels_cpu(KERNEL_BF16, &err));
    backend_close(&b);
}

static void the_cpu_needs_no_library(void **state)
{
    (void)state;
    no_library("/nowhere/lib.so");
    expect_cpu(DEVICE_CPU);
}

static void whatever_there_is_goes_on_without_one(void **state)
{
    (void)state;
    no_library("/nowhere/lib.so");
    expect_cpu(DEVICE_AUTO); /* with a warning: the file was named */
    no_library("");
    if (access("/dev/nvidiactl", F_OK) != 0)
        expect_cpu(DEVICE_AUTO);
}

static void expect_refusal(const char *says)
{
    struct backend b;
    struct err err = {""};
    assert_int_equal(backend_open(DEVICE_GPU, &b, &err), -1);
    assert_null(b.cuda);
    if (!strstr(err.text, says) || !strstr(err.text, "device: cpu takes the CPU"))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    backend_close(&b);
}

static void a_gpu_that_is_wanted_is_missed_with_a_reason(void **state)
{
    (void)state;
    no_library("/nowhere/lib.so");
    expect_refusal("/nowhere/lib.so: cannot open shared object file");
    no_library("libm.so.6"); /* some library, but no backend */
    expect_refusal("undefined symbol: belay_cuda_backend");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_cpu_needs_no_library),
                                       cmocka_unit_test(whatever_there_is_goes_on_without_one),
                                       cmocka_unit_test(a_gpu_that_is_wanted_is_missed_with_a_reason)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
