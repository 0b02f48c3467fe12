/* cuts: checkpoints of a few small tensors, as ranks that cut them in several ways write them. */
#ifndef BELAY_TESTS_CUTS_H
#define BELAY_TESTS_CUTS_H

#include "tests/unit/scratch.h"

#include "checkpoint/checkpoint.h"

/* A matrix, a vector, and matrices with fewer rows than ranks and few columns. */
#define TENSORS 4
static const struct {
    const char *name;
    size_t shape[2], dims;
} tensors[TENSORS] = {{"w", {10, 12}, 2}, {"b", {7, 0}, 1}, {"few", {2, 5}, 2}, {"narrow", {9, 1}, 2}};

/* How ranks divide the tensors among them. FLAT_COLUMNS: two groups of columns, and in each flat ranges. */
enum cut { ROWS, COLUMNS, FLAT, FLAT_COLUMNS, CUTS };

/* The arrays of one rank, with memory of their own. */
struct rank {
    struct checkpoint_array arrays[TENSORS];
    struct checkpoint_piece pieces[TENSORS][3];
    float *memory[TENSORS];
};

static inline size_t share(size_t n, int rank, int size)
{
    return n * (size_t)rank / (size_t)size;
}

/* A matrix in memory is wider than the box that is kept of it, so that strides matter. */
#define MARGIN 3

static inline size_t cut_box(const struct box *b, float *memory, struct checkpoint_piece *p, size_t margin)
{
    if (!box_valid(b))
        return 0;
    *p = (struct checkpoint_piece){
        {b->from[0], b->from[1]}, {b->to[0], b->to[1]}, memory, b->to[1] - b->from[1] + margin};
    return 1;
}

static inline size_t cut_flat(const struct box *b, int rank, int size, float *memory,
                              struct checkpoint_piece *pieces)
{
    if (!box_valid(b))
        return 0;
    size_t n = box_count(b);
    return checkpoint_range(b, share(n, rank, size), share(n, rank + 1, size), memory, pieces);
}

static inline size_t cut_tensor(enum cut cut, int rank, int size, size_t rows, size_t columns, float *memory,
                                struct checkpoint_piece *pieces)
{
    struct box whole = {{0, 0}, {rows, columns}};
    size_t margin = columns > 1 ? MARGIN : 0;
    if (cut == ROWS) {
        whole.from[0] = share(rows, rank, size);
        whole.to[0] = share(rows, rank + 1, size);
    } else if (cut == COLUMNS) {
        whole.from[1] = share(columns, rank, size);
        whole.to[1] = share(columns, rank + 1, size);
    } else if (cut == FLAT || size < 2) {
        return cut_flat(&whole, rank, size, memory, pieces);
    } else {
        int left = size / 2, mine = rank < left ? 0 : 1;
        whole.from[1] = mine ? columns / 2 : 0;
        whole.to[1] = mine ? columns : columns / 2;
        return cut_flat(&whole, mine ? rank - left : rank, mine ? size - left : left, memory, pieces);
    }
    return cut_box(&whole, memory, pieces, margin);
}

static inline struct rank *rank_new(enum cut cut, int rank, int size)
{
    struct rank *r = calloc(1, sizeof *r);
    for (size_t t = 0; t < TENSORS; t++) {
        size_t rows = tensors[t].shape[0], columns = tensors[t].dims == 2 ? tensors[t].shape[1] : 1;
        struct checkpoint_array *a = &r->arrays[t];
        (void)snprintf(a->name, sizeof a->name, "%s", tensors[t].name);
        memcpy(a->shape, tensors[t].shape, sizeof a->shape);
        a->dims = tensors[t].dims;
        a->pieces = r->pieces[t];
        r->memory[t] = calloc(rows * (columns + MARGIN), sizeof(float));
        a->n_pieces = cut_tensor(cut, rank, size, rows, columns, r->memory[t], r->pieces[t]);
    }
    return r;
}

static inline void rank_free(struct rank *r)
{
    for (size_t t = 0; t < TENSORS; t++)
        free(r->memory[t]);
    free(r);
}

static inline float value(size_t tensor, size_t row, size_t column)
{
    return (float)(tensor * 1000 + row * 37 + column + 1) / 7;
}

/* Calls act with each number of the rank's pieces and what it should be. */
static inline void each_number(struct rank *r, void (*act)(float *x, float should))
{
    for (size_t t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < r->arrays[t].n_pieces; i++) {
            const struct checkpoint_piece *p = &r->pieces[t][i];
            for (size_t row = p->from[0]; row < p->to[0]; row++)
                for (size_t c = p->from[1]; c < p->to[1]; c++)
                    act(&p->data[(row - p->from[0]) * p->stride + (c - p->from[1])], value(t, row, c));
        }
}

static inline void put(float *x, float should)
{
    *x = should;
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
                                                .ep = 1,
                                                .held_loss = 2.71828182845904509,
                                                .model = {.arch = "llama",
                                                          .layers = 2,
                                                          .hidden = 6,
                                                          .heads = 3,
                                                          .kv_heads = 1,
                                                          .ffn = 9,
                                                          .vocab = 97,
                                                          .context = 8,
                                                          .experts = 4,
                                                          .top_k = 2,
                                                          .tied = true,
                                                          .norm_eps = 1e-6,
                                                          .rope_theta = 5e5,
                                                          .tokenizer = "a/tokenizer.json",
                                                          .tokenizer_fingerprint = UINT64_MAX - 2}};

/* What `size` ranks would write into scratch/name; the caller frees the path. */
static inline char *save(const char *name, enum cut cut, int size)
{
    struct err err;
    struct checkpoint_record records[16];
    char *folder = scratch_path(name);
    assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
    for (int rank = 0; rank < size; rank++) {
        struct rank *r = rank_new(cut, rank, size);
        struct manifest_file file;
        each_number(r, put);
        if (checkpoint_write_shard(folder, rank, r->arrays, TENSORS, &file, &err) != 0)
            fail_msg("%s", err.text);
        records[rank] = checkpoint_describe(r->arrays, TENSORS, &file);
        rank_free(r);
    }
    if (checkpoint_seal(folder, records, NULL, (size_t)size, &state_100, &err) != 0)
        fail_msg("%s", err.text);
    for (int rank = 0; rank < size; rank++)
        free(records[rank].bytes);
    return folder;
}

#endif
