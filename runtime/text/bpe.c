/* Merges are found in a table of open addressing whose slots hold pair, rank and result together, one cache line a look.
 *
 * Short pieces, nearly all, are merged in an array: look for the lowest rank, merge, close the gap. For long ones that would be quadratic:
 * there the tokens are a linked list, and a heap holds the pairs by (rank, place). An entry of the heap is not taken out when its pair goes;
 * when it comes up it counts only if the pair that is now at its place has its rank. */
#include "runtime/text/bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define SHORT_MAX 64         /* bytes merged in an array */
#define NO_RANK   UINT32_MAX /* of a pair without a merge */
#define NONE      UINT32_MAX /* no node */

struct slot {
    uint64_t pair; /* EMPTY or left << 32 | right */
    uint32_t rank;
    int32_t id;
};
#define EMPTY UINT64_MAX

struct bpe {
    int32_t byte_ids[256];
    struct bpe_merge *merges;
    size_t count, room;
    struct slot *table;
    size_t slots; /* a power of two, at least twice count */
};

struct node {
    int32_t id; /* -1: it went into its left neighbour */
    uint32_t prev, next;
};

struct bpe_scratch {
    struct node *nodes;
    size_t nodes_room;
    uint64_t *heap; /* rank << 32 | node */
    size_t heap_count, heap_room;
};

/* ---- merges ---- */

static struct slot *make_table(size_t slots)
{
    struct slot *table = mem_zero(slots, sizeof *table);
    for (size_t i = 0; i < slots; i++)
        table[i] = (struct slot){EMPTY, NO_RANK, -1};
    return table;
}

struct bpe *bpe_new(const int32_t *byte_ids)
{
    struct bpe *b = mem_zero(1, sizeof *b);
    memcpy(b->byte_ids, byte_ids, sizeof b->byte_ids);
    b->slots = 256;
    b->table = make_table(b->slots);
    return b;
}

