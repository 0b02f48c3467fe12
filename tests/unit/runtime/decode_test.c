/* What is kept of a text gives what the whole text gives: logits against a pass over whole sequences, for all kinds of models; prompts in pieces,
 * in batches of any lengths, and token by token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/engine/store.h"
#include "runtime/model/decode.h"

#define CONTEXT 24
#define VOCAB   97

static const struct job_model models[] = {
    {.arch = ARCH_GPT2,
     .layers = 3,
     .hidden = 32,
     .heads = 4,
     .kv_heads = 4,
     .ffn = 64,
     .vocab = VOCAB,
     .context = CONTEXT,
     .tied = true,
     .norm_eps = 1e-5},
    {.arch = ARCH_LLAMA,
     .layers = 3,
     .hidden = 32,
     .heads = 8,
     .kv_heads = 2,
     .ffn = 48,
     .vocab = VOCAB,
     .context = CONTEXT,
     .norm_eps = 1e-5,
     .rope_theta = 10000},
    {.arch = ARCH_LLAMA,
     .layers = 2,
     .hidden = 32,
     .heads = 4,
     .kv_heads = 4,
     .ffn = 24,
     .vocab = VOCAB,
     .context = CONTEXT,
     .norm_eps = 1e-5,
     .rope_theta = 500000,
     .experts = 4,
     .top_k = 2},
    {.arch = ARCH_LLAMA,
     .layers = 2,
     .hidden = 32,
     .heads = 4,
     .kv_heads = 1,
     .ffn = 24,
     .vocab = VOCAB,
     .context = CONTEXT,
     .tied = true,
     .norm_eps = 1e-5,
     .rope_theta = 10000,
     .experts = 4,
     .top_k = 1},
};
enum { MODELS = sizeof models / sizeof *models };

/* A model with weights, in a process of its own. */
struct lab {
    struct job_model config;
    const struct kernels *k;
    struct comm *comm;
    struct mesh mesh;
    struct layout layout;
    struct store *store;
    double close; /* how near logits must be: rounding of the type */
};

/* Matrices larger than training begins with, so that attention is sharp and the order of tokens matters. */
static void sharpen(struct lab *lab)
{
    for (size_t t = 0; t < lab->layout.n_tensors; t++) {
        struct store_range r = store_owned(lab->store, t, STORE_MASTER);
        for (size_t i = r.begin; lab->layout.tensors[t].dims == 2 && i < r.end; i++)
            r.data[i - r.begin] *= 6;
    }
    store_spread(lab->store);
}

static void lab_open(struct lab *lab, const struct job_model *model, enum kernel_type type)
{
    struct err err = {""};
    struct mesh_sizes one = {1, 1, 1, 1, 1};
    *lab = (struct lab){.config = *model, .close = type == KERNEL_FP32 ? 1e-5 : 0.02};
    lab->k = kernels_cpu(type, &err);
    lab->comm = comm_open(NULL, &err);
    assert_non_null(lab->k);
    assert_int_equal(mesh_open(&lab->mesh, lab->comm, &one, false, &err), 0);
    layout_make(&lab->layout, &(struct layout_request){.model = &lab->config,
                                                       .size = one,
                                                       .piece_layers = &lab->config.layers,
                                                       .virtual_stages = 1});
    lab->store = store_new(&(struct store_request){&lab->layout, &lab->mesh, lab->k, 0, true}, &err);
    assert_non_null(lab->store);
    store_init(lab->store, &lab->config, 5);
    sharpen(lab);
}

static void lab_close(struct lab *lab)
{
    store_free(lab->store);
    layout_free(&lab->layout);
    comm_close(lab->comm);
}

static struct model_request request_of(struct lab *lab)
{
    return (struct model_request){.config = &lab->config,
                                  .mesh = &lab->mesh,
                                  .kernels = lab->k,
                                  .layout = &lab->layout,
                                  .units = store_units(lab->store),
                                  .hooks = store_hooks(lab->store),
                                  .context = CONTEXT};
}

static struct decode *decode_of(struct lab *lab, size_t sequences, size_t rows)
{
    struct err err = {""};
    struct model_request r = request_of(lab);
    r.sequences = sequences;
    r.batch = rows;
    struct decode *d = decode_new(&r, &err);
    if (!d)
        fail_msg("%s", err.text);
    return d;
}

