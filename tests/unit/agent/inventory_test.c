/* What a node has: machines made up by hwloc, GPUs made up by a stand-in for NVML that is compiled here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/inventory.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/fresh_dir.h"

static void cores_and_slots_follow_the_topology(void **state)
{
    (void)state;
    static const struct {
        const char *topology;
        int64_t asked, cores, slots;
    } rows[] = {
        {"node:2 core:4 pu:2", 0, 8, 8}, /* threads are no slots */
        {"node:1 core:1 pu:1", 0, 1, 1},
        {"pu:6", 0, 6, 6}, /* no cores told: threads it is */
        {"node:2 core:4 pu:2", 3, 8, 3},
        {"node:64 core:64 pu:1", 0, 4096, 1024}, /* a node offers no more than the protocol allows */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct link_inventory inventory;
        struct err err;
        assert_int_equal(setenv("HWLOC_SYNTHETIC", rows[i].topology, 1), 0);
        assert_int_equal(inventory_read(&inventory, rows[i].asked, "/nonexistent.so", &err), 0);
        assert_int_equal(inventory.cores, rows[i].cores);
        assert_int_equal(inventory.slots, rows[i].slots);
        assert_true(inventory.memory > 0);
        assert_false(inventory.gpu);
        assert_int_equal(inventory.n_gpus, 0);
        assert_string_not_equal(inventory.hostname, "");
        assert_string_not_equal(inventory.version, "");
        link_inventory_clear(&inventory);
    }
    assert_int_equal(unsetenv("HWLOC_SYNTHETIC"), 0);
}

/* Two GPUs, of which the second cannot be asked when BROKEN is defined. */
static const char nvml_source[] = "#include <string.h>\n"
                                  "int nvmlInit_v2(void) { return INIT; }\n"
                                  "int nvmlShutdown(void) { return 0; }\n"
                                  "int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }\n"
                                  "int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void "
                                  "*)(long)(i + 1); return BROKEN && i == 1; }\n"
                                  "int nvmlDeviceGetName(void *d, char *o, unsigned n) { (void)d; strncpy(o, "
                                  "\"Pretend 100\", n); return 0; }\n"
                                  "int nvmlDeviceGetUUID(void *d, char *o, unsigned n) { (void)n; memcpy(o, "
                                  "\"GPU-0\", 6); o[4] += (long)d; return 0; }\n"
                                  "int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m) { (void)d; "
                                  "m[0] = 80ull << 30; m[1] = m[2] = 0; return 0; }\n";

/* Path of the stand-in, or NULL without a compiler. */
static char *compile(const char *name, const char *flags)
{
    char *source = str_printf("%s/nvml.c", dir), *library = str_printf("%s/%s.so", dir, name);
    struct err err;
    assert_int_equal(fs_write_durable(source, nvml_source, strlen(nvml_source), 0600, &err), 0);
    char *command = str_printf("cc -shared -fPIC %s %s -o %s 2>%s/cc.log", flags, source, library, dir);
    int rc = system(command); /* NOLINT(cert-env33-c): a fixed command in a folder of the test's own */
    free(command);
    free(source);
    if (rc == 0)
        return library;
    free(library);
    return NULL;
}

static void gpus_come_from_nvml(void **state)
{
    (void)state;
    static const struct {
        const char *name, *flags;
        int64_t asked;
        size_t gpus;
        bool gpu;
    } rows[] = {
        {"good", "-DINIT=0 -DBROKEN=0", 0, 2, true},
        {"half", "-DINIT=0 -DBROKEN=1", 0, 1, true},
        {"none", "-DINIT=9 -DBROKEN=0", 0, 0, false},
        {"asked", "-DINIT=0 -DBROKEN=0", 5, 0, false}, /* --slots 5: CPU slots */
        {"old", "-DINIT=0 -DBROKEN=0 -DnvmlDeviceGetUUID=other", 0, 0, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct link_inventory inventory;
        struct err err;
        char *library = compile(rows[i].name, rows[i].flags);
        if (!library)
            skip();
        assert_int_equal(inventory_read(&inventory, rows[i].asked, library, &err), 0);
        assert_int_equal(inventory.n_gpus, rows[i].gpus);
        assert_int_equal(inventory.gpu, rows[i].gpu);
        if (rows[i].gpus > 0) {
            assert_int_equal(inventory.slots, rows[i].gpus);
            assert_string_equal(inventory.gpus[0].name, "Pretend 100");
            assert_string_equal(inventory.gpus[0].uuid, "GPU-1");
            assert_int_equal(inventory.gpus[0].memory, INT64_C(80) << 30);
        }
        link_inventory_clear(&inventory);
        free(library);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_and_slots_follow_the_topology),
        cmocka_unit_test_setup_teardown(gpus_come_from_nvml, make_dir, drop_dir),
    };
    return cmocka_run_group_tests_name("inventory", tests, NULL, NULL);
}
