/* What is read of a checkpoint on storage is counted, its copy in memory is not. */

#include "tests/unit/scratch.h"

#include <sys/mman.h>

#include "checkpoint/account.h"
#include "checkpoint/checkpoint.h"

enum { NUMBERS = 1000 };

static float numbers[NUMBERS];
static struct checkpoint_piece piece = {{0, 0}, {NUMBERS, 1}, numbers, 1};
static struct checkpoint_array array = {"x", {NUMBERS, 0}, 1, &piece, 1, {NULL, NULL}};

static char *save(const char *name, struct manifest_file *file)
{
    struct err err;
    const struct manifest_state at = {
        .step = 5, .tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1, .model = {.arch = "gpt2"}};
    char *folder = scratch_path(name);
    assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
    assert_int_equal(checkpoint_write_shard(folder, 0, &array, 1, file, &err), 0);
    struct checkpoint_record record = checkpoint_describe(&array, 1, file);
    if (checkpoint_seal(folder, &record, NULL, 1, &at, &err) != 0)
        fail_msg("%s", err.text);
    free(record.bytes);
    return folder;
}

/* A folder of links to memory files with the same bytes. */
static char *copy_to_memory(const char *folder, const char *name)
{
    static const char *const names[] = {"manifest.json", "rank-00000.safetensors"};
    struct err err;
    char *held = scratch_path(name);
    assert_int_equal(fs_mkdirs(held, 0755, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        size_t len;
        char *from = str_printf("%s/%s", folder, names[i]), *to = str_printf("%s/%s", held, names[i]);
        char *bytes = fs_read(from, 1u << 24, &len, NULL);
        int fd = memfd_create("held", 0);
        assert_int_equal(write(fd, bytes, len), len);
        char *target = str_printf("/proc/self/fd/%d", fd); /* open until this process ends */
        assert_int_equal(symlink(target, to), 0);
        free(target);
        free(bytes);
        free(to);
        free(from);
    }
    return held;
}

static uint64_t reading(const char *folder)
{
    struct err err;
    struct manifest_state state;
    uint64_t before = account_total();
    if (checkpoint_verify(folder, 0, 1, &state, &err) != 0 ||
        checkpoint_load(folder, &array, 1, &err) != CHECKPOINT_OK)
        fail_msg("%s", err.text);
    return account_total() - before;
}

static void storage_is_counted_and_memory_is_not(void **state)
{
    (void)state;
    struct manifest_file file;
    char *folder = save("stored", &file), *held = copy_to_memory(folder, "held");
    assert_true(reading(folder) >= 2 * sizeof numbers); /* hashed, and loaded */
    assert_int_equal(reading(held), 0);
    free(held);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(storage_is_counted_and_memory_is_not)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
