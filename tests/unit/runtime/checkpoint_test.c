#include "common/fsutil.h"
#include "common/mem.h"
#include "scratch.h"

#include <signal.h>
#include <sys/resource.h>

#include "runtime/checkpoint/checkpoint.h"

/* A model of three tensors: a matrix, a vector, and one with fewer rows than ranks. */
#define COUNT (10 * 3 + 7 + 2 * 2 * 2)
static const struct model_tensor tensors[] = {
    {.name = "w", .shape = {10, 3}, .dims = 2, .offset = 0, .count = 30},
    {.name = "b", .shape = {7}, .dims = 1, .offset = 30, .count = 7},
    {.name = "few", .shape = {2, 2, 2}, .dims = 3, .offset = 37, .count = 8},
};

struct replica {
    float w[COUNT], m[COUNT], v[COUNT];
    struct checkpoint_array *arrays;
    size_t n;
};

static struct replica *replica_new(unsigned seed)
{
    struct replica *r = calloc(1, sizeof *r);
    float *all[] = {r->w, r->m, r->v};
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < COUNT; i++)
            all[p][i] = seed == 0 ? 0 : (float)(seed * 1000 + p * 100 + i) / 7;
    r->arrays = checkpoint_arrays(tensors, 3, r->w, r->m, r->v, &r->n);
    return r;
}

static void replica_free(struct replica *r)
{
    free(r->arrays);
    free(r);
}

static const struct manifest_state state_100 = {.step = 100,
                                                .samples = 1ULL << 62,
                                                .tokens = 77,
                                                .seed = UINT64_MAX,
                                                .data_tokens = 5,
                                                .data_fingerprint = UINT64_MAX - 1,
                                                .job = "42",
                                                .attempt = 3,
                                                .tp = 1,
                                                .pp = 1,
                                                .cp = 1,
                                                .dp = 4,
                                                .ep = 1};

/* What `size` ranks would write into scratch/name; the caller frees the path. */
static char *save(const char *name, struct replica *r, int size)
{
    struct err err;
    struct manifest_file files[16];
    char *folder = scratch_path(name);
    assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
    for (int rank = 0; rank < size; rank++)
        if (checkpoint_write_shard(folder, rank, size, r->arrays, r->n, &files[rank], &err) != 0)
            fail_msg("%s", err.text);
    if (checkpoint_seal(folder, size, r->arrays, r->n, &state_100, files, &err) != 0)
        fail_msg("%s", err.text);
    return folder;
}

static void assert_same(const struct replica *a, const struct replica *b)
{
    assert_memory_equal(a->w, b->w, sizeof a->w);
    assert_memory_equal(a->m, b->m, sizeof a->m);
    assert_memory_equal(a->v, b->v, sizeof a->v);
}

/* Saved on 4 ranks, loaded, saved on 1, loaded, saved on 2, …: every bit stays, whatever the numbers of ranks. */
static void test_resharding(void **state)
{
    (void)state;
    static const int sizes[] = {4, 1, 2, 3, 16, 1};
    struct replica *original = replica_new(1), *current = replica_new(1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct err err;
        struct manifest_state found;
        char *name = str_printf("reshard%zu", i), *folder = save(name, current, sizes[i]);
        replica_free(current);
        current = replica_new(0);
        if (checkpoint_verify(folder, 0, 1, &found, &err) != 0 ||
            checkpoint_load(folder, current->arrays, current->n, &err) != CHECKPOINT_OK)
            fail_msg("%d ranks: %s", sizes[i], err.text);
        assert_same(original, current);
        assert_memory_equal(&found, &state_100, offsetof(struct manifest_state, job));
        assert_string_equal(found.job, "42");
        assert_int_equal(found.attempt, 3);
        assert_int_equal(found.dp, 4);
        free(folder);
        free(name);
    }
    replica_free(original);
    replica_free(current);
}

