/* What must hold for every training data file whatever: used by fuzz_tokens.c and by the seeded run in the unit tests. */
#ifndef BELAY_TESTS_FUZZ_DATA_TARGETS_H
#define BELAY_TESTS_FUZZ_DATA_TARGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/megatron.h"
#include "runtime/data/record.h"
#include "runtime/data/tokenfile.h"

static inline void data_must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

/* The input in memory of its own size, so that reading beyond it is seen. */
static inline unsigned char *data_copy(const uint8_t *data, size_t size)
{
    unsigned char *copy = malloc(size > 0 ? size : 1);
    data_must(copy != NULL, "no memory");
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

/* A layout lies within its file. */
static inline void data_layout_fits(const struct token_layout *l, uint64_t size)
{
    uint64_t bytes = token_type_bytes(l->type), end = l->offset + l->count * bytes;
    data_must(l->offset <= size && l->count <= size, "more tokens than bytes");
    data_must(end <= size, "tokens behind the end");
    data_must(!l->mask || (l->mask == end && (size - end) * 8 >= l->count), "a mask behind the end");
    data_must(l->end >= -1 && l->vocab <= INT32_MAX, "a vocabulary that cannot be");
}

static inline bool fuzz_tokenfile(const uint8_t *data, size_t size)
{
    struct err err = {""};
    struct token_layout l;
    unsigned char *copy = data_copy(data, size);
    bool good = tokenfile_layout(copy, size, "fuzz.bin", &l, &err) == 0;
    data_must(good == (err.text[0] == '\0'), "result and sentence disagree");
    if (good)
        data_layout_fits(&l, size);
    free(copy);
    return good;
}

/* The first eight bytes are the size of the .bin, the rest is the index. */
static inline bool fuzz_megatron(const uint8_t *data, size_t size)
{
    struct err err = {""};
    struct token_layout l;
    uint64_t bin_size = 0, documents = 0;
    if (size < sizeof bin_size)
        return false;
    memcpy(&bin_size, data, sizeof bin_size);
    size -= sizeof bin_size;
    unsigned char *copy = data_copy(data + sizeof bin_size, size);
    bool good = megatron_layout(copy, size, bin_size, "fuzz.idx", &l, &documents, &err) == 0;
    data_must(good == (err.text[0] == '\0'), "result and sentence disagree");
    if (good) {
        data_layout_fits(&l, bin_size);
        data_must(l.offset + l.count * token_type_bytes(l.type) == bin_size, "bytes that belong to no token");
        data_must(documents <= size, "more documents than bytes");
    }
    free(copy);
    return good;
}

static inline bool fuzz_record(const uint8_t *data, size_t size)
{
    struct err err = {""};
    struct record r;
    unsigned char *copy = data_copy(data, size);
    bool good = record_parse((const char *)copy, size, NULL, &r, &err) == 0;
    data_must(good == (err.text[0] == '\0'), "result and sentence disagree");
    data_must(!good || r.empty || (r.text && r.text_len + r.prompt_len <= size), "a text that grew");
    record_clear(&r);
    free(copy);
    return good;
}

#endif
