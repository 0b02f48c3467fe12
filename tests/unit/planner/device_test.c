/* The table of devices by the names that drivers give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "planner/device.h"

static void makers_names_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *maker, *name; /* NULL: none of the table */
    } cases[] = {{"NVIDIA H100 80GB HBM3", "h100"},
                 {"NVIDIA H200", "h200"},
                 {"NVIDIA A100-SXM4-80GB", "a100-40g"}, /* both have the same peaks */
                 {"NVIDIA A100-PCIE-40GB", "a100-40g"},
                 {"A100-SXM-80GB", "a100-40g"},
                 {"NVIDIA B200", "b200"},
                 {"NVIDIA GB200", "gb200"},
                 {"NVIDIA H100 PCIe", NULL},
                 {"NVIDIA H100 NVL", NULL},
                 {"NVIDIA H200 NVL", NULL},
                 {"NVIDIA GH200 480GB", NULL},
                 {"NVIDIA A10", NULL},
                 {"Tesla V100-SXM2-16GB", NULL},
                 {"a cpu", NULL},
                 {"", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plan_device *d = plan_device_of_maker(cases[i].maker);
        if (!d != !cases[i].name || (d && strcmp(d->name, cases[i].name) != 0))
            fail_msg("%s is taken for %s", cases[i].maker, d ? d->name : "none");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(makers_names_are_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