/* Together the shards hold each number once. */
static void test_nothing_is_written_twice(void **state)
{
    (void)state;
    struct replica *r = replica_new(1);
    char *folder = save("once", r, 4);
    struct err err;
    struct manifest *m = manifest_read(folder, &err);
    size_t numbers = 0;
    for (size_t i = 0; i < m->n_tensors; i++)
        for (size_t k = 0; k < m->tensors[i].n_slices; k++)
            numbers += (m->tensors[i].slices[k].to - m->tensors[i].slices[k].from) *
                       (m->tensors[i].dims > 1 ? m->tensors[i].shape[1] : 1) *
                       (m->tensors[i].dims > 2 ? m->tensors[i].shape[2] : 1);
    assert_int_equal(numbers, 3 * COUNT);
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n_files; i++) {
        char *path = str_printf("%s/%s", folder, m->files[i].name);
        uint64_t header = 0;
        char *content = fs_read(path, 1u << 20, NULL, NULL);
        memcpy(&header, content, 8);
        bytes += m->files[i].bytes - 8 - header;
        assert_int_equal(header % 8, 0);
        free(content);
        free(path);
    }
    assert_int_equal(bytes, 3 * COUNT * sizeof(float));
    manifest_free(m);
    free(folder);
    replica_free(r);
}

enum damage { FLIP_DATA, TRUNCATE, REMOVE_SHARD, TORN_MANIFEST, FLIP_MANIFEST, REMOVE_MANIFEST, GROW };

static void inflict(const char *folder, enum damage damage)
{
    char *shard = str_printf("%s/rank-00001.safetensors", folder),
         *manifest = str_printf("%s/manifest.json", folder);
    switch (damage) {
    case FLIP_DATA:
        scratch_flip(shard, 700);
        break;
    case TRUNCATE:
        assert_int_equal(truncate(shard, 700), 0);
        break;
    case REMOVE_SHARD:
        assert_int_equal(unlink(shard), 0);
        break;
    case TORN_MANIFEST:
        assert_int_equal(truncate(manifest, 300), 0);
        break;
    case FLIP_MANIFEST: {
        char *text = scratch_read(manifest), *digit = strstr(text, "\"step\": 100") + 9;
        scratch_flip(manifest, (size_t)(digit - text));
        free(text);
        break;
    }
    case REMOVE_MANIFEST:
        assert_int_equal(unlink(manifest), 0);
        break;
    case GROW: {
        FILE *f = fopen(shard, "ae");
        fputc(0, f);
        fclose(f);
    }
    }
    free(shard);
    free(manifest);
}

static void test_damage_is_found(void **state)
{
    (void)state;
    const struct {
        enum damage damage;
        const char *says;
    } rows[] = {
        {FLIP_DATA, "rank-00001.safetensors is damaged"},
        {TRUNCATE, "rank-00001.safetensors has 700 bytes"},
        {REMOVE_SHARD, "rank-00001.safetensors: No such file"},
        {TORN_MANIFEST, "manifest.json"},
        {FLIP_MANIFEST, "manifest.json: its content does not match its own hash"},
        {REMOVE_MANIFEST, "manifest.json: No such file"},
        {GROW, "its manifest says"},
    };
    struct replica *r = replica_new(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct manifest_state found;
        char *name = str_printf("damage%zu", i), *folder = save(name, r, 4);
        assert_int_equal(checkpoint_verify(folder, 0, 1, &found, &err), 0);
        inflict(folder, rows[i].damage);
        assert_int_equal(checkpoint_verify(folder, 0, 1, &found, &err), -1);
        assert_contains(err.text, rows[i].says);
        free(folder);
        free(name);
    }
    replica_free(r);
}

