/* data_fixture: small corpora for the tests of runtime/data: files in every format, and a job's train section that names them. */
#ifndef BELAY_TESTS_RUNTIME_DATA_FIXTURE_H
#define BELAY_TESTS_RUNTIME_DATA_FIXTURE_H

#include "tests/unit/scratch.h"

#include "runtime/data/tokenfile.h"
#include "schema/job.h"

#define CONTEXT 8

struct bytes {
    unsigned char *data;
    size_t len, room;
};

static inline void put(struct bytes *b, const void *data, size_t len)
{
    if (b->len + len > b->room)
        b->data = mem_grow(b->data, b->room = 2 * (b->len + len), 1);
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static inline void put_u64(struct bytes *b, uint64_t v)
{
    put(b, &v, sizeof v);
}

static inline void put_u32(struct bytes *b, uint32_t v)
{
    put(b, &v, sizeof v);
}

/* One token in the type's width. */
static inline void put_token(struct bytes *b, enum token_type type, int64_t v)
{
    unsigned char bytes[8];
    memcpy(bytes, &v, sizeof v);
    for (size_t i = 0; i < token_type_bytes(type); i++)
        put(b, &bytes[i], 1);
}

static inline void bytes_save(struct bytes *b, const char *path)
{
    scratch_write(path, b->data ? (const void *)b->data : "", b->len);
    free(b->data);
    *b = (struct bytes){NULL, 0, 0};
}

/* Our own format: version 1 or 2; mask (n bits as bytes 0 or 1) or NULL. */
static inline void own_file(struct bytes *b, uint32_t version, enum token_type type, const int32_t *tokens,
                            size_t n, const unsigned char *mask)
{
    put(b, "BELAYTOK", 8);
    put_u32(b, version);
    put_u32(b, (uint32_t)token_type_bytes(type));
    put_u64(b, n);
    put_u64(b, mask ? 1 : 0);
    for (int i = 0; version == 2 && i < 4; i++)
        put_u64(b, i == 1 ? UINT64_MAX : 0); /* vocabulary, end, fingerprint, reserved */
    for (size_t i = 0; i < n; i++)
        put_token(b, type, tokens[i]);
    for (size_t i = 0; mask && i < n; i += 8) {
        unsigned char byte = 0;
        for (size_t bit = 0; bit < 8 && i + bit < n; bit++)
            byte = (unsigned char)(byte | mask[i + bit] << bit);
        put(b, &byte, 1);
    }
}

/* llm.c's format: 256 int32, of which three are used. */
static inline void llmc_file(struct bytes *b, uint32_t magic, uint32_t version, enum token_type type,
                             const int32_t *tokens, size_t n)
{
    uint32_t header[256] = {magic, version, (uint32_t)n};
    put(b, header, sizeof header);
    for (size_t i = 0; i < n; i++)
        put_token(b, type, tokens[i]);
}

/* Megatron's index for these sequences (at least three), in three documents. */
static inline void megatron_index(struct bytes *b, unsigned char code, size_t token_bytes,
                                  const int32_t *lengths, size_t n)
{
    uint64_t at = 0;
    put(b, "MMIDIDX\0\0", 9);
    put_u64(b, 1);
    put(b, &code, 1);
    put_u64(b, n);
    put_u64(b, 4);
    put(b, lengths, n * sizeof *lengths);
    for (size_t i = 0; i < n; i++) {
        put_u64(b, at);
        at += (uint64_t)lengths[i] * token_bytes;
    }
    put_u64(b, 0);
    put_u64(b, 2);
    put_u64(b, 3);
    put_u64(b, n);
}

/* A train section over up to eight corpora, in static memory; the paths stay the caller's. */
static inline struct job_train *train_of(char *const *paths, const double *weights, size_t n, double holdout)
{
    static struct job_corpus corpora[8];
    static struct job_train train;
    static char bytes[] = "bytes";
    train = (struct job_train){.corpora = corpora, .n_corpora = n, .holdout = holdout, .tokenizer = bytes};
    train.model.vocab = 65536;
    train.model.context = CONTEXT;
    for (size_t i = 0; i < n; i++)
        corpora[i] = (struct job_corpus){.path = paths[i], .weight = weights ? weights[i] : 1};
    return &train;
}

#endif