static void feed(struct decode *d, const int32_t *tokens, const size_t *counts, real *logits)
{
    struct err err = {""};
    if (decode_feed(d, tokens, counts, logits, &err) != 0)
        fail_msg("%s", err.text);
}

/* Text of sequence b. */
static void text_of(size_t b, int32_t *out)
{
    uint32_t x = 12345 + 777 * (uint32_t)b;
    for (size_t i = 0; i < CONTEXT; i++) {
        x = x * 1664525 + 1013904223;
        out[i] = (int32_t)((x >> 16) % VOCAB);
    }
}

/* Logits (B, T, vocab) of whole texts 0..batch-1 in one pass without anything kept; fresh. */
static real *whole(struct lab *lab, size_t batch)
{
    struct err err = {""};
    struct model_request r = request_of(lab);
    size_t n = batch * CONTEXT;
    int32_t *tokens = mem_zero(n, sizeof *tokens), *rows = mem_zero(n, sizeof *rows);
    real *logits = mem_zero(n * VOCAB, sizeof *logits);
    r.batch = batch;
    r.slots = 1;
    r.inference = true;
    struct model *m = model_new(&r, &err);
    assert_non_null(m);
    for (size_t i = 0; i < n; i++)
        rows[i] = (int32_t)i;
    for (size_t b = 0; b < batch; b++)
        text_of(b, tokens + b * CONTEXT);
    struct model_batch pass = {.tokens = tokens};
    model_logits(m, &pass, rows, n, logits);
    model_free(m);
    free(tokens);
    free(rows);
    return logits;
}

static double distance(const real *a, const real *b)
{
    double most = 0;
    for (size_t i = 0; i < VOCAB; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static size_t best(const real *x)
{
    size_t at = 0;
    for (size_t i = 1; i < VOCAB; i++)
        at = x[i] > x[at] ? i : at;
    return at;
}

static void compare(const struct lab *lab, const char *what, const real *found, const real *expected)
{
    double d = distance(found, expected);
    if (!(d <= lab->close))
        fail_msg("%s: logits differ by %g", what, d);
    /* the same token, but where two are equally likely */
    assert_true((double)expected[best(found)] >= (double)expected[best(expected)] - lab->close);
}

/* Is the model's answer one that depends on the text? Else all comparisons would be empty. */
static void means_something(const real *logits)
{
    assert_true(distance(logits + 3 * VOCAB, logits + 9 * VOCAB) > 0.5);
}

static void one_by_one(struct lab *lab)
{
    real *expected = whole(lab, 1), logits[VOCAB];
    struct decode *d = decode_of(lab, 1, 0);
    int32_t text[CONTEXT];
    text_of(0, text);
    means_something(expected);
    for (size_t i = 0; i < CONTEXT; i++) {
        feed(d, text + i, &(size_t){1}, logits);
        assert_int_equal(decode_length(d, 0), i + 1);
        compare(lab, "token by token", logits, expected + i * VOCAB);
    }
    decode_free(d);
    free(expected);
}

/* The prompt in pieces of any size, also larger than a pass. */
static void in_pieces(struct lab *lab)
{
    real *expected = whole(lab, 1), logits[VOCAB];
    int32_t text[CONTEXT];
    text_of(0, text);
    const size_t pieces[][4] = {{CONTEXT}, {1, 23}, {7, 9, 8}, {5, 0, 18, 1}};
    for (size_t rows = 1; rows <= 16; rows += 5)
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            struct decode *d = decode_of(lab, 1, rows);
            for (size_t i = 0, at = 0; i < 4; at += pieces[p][i++]) {
                feed(d, text + at, &pieces[p][i], logits);
                if (pieces[p][i] > 0)
                    compare(lab, "in pieces", logits, expected + (at + pieces[p][i] - 1) * VOCAB);
            }
            decode_free(d);
        }
    free(expected);
}

/* Prompts of all lengths together, then further tokens of some, then of all. */
static void ragged(struct lab *lab)
{
    enum { B = 5 };
    const size_t rounds[][B] = {
        {3, 9, 1, 9, 4}, {1, 1, 1, 1, 1}, {1, 0, 5, 2, 0}, {2, 2, 2, 2, 2}, {0, 0, 0, 0, 7}};
    real *expected = whole(lab, B), *logits = mem_zero(B * VOCAB, sizeof *logits);
    for (size_t rows = 3; rows <= 64; rows += 20) {
        struct decode *d = decode_of(lab, B, rows);
        for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
            int32_t tokens[B * CONTEXT], text[CONTEXT];
            size_t n = 0;
            for (size_t b = 0; b < B; b++) {
                text_of(b, text);
                memcpy(tokens + n, text + decode_length(d, b), rounds[i][b] * sizeof *text);
                n += rounds[i][b];
            }
            feed(d, tokens, rounds[i], logits);
            for (size_t b = 0; b < B; b++)
                compare(lab, "ragged", logits + b * VOCAB,
                        expected + (b * CONTEXT + decode_length(d, b) - 1) * VOCAB);
        }
        decode_free(d);
    }
    free(expected);
    free(logits);
}