/* Each rank hashes its share of the files; together they miss none. */
static void test_verification_is_shared(void **state)
{
    (void)state;
    struct err err;
    struct manifest_state found;
    struct replica *r = replica_new(1);
    char *folder = save("shared", r, 4);
    inflict(folder, FLIP_DATA);
    assert_int_equal(checkpoint_verify(folder, 0, 2, &found, &err), 0);
    assert_int_equal(checkpoint_verify(folder, 1, 2, &found, &err), -1);
    assert_int_equal(checkpoint_verify(folder, 0, 0, &found, &err), 0); /* sizes only */
    free(folder);
    replica_free(r);
}

static void test_other_model(void **state)
{
    (void)state;
    struct err err;
    struct replica *r = replica_new(1), *other = replica_new(0);
    char *folder = save("other", r, 2);
    other->arrays[0].shape[0] = 9;
    assert_int_equal(checkpoint_load(folder, other->arrays, other->n, &err), CHECKPOINT_OTHER_MODEL);
    assert_contains(err.text, "another shape for tensor w");
    other->arrays[0].shape[0] = 10;
    assert_int_equal(checkpoint_load(folder, other->arrays, other->n - 1, &err), CHECKPOINT_OTHER_MODEL);
    assert_contains(err.text, "9 tensors, this one 8");
    snprintf(other->arrays[4].name, sizeof other->arrays[4].name, "adam.m.c");
    assert_int_equal(checkpoint_load(folder, other->arrays, other->n, &err), CHECKPOINT_OTHER_MODEL);
    assert_contains(err.text, "no tensor adam.m.c");
    for (size_t i = 0; i < COUNT; i++)
        assert_true(other->w[i] == 0);
    free(folder);
    replica_free(r);
    replica_free(other);
}

/* The disk fills up after any number of bytes: a sentence, no half file left behind. */
static void test_full_disk(void **state)
{
    (void)state;
    struct rlimit old;
    struct err err;
    struct manifest_file file;
    struct replica *r = replica_new(1);
    char *folder = scratch_path("full"), *path = str_printf("%s/rank-00000.safetensors", folder);
    fs_mkdirs(folder, 0755, NULL);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    static const rlim_t limits[] = {0, 1, 8, 100, 700, 1000, 1100};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit tight = {limits[i], old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &tight);
        int rc = checkpoint_write_shard(folder, 0, 1, r->arrays, r->n, &file, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(rc, -1);
        assert_contains(err.text, "cannot write");
        assert_int_equal(access(path, F_OK), -1);
    }
    free(path);
    free(folder);
    replica_free(r);
}

static void test_bad_safetensors(void **state)
{
    (void)state;
    const struct {
        const char *content;
        size_t len;
        const char *says;
    } rows[] = {
        {"", 0, "only 0 bytes"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "its header would have"},
        {"\x09\0\0\0\0\0\0\0{}", 10, "its header would have 9 bytes"},
        {"\x02\0\0\0\0\0\0\0[]", 10, "not a JSON object"},
        {"\x02\0\0\0\0\0\0\0{!", 10, "not a JSON object"},
        {"\x02\0\0\0\0\0\0\0{}", 10, "has no tensor x"},
#define HEADER(text) "\x40\0\0\0\0\0\0\0" text, 8 + 64
        {HEADER("{\"x\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}          "),
         "not of type F32"},
        {HEADER("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}          "),
         "expected shape"},
        {HEADER("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}          "),
         "within the file"},
        {HEADER("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}         "),
         "within the file"},
        {HEADER("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}                               "),
         "within the file"},
    };
    char *path = scratch_path("bad.safetensors");
    const size_t shape[] = {1};
    float x;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        scratch_write(path, rows[i].content, rows[i].len);
        struct safetensors *f = safetensors_open(path, &err);
        if (f)
            assert_int_equal(safetensors_read(f, "x", shape, 1, &x, &err), -1);
        assert_contains(err.text, rows[i].says);
        safetensors_close(f);
    }
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resharding),      cmocka_unit_test(test_nothing_is_written_twice),
        cmocka_unit_test(test_damage_is_found), cmocka_unit_test(test_verification_is_shared),
        cmocka_unit_test(test_other_model),     cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_bad_safetensors),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
