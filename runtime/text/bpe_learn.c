/* Counts of pairs are kept up to date as tokens merge, instead of being counted anew: each pair knows the words in which it has occurred,
 * and a merge visits only those. A heap gives the most frequent pair. What it holds of a pair may be out of date, but never less than
 * the pair's count: an entry whose count has fallen is put back with the count of now, and a pair whose count has grown gets another entry. */
#include "runtime/text/bpe_learn.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct word {
    size_t at;    /* of its tokens in symbols */
    uint32_t len; /* tokens now */
    uint64_t times;
};

struct pair {
    int32_t left, right;
    uint64_t times;
    uint32_t *words; /* in which it occurs or has occurred, perhaps named twice */
    size_t count, room;
    bool grown; /* named in `grown` below */
};

struct candidate {
    uint64_t times;
    uint32_t pair;
};

struct learner {
    int32_t *symbols;
    struct word *words;
    size_t n_words;
    struct pair *pairs;
    size_t n_pairs, pairs_room;
    uint32_t *table; /* number of a pair + 1, 0 where empty */
    size_t slots;
    struct candidate *heap;
    size_t n_heap, heap_room;
    uint32_t *grown; /* pairs whose count has grown in this merge */
    size_t n_grown, grown_room;
};

struct merges {
    struct bpe_merge *at;
    size_t count, room;
};

/* ---- pairs ---- */

static size_t slot_of(const struct learner *l, int32_t left, int32_t right)
{
    uint64_t mixed =
        ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u; /* as in bpe.c */
    size_t i = (mixed ^ mixed >> 32) & (l->slots - 1);
    while (l->table[i] != 0) {
        const struct pair *p = &l->pairs[l->table[i] - 1];
        if (p->left == left && p->right == right)
            break;
        i = (i + 1) & (l->slots - 1);
    }
    return i;
}

static void make_table(struct learner *l, size_t slots)
{
    free(l->table);
    l->slots = slots;
    l->table = mem_zero(slots, sizeof *l->table);
    for (size_t i = 0; i < l->n_pairs; i++)
        l->table[slot_of(l, l->pairs[i].left, l->pairs[i].right)] = (uint32_t)i + 1;
}

/* The number of a pair, which is made when it is new. */
static uint32_t pair_of(struct learner *l, int32_t left, int32_t right)
{
    size_t slot = slot_of(l, left, right);
    if (l->table[slot] != 0)
        return l->table[slot] - 1;
    l->pairs = mem_one_more(l->pairs, l->n_pairs, &l->pairs_room, sizeof *l->pairs);
    l->pairs[l->n_pairs++] = (struct pair){.left = left, .right = right};
    if (2 * l->n_pairs > l->slots)
        make_table(l, 2 * l->slots);
    else
        l->table[slot] = (uint32_t)l->n_pairs;
    return (uint32_t)l->n_pairs - 1;
}

/* The pair occurs in one more place of a word. */
static void occurs(struct learner *l, int32_t left, int32_t right, uint32_t word)
{
    uint32_t number = pair_of(l, left, right);
    struct pair *p = &l->pairs[number];
    p->times += l->words[word].times;
    if (p->count == 0 || p->words[p->count - 1] != word) {
        p->words = mem_one_more(p->words, p->count, &p->room, sizeof *p->words);
        p->words[p->count++] = word;
    }
    if (p->grown)
        return;
    p->grown = true;
    l->grown = mem_one_more(l->grown, l->n_grown, &l->grown_room, sizeof *l->grown);
    l->grown[l->n_grown++] = number;
}

static void occurs_no_more(struct learner *l, int32_t left, int32_t right, uint32_t word)
{
    l->pairs[pair_of(l, left, right)].times -= l->words[word].times;
}

/* ---- the heap: most frequent first, then the lower pair ---- */

