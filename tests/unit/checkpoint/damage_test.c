/* A bit flipped anywhere in a checkpoint is found, and the file that it is in is named: by what `belay checkpoints verify` uses, and by what a run
 * asks before it resumes. */
#include <fcntl.h>
#include <sys/stat.h>

#include "checkpoint/audit.h"
#include "checkpoint/digest.h"
#include "common/mix.h"
#include "tests/unit/checkpoint/cuts.h"

#define RANDOM_BITS 500

static char *folder;

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    folder = save("step-00000100", FLAT_COLUMNS, 4);
    return 0;
}

static int drop(void **state)
{
    free(folder);
    return scratch_remove(state);
}

static char *path_of(const char *name)
{
    return str_printf("%s/%s", folder, name);
}

static size_t size_of(const char *name)
{
    char *path = path_of(name);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    free(path);
    return (size_t)st.st_size;
}

static void flip(const char *name, size_t at, unsigned bit)
{
    char *path = path_of(name);
    unsigned char byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= (unsigned char)(1u << bit);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
    free(path);
}

/* All sentences, one a line; "" = it is whole. */
static void audit(char *out, size_t size)
{
    struct err err = {""};
    struct audit *a = audit_open(folder, &err);
    out[0] = '\0';
    if (!a)
        (void)snprintf(out, size, "%s\n", err.text);
    for (size_t i = 0; a && i < audit_manifest(a)->n_files; i++)
        if (audit_file(a, i, true, NULL, &err) != 0)
            (void)snprintf(out + strlen(out), size - strlen(out), "%s\n", err.text);
    audit_close(a);
}

/* Both find it, and name that file and no other. */
static void assert_found(const char *name, const char *what, size_t at)
{
    struct err err = {""};
    struct manifest_state state;
    char text[4096];
    audit(text, sizeof text);
    const char *line = strchr(text, '\n');
    if (!strstr(text, name) || !line || line[1])
        fail_msg("%s of %s at %zu: the audit says: %s", what, name, at, text);
    if (checkpoint_verify(folder, 0, 1, &state, &err) == 0 || !strstr(err.text, name))
        fail_msg("%s of %s at %zu: a run would say: %s", what, name, at, err.text);
}

static void assert_whole(void)
{
    char text[4096];
    audit(text, sizeof text);
    assert_string_equal(text, "");
}

static void test_every_bit_of_the_manifest(void **state)
{
    (void)state;
    assert_whole();
    for (size_t at = 0; at < size_of(MANIFEST_FILE_NAME); at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            flip(MANIFEST_FILE_NAME, at, bit);
            assert_found(MANIFEST_FILE_NAME, "a bit", at);
            flip(MANIFEST_FILE_NAME, at, bit);
        }
    assert_whole();
}

static void test_every_bit_of_a_header(void **state)
{
    (void)state;
    static const char name[] = "rank-00002.safetensors";
    uint64_t header = 0;
    char *path = path_of(name), *content = fs_read(path, 1u << 20, NULL, NULL);
    memcpy(&header, content, 8);
    free(content);
    free(path);
    for (size_t at = 0; at < 8 + header; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            flip(name, at, bit);
            assert_found(name, "a bit", at);
            flip(name, at, bit);
        }
    assert_whole();
}

static void test_random_bits_of_shards(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < RANDOM_BITS; i++) {
        char name[64];
        uint64_t draw = mix64(20261130 + i * MIX_GOLDEN);
        (void)snprintf(name, sizeof name, "rank-%05d.safetensors", (int)(draw % 4));
        size_t at = (draw >> 8) % size_of(name);
        flip(name, at, (unsigned)(draw >> 4) % 8);
        assert_found(name, "a bit", at);
        flip(name, at, (unsigned)(draw >> 4) % 8);
    }
    assert_whole();
}

/* A file shorter or longer than it was: every length of one, some of the others. */
static void test_other_lengths(void **state)
{
    (void)state;
    static const char *const names[] = {"rank-00000.safetensors", "rank-00003.safetensors",
                                        MANIFEST_FILE_NAME};
    for (size_t i = 0; i < 3; i++) {
        char *path = path_of(names[i]);
        size_t len;
        char *content = fs_read(path, 1u << 20, &len, NULL);
        for (size_t to = 0; to < len; to += i == 0 ? 1 : 97) {
            scratch_write(path, content, to);
            assert_found(names[i], "an end", to);
        }
        scratch_write(path, content, len);
        assert_whole();
        for (size_t more = 1; more <= 4096; more *= 8) {
            char *longer = mem_zero(len + more, 1);
            memcpy(longer, content, len);
            scratch_write(path, longer, len + more);
            assert_found(names[i], "bytes too many", more);
            free(longer);
        }
        scratch_write(path, content, len);
        free(content);
        free(path);
    }
    assert_whole();
}

/* All that is bad is told, not the first only. */
static void test_all_are_named(void **state)
{
    (void)state;
    char text[4096], *gone = path_of("rank-00003.safetensors"), *kept = scratch_path("kept");
    flip("rank-00000.safetensors", 100, 1);
    flip("rank-00002.safetensors", size_of("rank-00002.safetensors") - 1, 7);
    assert_int_equal(rename(gone, kept), 0);
    audit(text, sizeof text);
    assert_contains(text, "rank-00000.safetensors is damaged");
    assert_contains(text, "rank-00002.safetensors is damaged");
    assert_contains(text, "rank-00003.safetensors: No such file");
    assert_int_equal(rename(kept, gone), 0);
    flip("rank-00000.safetensors", 100, 1);
    flip("rank-00002.safetensors", size_of("rank-00002.safetensors") - 1, 7);
    assert_whole();
    free(kept);
    free(gone);
}

/* Files that are whole, but not those of the manifest: a hash alone would not tell. */
static void test_other_tensors_than_the_manifest_says(void **state)
{
    (void)state;
    struct err err = {""};
    struct manifest *m = manifest_read(folder, &err);
    char *other = scratch_path("other"), text[4096], *was = folder;
    assert_int_equal(fs_mkdirs(other, 0755, NULL), 0);
    for (size_t i = 0; i < m->n_files; i++) {
        char *from = path_of(m->files[i].name), *to = str_printf("%s/%s", other, m->files[i].name);
        assert_int_equal(link(from, to), 0);
        free(from);
        free(to);
    }
    for (size_t i = 0; i < m->n_tensors; i++) /* those of b change places: they have 3 and 4 numbers */
        for (size_t k = 0; k < m->tensors[i].n_slices; k++) {
            size_t *file = &m->tensors[i].slices[k].file;
            if (strcmp(m->tensors[i].name, "b") == 0 && (*file == 2 || *file == 3))
                *file = 5 - *file;
        }
    assert_int_equal(manifest_write(other, m, &err), 0);
    folder = other;
    audit(text, sizeof text);
    assert_contains(text,
                    "rank-00002.safetensors: tensor b has another type or shape than its manifest says");
    assert_contains(text, "rank-00003.safetensors: tensor b has another type or shape");
    folder = was;
    manifest_free(m);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_bit_of_the_manifest),
        cmocka_unit_test(test_every_bit_of_a_header),
        cmocka_unit_test(test_random_bits_of_shards),
        cmocka_unit_test(test_other_lengths),
        cmocka_unit_test(test_all_are_named),
        cmocka_unit_test(test_other_tensors_than_the_manifest_says),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