/* Another text in the place of one that is done with. */
static void again(struct lab *lab)
{
    real *expected = whole(lab, 2), logits[2 * VOCAB];
    int32_t tokens[2 * CONTEXT];
    struct decode *d = decode_of(lab, 2, 0);
    text_of(1, tokens);
    text_of(0, tokens + 6);
    feed(d, tokens, (size_t[]){6, 10}, logits);
    decode_forget(d, 0);
    text_of(0, tokens);
    feed(d, tokens, (size_t[]){12, 0}, logits);
    compare(lab, "in a used place", logits, expected + 11 * VOCAB);
    compare(lab, "beside it", logits + VOCAB, expected + 9 * VOCAB);
    decode_free(d);
    free(expected);
}

static void with_every_model(void (*check)(struct lab *))
{
    for (size_t i = 0; i < 2 * (size_t)MODELS; i++) {
        struct lab lab;
        lab_open(&lab, &models[i / 2], i % 2 ? KERNEL_BF16 : KERNEL_FP32);
        check(&lab);
        lab_close(&lab);
    }
}

static void token_by_token_is_the_whole_text(void **state)
{
    (void)state;
    with_every_model(one_by_one);
}

static void prompts_may_come_in_pieces(void **state)
{
    (void)state;
    with_every_model(in_pieces);
}

static void a_batch_is_its_sequences_one_by_one(void **state)
{
    (void)state;
    with_every_model(ragged);
}

static void places_can_be_used_again(void **state)
{
    (void)state;
    with_every_model(again);
}

/* Experts with a capacity in training take all rows here. */
static void capacity_is_not_for_decoding(void **state)
{
    (void)state;
    struct job_model tight = models[2];
    struct lab lab, loose;
    real expected[VOCAB], found[VOCAB];
    int32_t text[CONTEXT];
    text_of(0, text);
    tight.capacity = 0.25;
    lab_open(&loose, &models[2], KERNEL_FP32);
    struct decode *d = decode_of(&loose, 1, 0);
    feed(d, text, &(size_t){CONTEXT}, expected);
    decode_free(d);
    lab_close(&loose);
    lab_open(&lab, &tight, KERNEL_FP32);
    d = decode_of(&lab, 1, 0);
    feed(d, text, &(size_t){CONTEXT}, found);
    compare(&lab, "with a capacity", found, expected);
    decode_free(d);
    lab_close(&lab);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct lab lab;
    struct err err = {""};
    real logits[VOCAB];
    int32_t text[CONTEXT + 1] = {0};
    lab_open(&lab, &models[0], KERNEL_FP32);
    struct decode *d = decode_of(&lab, 1, 0);
    assert_int_equal(decode_feed(d, text, &(size_t){CONTEXT + 1}, logits, &err), -1);
    assert_non_null(strstr(err.text, "do not fit"));
    feed(d, text, &(size_t){CONTEXT}, logits);
    assert_int_equal(decode_feed(d, text, &(size_t){1}, logits, &err), -1);
    decode_forget(d, 0);
    const int32_t bad[] = {-1, VOCAB};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(decode_feed(d, &bad[i], &(size_t){1}, logits, &err), -1);
        assert_non_null(strstr(err.text, "vocabulary"));
        assert_int_equal(decode_length(d, 0), 0);
    }
    decode_free(d);
    struct model_request r = request_of(&lab);
    assert_null(decode_new(&r, &err)); /* no sequence */
    r.sequences = 1;
    r.context = CONTEXT + 1;
    assert_null(decode_new(&r, &err));
    lab_close(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_by_token_is_the_whole_text),    cmocka_unit_test(prompts_may_come_in_pieces),
        cmocka_unit_test(a_batch_is_its_sequences_one_by_one), cmocka_unit_test(places_can_be_used_again),
        cmocka_unit_test(capacity_is_not_for_decoding),        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