static bool before(const struct learner *l, struct candidate a, struct candidate b)
{
    const struct pair *p = &l->pairs[a.pair], *q = &l->pairs[b.pair];
    if (a.times != b.times)
        return a.times > b.times;
    return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static void heap_push(struct learner *l, struct candidate c)
{
    l->heap = mem_one_more(l->heap, l->n_heap, &l->heap_room, sizeof *l->heap);
    size_t i = l->n_heap++;
    for (; i > 0 && before(l, c, l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = c;
}

static struct candidate heap_pop(struct learner *l)
{
    struct candidate top = l->heap[0], last = l->heap[--l->n_heap];
    size_t i = 0, n = l->n_heap;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(l, l->heap[child + 1], l->heap[child]))
            child++;
        if (!before(l, l->heap[child], last))
            break;
        l->heap[i] = l->heap[child];
    }
    l->heap[i] = last;
    return top;
}

static void offer_grown(struct learner *l)
{
    for (size_t i = 0; i < l->n_grown; i++) {
        struct pair *p = &l->pairs[l->grown[i]];
        p->grown = false;
        heap_push(l, (struct candidate){p->times, l->grown[i]});
    }
    l->n_grown = 0;
}

/* The most frequent pair; false when none occurs twice. */
static bool best_pair(struct learner *l, uint32_t *pair)
{
    while (l->n_heap > 0) {
        struct candidate c = heap_pop(l);
        uint64_t now = l->pairs[c.pair].times;
        if (c.times == now && now >= 2) {
            *pair = c.pair;
            return true;
        }
        if (c.times > now && now >= 2)
            heap_push(l, (struct candidate){now, c.pair});
    }
    return false;
}

/* ---- merging ---- */

/* Every `left right` in a word becomes `id`, from left to right, and the counts of the pairs around follow. */
static void merge_word(struct learner *l, uint32_t number, int32_t left, int32_t right, int32_t id)
{
    struct word *w = &l->words[number];
    int32_t *s = l->symbols + w->at;
    uint32_t n = 0; /* tokens so far of the word as it will be */
    for (uint32_t i = 0; i < w->len; i++) {
        if (i + 1 == w->len || s[i] != left || s[i + 1] != right) {
            s[n++] = s[i];
            continue;
        }
        if (n > 0) {
            occurs_no_more(l, s[n - 1], left, number);
            occurs(l, s[n - 1], id, number);
        }
        if (i + 2 < w->len) {
            occurs_no_more(l, right, s[i + 2], number);
            occurs(l, id, s[i + 2], number);
        }
        s[n++] = id;
        i++;
    }
    w->len = n;
}

static void merge_pair(struct learner *l, uint32_t number, int32_t id)
{
    struct pair p = l->pairs[number]; /* the array may move */
    l->pairs[number].words = NULL;
    l->pairs[number].count = l->pairs[number].room = 0;
    for (size_t i = 0; i < p.count; i++)
        merge_word(l, p.words[i], p.left, p.right, id);
    free(p.words);
    l->pairs[number].times = 0;
}

/* ---- the whole ---- */

static void add_word(struct learner *l, size_t at, const char *bytes, size_t len, uint64_t times)
{
    uint32_t number = (uint32_t)l->n_words++;
    l->words[number] = (struct word){at, (uint32_t)len, times};
    for (size_t i = 0; i < len; i++)
        l->symbols[at + i] = (unsigned char)bytes[i];
    for (size_t i = 0; i + 1 < len; i++)
        occurs(l, l->symbols[at + i], l->symbols[at + i + 1], number);
}

static void begin(struct learner *l, const struct pieces *pieces)
{
    size_t n = pieces_count(pieces), at = 0, len;
    const char *bytes;
    l->symbols = mem_zero(pieces_bytes(pieces), sizeof *l->symbols);
    l->words = mem_zero(n, sizeof *l->words);
    l->pairs = mem_grow(NULL, l->pairs_room = 4096, sizeof *l->pairs);
    make_table(l, 65536);
    for (size_t i = 0; i < n; i++, at += len) {
        uint64_t times = pieces_get(pieces, i, &bytes, &len);
        add_word(l, at, bytes, len, times);
    }
    offer_grown(l);
}

static void finish(struct learner *l)
{
    for (size_t i = 0; i < l->n_pairs; i++)
        free(l->pairs[i].words);
    free(l->symbols);
    free(l->words);
    free(l->pairs);
    free(l->table);
    free(l->heap);
    free(l->grown);
}

/* The new token of two tokens one after the other. No other merge makes the same bytes: wherever they become one token, no token before
 * reached across their ends, so the same merges happened within them, up to the last. */
static int32_t token_of(struct pieces *tokens, int32_t left, int32_t right)
{
    const char *a, *b;
    size_t n, m;
    (void)pieces_get(tokens, (size_t)left, &a, &n);
    (void)pieces_get(tokens, (size_t)right, &b, &m);
    char *both = mem_zero(n + m, 1);
    memcpy(both, a, n);
    memcpy(both + n, b, m);
    size_t id = pieces_add(tokens, both, n + m, 1);
    free(both);
    return (int32_t)id;
}

static void learn_one(struct learner *l, uint32_t best, struct pieces *tokens, struct merges *m)
{
    int32_t left = l->pairs[best].left, right = l->pairs[best].right, id = token_of(tokens, left, right);
    m->at = mem_one_more(m->at, m->count, &m->room, sizeof *m->at);
    m->at[m->count] = (struct bpe_merge){left, right, id, (uint32_t)m->count};
    m->count++;
    merge_pair(l, best, id);
    offer_grown(l);
}

struct bpe_merge *bpe_learn(const struct pieces *pieces, size_t wanted, struct pieces *tokens, size_t *count,
                            bpe_learn_progress *progress, void *arg)
{
    struct learner l = {0};
    struct merges m = {0};
    uint32_t best;
    begin(&l, pieces);
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        (void)pieces_add(tokens, &byte, 1, 1);
    }
    while (pieces_count(tokens) < wanted && best_pair(&l, &best)) {
        learn_one(&l, best, tokens, &m);
        if (progress)
            progress(arg, pieces_count(tokens), wanted);
    }
    finish(&l);
    *count = m.count;
    return m.at;
}
