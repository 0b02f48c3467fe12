/* What must hold for every tokenizer's file and for every text whatever: used by fuzz_text.c and by the seeded run in the unit tests. */
#ifndef BELAY_TESTS_FUZZ_TEXT_TARGETS_H
#define BELAY_TESTS_FUZZ_TEXT_TARGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/bpe_trainer.h"
#include "runtime/text/tokenizer_private.h"

static inline void text_must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

/* The input in memory of its own size, so that reading beyond it is seen. */
static inline char *text_copy(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    text_must(copy != NULL, "no memory");
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

/* decode(encode(text)) is text, of ordinary tokens; encoded again, out of the cache, it is the same. */
static inline void text_round_trip(const struct tokenizer *t, const char *text, size_t len)
{
    struct tokenizer_scratch *s = tokenizer_scratch_new(t);
    int32_t *ids = NULL;
    size_t count = 0, room = 0, at = 0, n;
    tokenizer_encode(t, s, text, len, &ids, &count, &room);
    for (size_t i = 0; i < count; i++, at += n) {
        const char *bytes = tokenizer_bytes(t, ids[i], &n);
        text_must(bytes && n > 0 && !tokenizer_is_special(t, ids[i]), "an id that is no ordinary token");
        text_must(n <= len - at && memcmp(bytes, text + at, n) == 0, "the ids decode to another text");
    }
    text_must(at == len, "the ids decode to less than the text");
    size_t once = count;
    tokenizer_encode(t, s, text, len, &ids, &count, &room);
    text_must(count == 2 * once, "encoded again, it has another number of tokens");
    text_must(once == 0 || memcmp(ids, ids + once, once * sizeof *ids) == 0,
              "encoded again, it is different");
    free(ids);
    tokenizer_scratch_free(s);
}

/* What was read is written, read again, and is the same tokenizer. */
static inline void text_again(const struct tokenizer *t)
{
    struct err err = {""};
    char *json = tokenizer_print_json(t, &err);
    text_must(json != NULL, "a tokenizer cannot be written");
    struct tokenizer *again = tokenizer_json_parse(json, strlen(json), "again", &err);
    text_must(again != NULL, err.text);
    text_must(tokenizer_fingerprint(again) == tokenizer_fingerprint(t), "it came back different");
    text_must(tokenizer_merges(again) == tokenizer_merges(t), "it came back with other merges");
    char *json_again = tokenizer_print_json(again, &err);
    text_must(json_again && strcmp(json, json_again) == 0, "what was read again is written differently");
    free(json);
    free(json_again);
    tokenizer_free(again);
}

/* Takes over t, which a reader gave for `data`. True when there is one. */
static inline bool text_accept(struct tokenizer *t, const struct err *err, const char *data, size_t size)
{
    static const char sample[] = "Hello he'll  world\r\n\n \xe6\x97\xa5 123 \xff\xfe";
    text_must((t != NULL) == (err->text[0] == '\0'), "result and sentence disagree");
    if (!t)
        return false;
    text_round_trip(t, sample, sizeof sample - 1);
    text_round_trip(t, data, size < 2000 ? size : 2000);
    text_again(t);
    tokenizer_free(t);
    return true;
}

static inline bool fuzz_tokenizer_json(const uint8_t *data, size_t size)
{
    struct err err = {""};
    char *copy = text_copy(data, size);
    bool good = text_accept(tokenizer_json_parse(copy, size, "fuzz.json", &err), &err, copy, size);
    free(copy);
    return good;
}

static inline bool fuzz_ranks(const uint8_t *data, size_t size)
{
    struct err err = {""};
    char *copy = text_copy(data, size);
    bool good = text_accept(tiktoken_parse(copy, size, "fuzz.tiktoken", &err), &err, copy, size);
    free(copy);
    return good;
}

/* Merges up to the first zero byte; the vocabulary behind it. */
static inline bool fuzz_gpt2_files(const uint8_t *data, size_t size)
{
    struct err err = {""};
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t first = zero ? (size_t)(zero - data) : size, second = zero ? size - first - 1 : 0;
    char *merges = text_copy(data, first), *vocab = text_copy(zero ? zero + 1 : data, second);
    bool good =
        text_accept(gpt2_files_parse(merges, first, vocab, second, "fuzz", &err), &err, merges, first);
    free(merges);
    free(vocab);
    return good;
}

/* A tokenizer is trained on the text itself, cut each way. */
static inline bool fuzz_text(const uint8_t *data, size_t size)
{
    char *copy = text_copy(data, size);
    for (int split = 0; split < PRESPLIT_COUNT && size > 0; split++) {
        struct err err = {""};
        struct bpe_trainer *tr = bpe_trainer_new((enum presplit)split, 1);
        bpe_trainer_add(tr, copy, size);
        struct tokenizer *t = bpe_trainer_finish(tr, 300, NULL, NULL, &err);
        text_must(t != NULL, err.text);
        text_must(tokenizer_vocab(t) <= 300 && (size_t)tokenizer_end(t) == tokenizer_vocab(t) - 1,
                  "an end of text that is not the last");
        text_round_trip(t, copy, size);
        text_again(t);
        bpe_trainer_free(tr);
        tokenizer_free(t);
    }
    free(copy);
    return true;
}

#endif