void bpe_free(struct bpe *b)
{
    if (!b)
        return;
    free(b->merges);
    free(b->table);
    free(b);
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* The slot of a pair, or the empty one where it belongs. */
static const struct slot *slot_of(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = pair_of(left, right);
    uint64_t mixed = pair * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio: Knuth's multiplicative hash */
    size_t i = (mixed ^ mixed >> 32) & (b->slots - 1);
    while (b->table[i].pair != pair && b->table[i].pair != EMPTY)
        i = (i + 1) & (b->slots - 1);
    return &b->table[i];
}

static void enter(struct bpe *b, const struct bpe_merge *m)
{
    const struct slot *s = slot_of(b, m->left, m->right);
    b->table[s - b->table] = (struct slot){pair_of(m->left, m->right), m->rank, m->id};
}

static void grow_table(struct bpe *b)
{
    free(b->table);
    b->slots *= 2;
    b->table = make_table(b->slots);
    for (size_t i = 0; i < b->count; i++)
        enter(b, &b->merges[i]);
}

int bpe_add(struct bpe *b, struct bpe_merge merge, struct err *err)
{
    if (slot_of(b, merge.left, merge.right)->pair != EMPTY)
        return err_set(err, "merge %zu, of the tokens %d and %d, is there twice", b->count + 1, merge.left,
                       merge.right);
    b->merges = mem_one_more(b->merges, b->count, &b->room, sizeof *b->merges);
    b->merges[b->count++] = merge;
    if (2 * b->count > b->slots)
        grow_table(b);
    else
        enter(b, &merge);
    return 0;
}

const struct bpe_merge *bpe_merges(const struct bpe *b, size_t *count)
{
    *count = b->count;
    return b->merges;
}

/* ---- lists of ids ---- */

static void ids_reserve(struct bpe_ids *ids, size_t more)
{
    if (ids->count + more <= ids->room)
        return;
    size_t room = ids->room < 64 ? 64 : ids->room;
    while (room < ids->count + more)
        room *= 2;
    ids->at = mem_grow(ids->at, room, sizeof *ids->at);
    ids->room = room;
}

void bpe_ids_append(struct bpe_ids *ids, const int32_t *more, size_t count)
{
    ids_reserve(ids, count);
    memcpy(ids->at + ids->count, more, count * sizeof *more);
    ids->count += count;
}

/* ---- short pieces ---- */

static size_t lowest(const uint32_t *ranks, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (ranks[i] < ranks[best])
            best = i;
    return best;
}

/* The rank and the result of the pair that begins at token i. */
static void look(const struct bpe *b, const int32_t *ids, size_t i, uint32_t *ranks, int32_t *merged)
{
    const struct slot *s = slot_of(b, ids[i], ids[i + 1]);
    ranks[i] = s->rank;
    merged[i] = s->id;
}

static void close_gap(int32_t *values, size_t at, size_t count)
{
    memmove(values + at, values + at + 1, (count - at - 1) * sizeof *values);
}

static void encode_short(const struct bpe *b, const char *piece, size_t len, struct bpe_ids *out)
{
    int32_t ids[SHORT_MAX] = {0}, merged[SHORT_MAX];
    uint32_t ranks[SHORT_MAX];
    size_t n = len;
    for (size_t i = 0; i < n; i++)
        ids[i] = b->byte_ids[(unsigned char)piece[i]];
    for (size_t i = 0; i + 1 < n; i++)
        look(b, ids, i, ranks, merged);
    while (n > 1) {
        size_t k = lowest(ranks, n - 1);
        if (ranks[k] == NO_RANK)
            break;
        ids[k] = merged[k];
        close_gap(ids, k + 1, n);
        close_gap(merged, k, n - 1);
        close_gap((int32_t *)ranks, k, n - 1);
        n--;
        if (k > 0)
            look(b, ids, k - 1, ranks, merged);
        if (k + 1 < n)
            look(b, ids, k, ranks, merged);
    }
    bpe_ids_append(out, ids, n);
}

/* ---- long pieces ---- */

struct bpe_scratch *bpe_scratch_new(void)
{
    return mem_zero(1, sizeof(struct bpe_scratch));
}

void bpe_scratch_free(struct bpe_scratch *s)
{
    if (!s)
        return;
    free(s->nodes);
    free(s->heap);
    free(s);
}

static void heap_push(struct bpe_scratch *s, uint64_t value)
{
    s->heap = mem_one_more(s->heap, s->heap_count, &s->heap_room, sizeof *s->heap);
    size_t i = s->heap_count++;
    for (; i > 0 && s->heap[(i - 1) / 2] > value; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = value;
}

static uint64_t heap_pop(struct bpe_scratch *s)
{
    uint64_t top = s->heap[0], value = s->heap[--s->heap_count];
    size_t i = 0, n = s->heap_count;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && s->heap[child + 1] < s->heap[child])
            child++;
        if (s->heap[child] >= value)
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = value;
    return top;
}

/* The slot of the pair that begins at a node; NULL when that is gone or the last. */
static const struct slot *slot_at(const struct bpe *b, const struct bpe_scratch *s, uint32_t at)
{
    const struct node *left = &s->nodes[at];
    if (left->id < 0 || left->next == NONE)
        return NULL;
    return slot_of(b, left->id, s->nodes[left->next].id);
}

static void offer(const struct bpe *b, struct bpe_scratch *s, uint32_t at)
{
    const struct slot *slot = at == NONE ? NULL : slot_at(b, s, at);
    if (slot && slot->rank != NO_RANK)
        heap_push(s, (uint64_t)slot->rank << 32 | at);
}

/* The node at `at` takes in its right neighbour. */
static void take_in(struct bpe_scratch *s, uint32_t at, int32_t id)
{
    struct node *left = &s->nodes[at], *right = &s->nodes[left->next];
    left->id = id;
    left->next = right->next;
    right->id = -1;
    if (left->next != NONE)
        s->nodes[left->next].prev = at;
}

static void begin(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len)
{
    if (len > s->nodes_room) {
        s->nodes = mem_grow(s->nodes, len, sizeof *s->nodes);
        s->nodes_room = len;
    }
    for (size_t i = 0; i < len; i++)
        s->nodes[i] = (struct node){.id = b->byte_ids[(unsigned char)piece[i]],
                                    .prev = i == 0 ? NONE : (uint32_t)i - 1,
                                    .next = i + 1 == len ? NONE : (uint32_t)i + 1};
    s->heap_count = 0;
    for (size_t i = 0; i < len; i++)
        offer(b, s, (uint32_t)i);
}

static void encode_long(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                        struct bpe_ids *out)
{
    begin(b, s, piece, len);
    while (s->heap_count > 0) {
        uint64_t top = heap_pop(s);
        uint32_t at = (uint32_t)top;
        const struct slot *slot = slot_at(b, s, at);
        if (!slot || slot->rank != top >> 32)
            continue;
        take_in(s, at, slot->id);
        offer(b, s, s->nodes[at].prev);
        offer(b, s, at);
    }
    for (uint32_t at = 0; at != NONE; at = s->nodes[at].next)
        bpe_ids_append(out, &s->nodes[at].id, 1);
}

void bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                struct bpe_ids *ids)
{
    while (len > BPE_PIECE_MAX) {
        encode_long(b, s, piece, BPE_PIECE_MAX, ids);
        piece += BPE_PIECE_MAX;
        len -= BPE_PIECE_MAX;
    }
    if (len > SHORT_MAX)
        encode_long(b, s, piece, len, ids);
    else if (len > 0)
        encode_short(b, piece, len, ids);
}
