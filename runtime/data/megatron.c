/* megatron: see megatron.h. The header has 34 bytes, so that nothing behind it is aligned: numbers are read by memcpy. */
#include "runtime/data/megatron.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define HEADER 34

static const char magic[9] = "MMIDIDX\0"; /* nine bytes: two zeros at the end */

struct index {
    const char *path;
    uint64_t sequences, borders;
    const unsigned char *lengths, *places, *documents;
};

static uint64_t read_u64(const unsigned char *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static int64_t length_of(const struct index *x, uint64_t i)
{
    int32_t v;
    memcpy(&v, x->lengths + i * sizeof v, sizeof v);
    return v;
}

/* DType of indexed_dataset.py: 6 and 7 are floating point numbers, which are no tokens. */
static int type_of(unsigned code, const char *path, enum token_type *out, struct err *err)
{
    static const enum token_type types[] = {
        [1] = TOKEN_U8, [2] = TOKEN_I8, [3] = TOKEN_I16, [4] = TOKEN_I32, [5] = TOKEN_I64, [8] = TOKEN_U16};
    if (code == 6 || code == 7)
        return err_set(err, "%s describes floating point numbers (type %u), not tokens; give a tokenized set",
                       path, code);
    if (code < 1 || code > 8)
        return err_set(err, "%s has the unknown number type %u; make the set again", path, code);
    *out = types[code];
    return 0;
}

/* Are s sequences of `each` bytes and d borders exactly `room` bytes? No product here can overflow. */
static bool fill(uint64_t s, uint64_t each, uint64_t d, uint64_t room)
{
    return s <= room / each && d <= (room - each * s) / 8 && each * s + 8 * d == room;
}

static int wrong_size(const struct index *x, size_t size, struct err *err)
{
    if (fill(x->sequences, 13, x->borders, size - HEADER))
        return err_set(err, "%s is the index of a multimodal set; only text can be read", x->path);
    return err_set(err,
                   "%s is torn: %" PRIu64 " sequences and %" PRIu64
                   " document borders do not make its %zu bytes; make the set again",
                   x->path, x->sequences, x->borders, size);
}

/* Adds up the lengths; each sequence must begin where the one before it ends. */
static int walk_sequences(const struct index *x, uint64_t bytes, uint64_t bin_size, uint64_t *tokens,
                          struct err *err)
{
    uint64_t count = 0, room = bin_size / bytes;
    for (uint64_t i = 0; i < x->sequences; i++) {
        int64_t length = length_of(x, i);
        uint64_t place = read_u64(x->places + 8 * i);
        if (length < 0 || (uint64_t)length > room - count)
            return err_set(err,
                           "%s does not fit its .bin of %" PRIu64 " bytes: sequence %" PRIu64 " has %" PRId64
                           " tokens and begins at token %" PRIu64 "; make the set again",
                           x->path, bin_size, i, length, count);
        if (place != count * bytes)
            return err_set(err,
                           "%s has sequence %" PRIu64 " at byte %" PRIu64 " instead of %" PRIu64
                           ": sequences with gaps or in another order cannot be read; write the set anew",
                           x->path, i, place, count * bytes);
        count += (uint64_t)length;
    }
    *tokens = count;
    return 0;
}

static int walk_documents(const struct index *x, struct err *err)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < x->borders; i++) {
        uint64_t border = read_u64(x->documents + 8 * i);
        if (border < last || border > x->sequences || (i == 0 && border != 0))
            return err_set(err, "%s has a document border %" PRIu64 " after %" PRIu64 "; make the set again",
                           x->path, border, last);
        last = border;
    }
    if (x->borders > 0 && last != x->sequences)
        return err_set(err,
                       "%s ends its documents at sequence %" PRIu64 " of %" PRIu64 "; make the set again",
                       x->path, last, x->sequences);
    return 0;
}

static int check_start(const unsigned char *idx, size_t size, const char *path, struct err *err)
{
    if (size < HEADER || memcmp(idx, magic, sizeof magic) != 0)
        return err_set(
            err, "%s is not an index of Megatron-LM (it does not begin with MMIDIDX); make the set again",
            path);
    if (read_u64(idx + 9) != 1)
        return err_set(err, "%s is an index of version %" PRIu64 "; version 1 can be read", path,
                       read_u64(idx + 9));
    return 0;
}

int megatron_layout(const unsigned char *idx, size_t size, uint64_t bin_size, const char *path,
                    struct token_layout *out, uint64_t *documents, struct err *err)
{
    struct index x = {.path = path};
    *out = (struct token_layout){.end = -1};
    if (check_start(idx, size, path, err) != 0 || type_of(idx[17], path, &out->type, err) != 0)
        return -1;
    x.sequences = read_u64(idx + 18);
    x.borders = read_u64(idx + 26);
    uint64_t bytes = token_type_bytes(out->type);
    if (!fill(x.sequences, 12, x.borders, size - HEADER))
        return wrong_size(&x, size, err);
    x.lengths = idx + HEADER;
    x.places = x.lengths + 4 * x.sequences;
    x.documents = x.places + 8 * x.sequences;
    if (walk_sequences(&x, bytes, bin_size, &out->count, err) != 0 || walk_documents(&x, err) != 0)
        return -1;
    if (out->count * bytes != bin_size)
        return err_set(err,
                       "%s describes %" PRIu64 " tokens, its .bin of %" PRIu64
                       " bytes holds others besides; make "
                       "the set again",
                       path, out->count, bin_size);
    if (documents)
        *documents = x.borders > 0 ? x.borders - 1 : 0;
    return 0;
}
