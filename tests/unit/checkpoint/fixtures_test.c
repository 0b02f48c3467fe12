/* Checkpoints of every format version that was ever written (tests/fixtures/checkpoint) are found good, and load bit by bit: the digests were
 * computed by another program, from the JSON and the bytes of the files. format2-llama is from before manifests had held_loss. */
#include <math.h>
#include <openssl/evp.h>

#include "checkpoint/audit.h"
#include "checkpoint/checkpoint.h"
#include "tests/unit/scratch.h"

#define FIXTURES "tests/fixtures/checkpoint/"

static const struct row {
    const char *folder;
    int64_t format, dp, tp;
    size_t tensors;
    const char *arch, *sha256; /* of all numbers, tensors in the order of their names */
} rows[] = {
    {FIXTURES "format1-gpt2", 1, 3, 1, 48, "gpt2",
     "65738823254ab9741100cf8424550181ba7f71dc278672524e07d9a8acfd033a"},
    {FIXTURES "format1-llama", 1, 3, 1, 36, "llama",
     "72b71fba65c93d306121690c5cf59b5f2fe7bb4887d4ea8d7aa993d82b7d152b"},
    {FIXTURES "format2-llama", 2, 2, 2, 36, "llama",
     "3c8529afc69cc91b8702bfb5401b8d35f1ba9fe030c0cf5ab553c69854bc76e3"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void test_they_are_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct err err = {""};
        struct audit *a = audit_open(rows[i].folder, &err);
        if (!a)
            fail_msg("%s", err.text);
        const struct manifest *m = audit_manifest(a);
        assert_int_equal(m->format, rows[i].format);
        assert_int_equal(m->n_tensors, rows[i].tensors);
        assert_int_equal(m->state.step, 2);
        assert_int_equal(m->state.dp, rows[i].dp);
        assert_int_equal(m->state.tp, rows[i].tp);
        assert_string_equal(m->state.model.arch, rows[i].arch);
        assert_true(isnan(m->state.held_loss));
        assert_true(isnan(manifest_held_loss(rows[i].folder)));
        for (size_t k = 0; k < m->n_files; k++)
            if (audit_file(a, k, true, NULL, &err) != 0)
                fail_msg("%s", err.text);
        audit_close(a);
    }
}

/* Loads a tensor whole and adds its bytes. */
static void add_tensor(EVP_MD_CTX *sha, const char *folder, const struct manifest_tensor *t)
{
    struct err err = {""};
    size_t columns = t->dims == 2 ? t->shape[1] : 1, n = t->shape[0] * columns;
    float *x = mem_zero(n, sizeof *x);
    struct checkpoint_piece piece = {{0, 0}, {t->shape[0], columns}, x, columns};
    struct checkpoint_array array = {
        .shape = {t->shape[0], t->shape[1]}, .dims = t->dims, .pieces = &piece, .n_pieces = 1};
    memcpy(array.name, t->name, sizeof array.name);
    if (checkpoint_load(folder, &array, 1, &err) != CHECKPOINT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(EVP_DigestUpdate(sha, x, n * sizeof *x), 1);
    free(x);
}

static void test_they_load_bit_by_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct err err = {""};
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned len = 0;
        char text[2 * EVP_MAX_MD_SIZE + 1] = "";
        struct manifest *m = manifest_read(rows[i].folder, &err);
        EVP_MD_CTX *sha = EVP_MD_CTX_new();
        assert_non_null(m);
        assert_int_equal(EVP_DigestInit_ex(sha, EVP_sha256(), NULL), 1);
        for (size_t k = 0; k < m->n_tensors; k++)
            add_tensor(sha, rows[i].folder, &m->tensors[k]);
        assert_int_equal(EVP_DigestFinal_ex(sha, digest, &len), 1);
        for (unsigned k = 0; k < len; k++)
            (void)snprintf(text + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(text, rows[i].sha256);
        EVP_MD_CTX_free(sha);
        manifest_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_they_are_good),
                                       cmocka_unit_test(test_they_load_bit_by_bit)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
