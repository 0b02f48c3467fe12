/* A rank of another mesh reads little more than its own part: the headers of the files that hold some of it, and, where its columns lie close to
 * others, what lies between. The bytes that go through read(2) and pread(2) are counted by the kernel. */
#include <fcntl.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/fetch.h"
#include "checkpoint/safetensors.h"
#include "tests/unit/scratch.h"

/* 8 MiB: rows of 8 KiB (wide), of 256 bytes (narrow), and a vector. */
#define TENSORS 3
static const struct {
    const char *name;
    size_t shape[2], dims;
} tensors[TENSORS] = {{"wide", {512, 2048}, 2}, {"narrow", {12288, 64}, 2}, {"vector", {262144, 0}, 1}};

enum cut { BY_ROWS, BY_COLUMNS, FLAT };

struct part {
    struct checkpoint_array arrays[TENSORS];
    struct checkpoint_piece pieces[TENSORS][3];
    float *memory[TENSORS];
    size_t bytes; /* of all pieces */
};

static size_t share(size_t n, size_t rank, size_t size)
{
    return n * rank / size;
}

static void cut_tensor(struct part *p, size_t t, enum cut cut, size_t rank, size_t size)
{
    struct checkpoint_array *a = &p->arrays[t];
    size_t rows = tensors[t].shape[0], columns = tensors[t].dims == 2 ? tensors[t].shape[1] : 1;
    struct box b = {{0, 0}, {rows, columns}};
    int side = cut == BY_COLUMNS && columns > 1 ? 1 : 0;
    size_t all = side ? columns : rows;
    b.from[side] = share(all, rank, size);
    b.to[side] = share(all, rank + 1, size);
    if (cut == FLAT) {
        const struct box whole = {{0, 0}, {rows, columns}};
        a->n_pieces = checkpoint_range(&whole, share(rows * columns, rank, size),
                                       share(rows * columns, rank + 1, size), p->memory[t], a->pieces);
    } else {
        a->pieces[0] = (struct checkpoint_piece){
            {b.from[0], b.from[1]}, {b.to[0], b.to[1]}, p->memory[t], b.to[1] - b.from[1]};
        a->n_pieces = 1;
    }
}

static struct part *part_new(enum cut cut, size_t rank, size_t size)
{
    struct part *p = mem_zero(1, sizeof *p);
    for (size_t t = 0; t < TENSORS; t++) {
        struct checkpoint_array *a = &p->arrays[t];
        (void)snprintf(a->name, sizeof a->name, "%s", tensors[t].name);
        memcpy(a->shape, tensors[t].shape, sizeof a->shape);
        a->dims = tensors[t].dims;
        a->pieces = p->pieces[t];
        p->memory[t] = mem_zero((1u << 20) + 1, sizeof(float));
        cut_tensor(p, t, cut, rank, size);
        for (size_t i = 0; i < a->n_pieces; i++) {
            const struct checkpoint_piece *x = &a->pieces[i];
            p->bytes += (x->to[0] - x->from[0]) * (x->to[1] - x->from[1]) * sizeof(float);
        }
    }
    return p;
}

static void part_free(struct part *p)
{
    for (size_t t = 0; t < TENSORS; t++)
        free(p->memory[t]);
    free(p);
}

static char *save(const char *name, enum cut cut, size_t size)
{
    struct err err = {""};
    struct checkpoint_record records[16];
    const struct manifest_state at = {.step = 1, .tp = 1, .pp = 1, .cp = 1, .dp = (int64_t)size, .ep = 1};
    char *folder = scratch_path(name);
    assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
    for (size_t rank = 0; rank < size; rank++) {
        struct part *p = part_new(cut, rank, size);
        struct manifest_file file;
        if (checkpoint_write_shard(folder, (int)rank, p->arrays, TENSORS, &file, &err) != 0)
            fail_msg("%s", err.text);
        records[rank] = checkpoint_describe(p->arrays, TENSORS, &file);
        part_free(p);
    }
    if (checkpoint_seal(folder, records, NULL, size, &at, &err) != 0)
        fail_msg("%s", err.text);
    for (size_t rank = 0; rank < size; rank++)
        free(records[rank].bytes);
    return folder;
}

/* Bytes that this process has read so far; reading this costs some itself. */
static size_t bytes_read(void)
{
    char text[512] = "";
    unsigned long long n = 0;
    int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    assert_int_equal(sscanf(text, "rchar: %llu", &n), 1);
    return (size_t)n;
}

/* A file's header is below this here: 16 entries of some 100 bytes. */
#define HEADER_BYTES 2048
#define SLACK_BYTES  1024 /* /proc/self/io */

/* What loading may read beside the part itself. Columns: up to SAFETENSORS_GAP bytes between the parts of two rows. */
static size_t allowance(enum cut from, size_t writers, enum cut to, size_t readers)
{
    size_t gaps = 0;
    for (size_t t = 0; to == BY_COLUMNS && t < TENSORS; t++) {
        size_t row = tensors[t].dims == 2 ? tensors[t].shape[1] * sizeof(float) : 0;
        size_t stored = from == BY_COLUMNS ? row / writers : row, part = row / readers;
        size_t gap = stored > part ? stored - part : 0;
        gaps += gap <= SAFETENSORS_GAP ? tensors[t].shape[0] * gap : 0;
    }
    return writers * HEADER_BYTES + SLACK_BYTES + gaps;
}

static void test_a_rank_reads_its_part(void **state)
{
    (void)state;
    static const struct {
        enum cut from;
        size_t writers;
        enum cut to;
        size_t readers;
    } rows[] = {
        {BY_ROWS, 4, BY_ROWS, 16}, {BY_ROWS, 16, BY_ROWS, 4},       {FLAT, 3, FLAT, 16},
        {FLAT, 8, BY_ROWS, 2},     {BY_ROWS, 1, BY_ROWS, 16},       {BY_COLUMNS, 4, FLAT, 16},
        {BY_ROWS, 1, FLAT, 16},    {BY_COLUMNS, 8, BY_COLUMNS, 16}, {BY_ROWS, 2, BY_COLUMNS, 16},
        {FLAT, 4, BY_COLUMNS, 8},  {BY_COLUMNS, 2, BY_ROWS, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        char *name = str_printf("reads%zu", i), *folder = save(name, rows[i].from, rows[i].writers);
        struct manifest *m = manifest_read(folder, &err);
        size_t whole = 0;
        for (size_t k = 0; k < m->n_files; k++)
            whole += m->files[k].bytes;
        for (size_t rank = 0; rank < rows[i].readers; rank += 5) {
            struct part *p = part_new(rows[i].to, rank, rows[i].readers);
            size_t before = bytes_read();
            if (checkpoint_load_from(folder, m, p->arrays, TENSORS, &err) != CHECKPOINT_OK)
                fail_msg("%s", err.text);
            size_t n = bytes_read() - before,
                   most = p->bytes + allowance(rows[i].from, rows[i].writers, rows[i].to, rows[i].readers);
            if (n < p->bytes || n > most)
                fail_msg("row %zu, rank %zu: %zu bytes were read for a part of %zu; %zu are allowed, all "
                         "files have %zu",
                         i, rank, n, p->bytes, most, whole);
            part_free(p);
        }
        manifest_free(m);
        free(folder);
        free(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_rank_reads_its_part)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
