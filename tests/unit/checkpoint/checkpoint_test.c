#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/checkpoint/cuts.h"

#include <signal.h>
#include <sys/resource.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

static void assert_equal(float *x, float should)
{
    assert_true(*x == should);
    *x = 0;
}

static void assert_untouched(const struct rank *r)
{
    for (size_t t = 0; t < TENSORS; t++)
        for (size_t i = 0;
             i < tensors[t].shape[0] * ((tensors[t].dims == 2 ? tensors[t].shape[1] : 1) + MARGIN); i++)
            assert_true(r->memory[t][i] == 0);
}

/* Loads on `size` ranks, and checks each number, and that nothing but these was written to. */
static void load(const char *folder, enum cut cut, int size)
{
    struct err err;
    for (int rank = 0; rank < size; rank++) {
        struct rank *r = rank_new(cut, rank, size);
        if (checkpoint_load(folder, r->arrays, TENSORS, &err) != CHECKPOINT_OK)
            fail_msg("%s", err.text);
        each_number(r, assert_equal);
        assert_untouched(r);
        rank_free(r);
    }
}

/* What 4, 1, 3 and 16 ranks write, however they cut the tensors, 4, 1, 3 and 16 others read, however these cut them. */
static void test_resharding(void **state)
{
    (void)state;
    static const int sizes[] = {4, 1, 3, 16};
    for (int writers = 0; writers < 4; writers++)
        for (enum cut cut = 0; cut < CUTS; cut++) {
            struct err err;
            struct manifest_state found;
            char *name = str_printf("reshard%d.%d", writers, cut), *folder = save(name, cut, sizes[writers]);
            if (checkpoint_verify(folder, 0, 1, &found, &err) != 0)
                fail_msg("%s", err.text);
            assert_memory_equal(&found, &state_100, offsetof(struct manifest_state, job));
            assert_string_equal(found.job, "42");
            assert_int_equal(found.attempt, 3);
            assert_int_equal(found.dp, 4);
            assert_true(found.held_loss == state_100.held_loss);
            assert_int_equal(manifest_same_model(&found.model, &state_100.model, &err), 0);
            assert_string_equal(found.model.tokenizer, "a/tokenizer.json");
            assert_true(found.model.tokenizer_fingerprint == UINT64_MAX - 2);
            for (int readers = 0; readers < 4; readers++)
                for (enum cut other = 0; other < CUTS; other++)
                    load(folder, other, sizes[readers]);
            free(folder);
            free(name);
        }
}

/* Flat ranges of a box of three columns are at most three pieces, which lie side by side. */
static void test_range(void **state)
{
    (void)state;
    const struct box box = {{10, 4}, {14, 7}};
    float data[12];
    for (size_t from = 0; from <= 12; from++)
        for (size_t to = from; to <= 12; to++) {
            struct checkpoint_piece pieces[3];
            size_t n = checkpoint_range(&box, from, to, data, pieces), at = from;
            assert_true(n <= 3);
            for (size_t i = 0; i < n; i++)
                for (size_t r = pieces[i].from[0]; r < pieces[i].to[0]; r++)
                    for (size_t c = pieces[i].from[1]; c < pieces[i].to[1]; c++, at++) {
                        const struct checkpoint_piece *p = &pieces[i];
                        assert_int_equal((r - 10) * 3 + (c - 4), at);
                        assert_ptr_equal(p->data + (r - p->from[0]) * p->stride + (c - p->from[1]),
                                         data + (at - from));
                    }
            assert_int_equal(at, to);
        }
    assert_int_equal(checkpoint_range(&box, 0, 13, data, NULL), 0);
}

/* Only the files that hold what is wanted are opened, and only that is read. */
static void test_reads_what_overlaps(void **state)
{
    (void)state;
    struct err err;
    char *folder = save("few", ROWS, 4), *gone = str_printf("%s/rank-00003.safetensors", folder);
    struct rank *first = rank_new(ROWS, 0, 4), *last = rank_new(ROWS, 3, 4);
    assert_int_equal(unlink(gone), 0);
    assert_int_equal(checkpoint_load(folder, first->arrays, TENSORS, &err), CHECKPOINT_OK);
    each_number(first, assert_equal);
    assert_int_equal(checkpoint_load(folder, last->arrays, TENSORS, &err), CHECKPOINT_ERROR);
    assert_contains(err.text, "rank-00003.safetensors");
    rank_free(first);
    rank_free(last);
    free(gone);
    free(folder);
}

/* What rank 0 is told must add up. */
static void test_seal_refuses(void **state)
{
    (void)state;
    struct err err = {""};
    struct manifest_file file = {.name = "rank-00000.safetensors"};
    float x[12] = {0};
    struct checkpoint_piece pieces[] = {{{0, 0}, {2, 3}, x, 3}, {{2, 0}, {4, 3}, x, 3}};
    struct checkpoint_array a = {.name = "t", .shape = {4, 3}, .dims = 2, .pieces = pieces, .n_pieces = 2},
                            other = a;
    struct checkpoint_record records[2];
    const struct {
        size_t from, to, columns, rows;
        const char *says;
    } rows[] = {{3, 4, 3, 4, "tensor t (4 x 3) leave out"},
                {1, 4, 3, 4, "tensor t (4 x 3) hold a part of it twice"},
                {2, 5, 3, 4, "reach beyond"},
                {2, 4, 4, 4, "reach beyond"},
                {2, 4, 3, 5, "ranks disagree on the shape"}};
    char *folder = scratch_path("seal");
    fs_mkdirs(folder, 0755, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct checkpoint_piece p = {{rows[i].from, 0}, {rows[i].to, rows[i].columns}, x, 3};
        a.n_pieces = 1;
        other.n_pieces = 1;
        other.pieces = &p;
        other.shape[0] = rows[i].rows;
        records[0] = checkpoint_describe(&a, 1, &file);
        records[1] = checkpoint_describe(&other, 1, &file);
        assert_int_equal(checkpoint_seal(folder, records, NULL, 2, &state_100, &err), -1);
        assert_contains(err.text, rows[i].says);
        records[1].len--;
        assert_int_equal(checkpoint_seal(folder, records, NULL, 2, &state_100, &err), -1);
        assert_contains(err.text, "the record of shard 1");
        free(records[0].bytes);
        free(records[1].bytes);
    }
    free(folder);
}

