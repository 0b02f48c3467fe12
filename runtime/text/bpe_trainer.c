/* Documents gather in a batch, as parts: a long document is cut where any pattern cuts, between a letter and a blank. A full batch is dealt
 * out in blocks of whole parts; each block is counted by some thread into a table of its own, and the tables are added up in the order of
 * the blocks. Blocks depend on the documents alone, so the sums, and what is forgotten for lack of room, do too. */
#include "runtime/text/bpe_trainer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/text/tokenizer_private.h"

#define BATCH_BYTES ((size_t)16 << 20)
#define BLOCK_BYTES ((size_t)1 << 20)
#define PIECE_MAX   256 /* bytes of a piece as it is counted */
#define COUNT_MAX   ((size_t)4 << 20)
#define BYTES_MAX   ((size_t)64 << 20)
#define END_OF_TEXT "<|endoftext|>"

struct part {
    size_t at, len;
};

struct block {
    size_t first, end; /* parts */
    struct pieces *pieces;
};

struct bpe_trainer {
    enum presplit split;
    unsigned threads;
    char *text; /* of the batch */
    size_t used, text_room;
    struct part *parts;
    size_t n_parts, parts_room;
    struct block *blocks;
    size_t n_blocks, blocks_room;
    atomic_size_t next; /* block to be counted */
    struct pieces *pieces;
};

struct bpe_trainer *bpe_trainer_new(enum presplit split, unsigned threads)
{
    struct bpe_trainer *tr = mem_zero(1, sizeof *tr);
    tr->split = split;
    tr->threads = threads;
    tr->pieces = pieces_new();
    return tr;
}

void bpe_trainer_free(struct bpe_trainer *tr)
{
    if (!tr)
        return;
    free(tr->text);
    free(tr->parts);
    free(tr->blocks);
    pieces_free(tr->pieces);
    free(tr);
}

/* ---- counting ---- */

static void count_part(struct pieces *pieces, enum presplit split, const char *text, size_t len)
{
    for (size_t at = 0, end; at < len; at = end) {
        end = presplit_next(split, text, len, at);
        for (; end - at > PIECE_MAX; at += PIECE_MAX)
            (void)pieces_add(pieces, text + at, PIECE_MAX, 1);
        (void)pieces_add(pieces, text + at, end - at, 1);
    }
}

static void *count_blocks(void *arg)
{
    struct bpe_trainer *tr = arg;
    for (size_t i; (i = atomic_fetch_add(&tr->next, 1)) < tr->n_blocks;) {
        struct block *b = &tr->blocks[i];
        b->pieces = pieces_new();
        for (size_t k = b->first; k < b->end; k++)
            count_part(b->pieces, tr->split, tr->text + tr->parts[k].at, tr->parts[k].len);
    }
    return NULL;
}

/* The calling thread counts, too; with fewer threads than were asked for it only takes longer. */
static void run_threads(struct bpe_trainer *tr)
{
    size_t started = 0;
    pthread_t *threads = mem_zero(tr->threads, sizeof *threads);
    atomic_store(&tr->next, 0);
    while (started + 1 < tr->threads && started + 1 < tr->n_blocks &&
           pthread_create(&threads[started], NULL, count_blocks, tr) == 0)
        started++;
    (void)count_blocks(tr);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    free(threads);
}

static void make_blocks(struct bpe_trainer *tr)
{
    size_t bytes = BLOCK_BYTES;
    tr->n_blocks = 0;
    for (size_t i = 0; i < tr->n_parts; i++) {
        if (bytes >= BLOCK_BYTES) {
            tr->blocks = mem_one_more(tr->blocks, tr->n_blocks, &tr->blocks_room, sizeof *tr->blocks);
            tr->blocks[tr->n_blocks++] = (struct block){.first = i};
            bytes = 0;
        }
        tr->blocks[tr->n_blocks - 1].end = i + 1;
        bytes += tr->parts[i].len;
    }
}

