/* tokenizer_encode: piece by piece, with a cache of short pieces in front of the merging.
 *
 * Text repeats its words: most pieces are in the cache, which holds the last piece of each of its places. A piece that is long, or that
 * becomes many tokens, is not kept. The cache changes nothing in the result. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/mem.h"
#include "runtime/text/tokenizer_private.h"

#define CACHE_SLOTS     32768 /* 2 MiB a thread; more of it no longer helps English or code */
#define CACHE_PIECE_MAX 30    /* bytes */
#define CACHE_IDS_MAX   8

struct cached {
    uint8_t len; /* 0: empty */
    uint8_t count;
    char piece[CACHE_PIECE_MAX];
    int32_t ids[CACHE_IDS_MAX];
};

struct tokenizer_scratch {
    struct bpe_scratch *bpe;
    struct cached *cache;
};

struct tokenizer_scratch *tokenizer_scratch_new(const struct tokenizer *t)
{
    (void)t;
    struct tokenizer_scratch *s = mem_zero(1, sizeof *s);
    s->bpe = bpe_scratch_new();
    s->cache = mem_zero(CACHE_SLOTS, sizeof *s->cache);
    return s;
}

void tokenizer_scratch_free(struct tokenizer_scratch *s)
{
    if (!s)
        return;
    bpe_scratch_free(s->bpe);
    free(s->cache);
    free(s);
}

static void encode_piece(const struct tokenizer *t, struct bpe_scratch *s, const char *piece, size_t len,
                         struct bpe_ids *ids)
{
    int32_t whole = t->whole_pieces ? vocab_find(t->vocab, piece, len) : -1;
    if (whole >= 0)
        bpe_ids_append(ids, &whole, 1);
    else
        bpe_encode(t->bpe, s, piece, len, ids);
}

static void keep(struct cached *c, const char *piece, size_t len, const int32_t *ids, size_t count)
{
    if (count > CACHE_IDS_MAX)
        return;
    c->len = (uint8_t)len;
    c->count = (uint8_t)count;
    memcpy(c->piece, piece, len);
    memcpy(c->ids, ids, count * sizeof *ids);
}

static void encode_cached(const struct tokenizer *t, struct tokenizer_scratch *s, const char *piece,
                          size_t len, struct bpe_ids *ids)
{
    if (len > CACHE_PIECE_MAX) {
        encode_piece(t, s->bpe, piece, len, ids);
        return;
    }
    struct cached *c = &s->cache[XXH3_64bits(piece, len) % CACHE_SLOTS];
    if (c->len == len && memcmp(c->piece, piece, len) == 0) {
        bpe_ids_append(ids, c->ids, c->count);
        return;
    }
    size_t before = ids->count;
    encode_piece(t, s->bpe, piece, len, ids);
    keep(c, piece, len, ids->at + before, ids->count - before);
}

void tokenizer_encode(const struct tokenizer *t, struct tokenizer_scratch *s, const char *text, size_t len,
                      int32_t **ids, size_t *count, size_t *room)
{
    struct bpe_ids list = {*ids, *count, *room};
    for (size_t at = 0, end; at < len; at = end) {
        end = presplit_next(t->split, text, len, at);
        encode_cached(t, s, text + at, end - at, &list);
    }
    *ids = list.at;
    *count = list.count;
    *room = list.room;
}