/* Together the shards hold each number once. */
static void test_nothing_is_written_twice(void **state)
{
    (void)state;
    char *folder = save("once", FLAT_COLUMNS, 4);
    struct err err;
    struct manifest *m = manifest_read(folder, &err);
    size_t numbers = 0;
    for (size_t i = 0; i < m->n_tensors; i++)
        for (size_t k = 0; k < m->tensors[i].n_slices; k++)
            numbers += box_count(&m->tensors[i].slices[k].box);
    assert_int_equal(numbers, 120 + 7 + 10 + 9);
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
    assert_int_equal(bytes, numbers * sizeof(float));
    manifest_free(m);
    free(folder);
}

enum damage { FLIP_DATA, TRUNCATE, REMOVE_SHARD, TORN_MANIFEST, FLIP_MANIFEST, REMOVE_MANIFEST, GROW };

static void inflict(const char *folder, enum damage damage)
{
    char *shard = str_printf("%s/rank-00001.safetensors", folder),
         *manifest = str_printf("%s/manifest.json", folder);
    switch (damage) {
    case FLIP_DATA:
        scratch_flip(shard, 400);
        break;
    case TRUNCATE:
        assert_int_equal(truncate(shard, 400), 0);
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
        {TRUNCATE, "rank-00001.safetensors has 400 bytes"},
        {REMOVE_SHARD, "rank-00001.safetensors: No such file"},
        {TORN_MANIFEST, "manifest.json"},
        {FLIP_MANIFEST, "manifest.json: its content does not match its own hash"},
        {REMOVE_MANIFEST, "manifest.json: No such file"},
        {GROW, "its manifest says"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct manifest_state found;
        char *name = str_printf("damage%zu", i), *folder = save(name, ROWS, 4);
        assert_int_equal(checkpoint_verify(folder, 0, 1, &found, &err), 0);
        inflict(folder, rows[i].damage);
        assert_int_equal(checkpoint_verify(folder, 0, 1, &found, &err), -1);
        assert_contains(err.text, rows[i].says);
        free(folder);
        free(name);
    }
}

/* Each rank hashes its share of the files; together they miss none. */
static void test_verification_is_shared(void **state)
{
    (void)state;
    struct err err;
    struct manifest_state found;
    char *folder = save("shared", ROWS, 4);
    inflict(folder, FLIP_DATA);
    assert_int_equal(checkpoint_verify(folder, 0, 2, &found, &err), 0);
    assert_int_equal(checkpoint_verify(folder, 1, 2, &found, &err), -1);
    assert_int_equal(checkpoint_verify(folder, 0, 0, &found, &err), 0); /* sizes only */
    free(folder);
}

static void test_other_model(void **state)
{
    (void)state;
    struct err err;
    struct rank *r = rank_new(ROWS, 0, 1);
    char *folder = save("other", ROWS, 2);
    r->arrays[0].shape[0] = 9;
    assert_int_equal(checkpoint_load(folder, r->arrays, TENSORS, &err), CHECKPOINT_OTHER_MODEL);
    assert_contains(err.text, "another shape for tensor w");
    r->arrays[0].shape[0] = 10;
    r->arrays[1].dims = 2;
    assert_int_equal(checkpoint_load(folder, r->arrays, TENSORS, &err), CHECKPOINT_OTHER_MODEL);
    assert_contains(err.text, "another shape for tensor b");
    r->arrays[1].dims = 1;
    (void)snprintf(r->arrays[2].name, sizeof r->arrays[2].name, "many");
    assert_int_equal(checkpoint_load(folder, r->arrays, TENSORS, &err), CHECKPOINT_OTHER_MODEL);
    assert_contains(err.text, "no tensor many");
    assert_untouched(r);
    free(folder);
    rank_free(r);
}

/* The disk fills up after any number of bytes: a sentence, no half file left behind. */
static void test_full_disk(void **state)
{
    (void)state;
    struct rlimit old;
    struct err err;
    struct manifest_file file;
    struct rank *r = rank_new(ROWS, 0, 1);
    char *folder = scratch_path("full"), *path = str_printf("%s/rank-00000.safetensors", folder);
    fs_mkdirs(folder, 0755, NULL);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    static const rlim_t limits[] = {0, 1, 8, 100, 300, 500, 700};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit tight = {limits[i], old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &tight);
        int rc = checkpoint_write_shard(folder, 0, r->arrays, TENSORS, &file, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(rc, -1);
        assert_contains(err.text, "cannot write");
        assert_int_equal(access(path, F_OK), -1);
    }
    free(path);
    free(folder);
    rank_free(r);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_resharding),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_reads_what_overlaps),
        cmocka_unit_test(test_seal_refuses),
        cmocka_unit_test(test_nothing_is_written_twice),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_verification_is_shared),
        cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(all, scratch_make, scratch_remove);
}