static void count_batch(struct bpe_trainer *tr)
{
    make_blocks(tr);
    run_threads(tr);
    for (size_t i = 0; i < tr->n_blocks; i++) {
        pieces_merge(tr->pieces, tr->blocks[i].pieces);
        pieces_free(tr->blocks[i].pieces);
        pieces_prune(tr->pieces, COUNT_MAX, BYTES_MAX);
    }
    tr->used = tr->n_parts = 0;
}

/* ---- gathering ---- */

static bool is_ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* How much of a long text is the next part: to a blank behind a letter, which begins a piece whatever the pattern. A text without one in
 * a second block's length is cut anywhere. */
static size_t part_len(const char *text, size_t len)
{
    for (size_t i = BLOCK_BYTES; i < len && i < 2 * BLOCK_BYTES; i++)
        if (text[i] == ' ' && is_ascii_letter(text[i - 1]))
            return i;
    return len < 2 * BLOCK_BYTES ? len : 2 * BLOCK_BYTES;
}

static void add_part(struct bpe_trainer *tr, const char *text, size_t len)
{
    if (tr->used + len > tr->text_room) {
        tr->text_room = 2 * (tr->used + len);
        tr->text = mem_grow(tr->text, tr->text_room, 1);
    }
    memcpy(tr->text + tr->used, text, len);
    tr->parts = mem_one_more(tr->parts, tr->n_parts, &tr->parts_room, sizeof *tr->parts);
    tr->parts[tr->n_parts++] = (struct part){tr->used, len};
    tr->used += len;
    if (tr->used >= BATCH_BYTES)
        count_batch(tr);
}

void bpe_trainer_add(struct bpe_trainer *tr, const char *text, size_t len)
{
    bool cut = tr->split != PRESPLIT_NONE;
    for (size_t n; len > 0; text += n, len -= n) {
        n = cut ? part_len(text, len) : len < BLOCK_BYTES ? len : BLOCK_BYTES;
        add_part(tr, text, n);
    }
}

/* ---- the tokenizer ---- */

static int put_tokens(struct tokenizer *t, const struct pieces *tokens, struct err *err)
{
    size_t n = pieces_count(tokens), len;
    const char *bytes;
    for (size_t i = 0; i < n; i++) {
        (void)pieces_get(tokens, i, &bytes, &len);
        if (vocab_put(t->vocab, (int64_t)i, bytes, len, false, err) < 0)
            return -1;
    }
    return vocab_put(t->vocab, (int64_t)n, END_OF_TEXT, strlen(END_OF_TEXT), true, err);
}

static int add_merges(struct tokenizer *t, const struct bpe_merge *merges, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        if (bpe_add(t->bpe, merges[i], err) < 0)
            return -1;
    return 0;
}

struct tokenizer *bpe_trainer_finish(struct bpe_trainer *tr, size_t vocab, bpe_learn_progress *progress,
                                     void *arg, struct err *err)
{
    size_t count;
    if (vocab < 257 || vocab > VOCAB_MAX) {
        err_set(err, "a vocabulary of %zu tokens cannot be trained; say 257 (bytes and end of text) to %d",
                vocab, VOCAB_MAX);
        return NULL;
    }
    count_batch(tr);
    if (pieces_count(tr->pieces) == 0) {
        err_set(err, "there is no text to train a tokenizer on; name files that are not empty");
        return NULL;
    }
    struct pieces *tokens = pieces_new();
    struct bpe_merge *merges = bpe_learn(tr->pieces, vocab - 1, tokens, &count, progress, arg);
    struct tokenizer *t = tokenizer_begin("trained", tr->split);
    int rc = put_tokens(t, tokens, err);
    if (rc == 0)
        rc = tokenizer_seal(t, err);
    if (rc == 0)
        rc = add_merges(t, merges, count, err);
    if (rc == 0)
        tokenizer_finish(t);
    pieces_free(tokens);
    free(merges);
    if (rc == 0)
        return t;
    tokenizer_free(t);
    return NULL;
}
