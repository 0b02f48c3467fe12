/* fence: one `round` per outstanding collective.
 *
 * Always true: a round holds at most one contribution from each source (this node, each child); it is sent up when every
 * source that hosts participants has given one, and stays until the result has come down. Only node 0 makes results. */
#include "agent/shim/fence.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shim/tree.h"
#include "common/mem.h"

#define SOURCE_LOCAL TREE_RADIX /* children are sources 0..31 */
#define SOURCES      (TREE_RADIX + 1)
#define PACK_HEADER                                                                                          \
    8 /* u32 node, u32 length, in host order: all nodes of a cluster are little-endian x86 or arm */

struct round {
    struct round *next;
    char *key;
    uint64_t expected, arrived; /* bit per source */
    int status;
    void *waiter;
    char *packed; /* contributions so far, in order of arrival */
    size_t len, room;
};

struct fences {
    int64_t node_rank;
    const struct rankmap *map;
    const struct fence_ops *ops;
    void *ctx;
    struct round *rounds; /* oldest first */
};

int fence_status_combine(int a, int b)
{
    return a != 0 ? a : b;
}

bool fence_key_valid(const char *key)
{
    if (strcmp(key, "*") == 0)
        return true;
    long long last = -1;
    for (const char *p = key;; p++) {
        char *end;
        if (!isdigit((unsigned char)*p))
            return false;
        long long rank = strtoll(p, &end, 10);
        if (rank <= last || (*end != '\0' && *end != ','))
            return false;
        last = rank;
        p = end;
        if (*p == '\0')
            return true;
    }
}

struct fences *fences_new(int64_t node_rank, const struct rankmap *map, const struct fence_ops *ops,
                          void *ctx)
{
    struct fences *f = mem_zero(1, sizeof *f);
    *f = (struct fences){.node_rank = node_rank, .map = map, .ops = ops, .ctx = ctx};
    return f;
}

/* The source through which contributions of `node` reach this node; -1 when they do not. */
static int source_of(const struct fences *f, int64_t node)
{
    if (node == f->node_rank)
        return SOURCE_LOCAL;
    if (node < 0 || !tree_in_subtree(node, f->node_rank))
        return -1;
    return (int)(tree_next_hop(f->node_rank, node) - tree_child(f->node_rank, 0));
}

static uint64_t expected_sources(const struct fences *f, const char *key)
{
    uint64_t expected = 0;
    if (strcmp(key, "*") == 0) {
        int64_t children = tree_child_count(f->node_rank, f->map->nodes);
        return (UINT64_C(1) << SOURCE_LOCAL) | ((UINT64_C(1) << children) - 1);
    }
    for (const char *p = key; *p;) {
        char *end;
        int source = source_of(f, rankmap_node(f->map, strtoll(p, &end, 10)));
        if (source >= 0)
            expected |= UINT64_C(1) << source;
        p = *end == ',' ? end + 1 : end;
    }
    return expected;
}

/* The oldest round of key that still lacks this source. */
static struct round *round_for(struct fences *f, const char *key, int source)
{
    struct round **at = &f->rounds;
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->key, key) == 0 && !((*at)->arrived >> source & 1))
            return *at;
    struct round *r = mem_zero(1, sizeof *r);
    r->key = str_dup(key);
    r->expected = expected_sources(f, key);
    return *at = r;
}

static void round_append(struct round *r, const void *data, size_t len)
{
    if (len == 0)
        return;
    if (r->len + len > r->room) {
        r->room = 2 * (r->len + len);
        r->packed = mem_grow(r->packed, r->room, 1);
    }
    memcpy(r->packed + r->len, data, len);
    r->len += len;
}

static void round_remove(struct fences *f, struct round *r)
{
    struct round **at = &f->rounds;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    free(r->key);
    free(r->packed);
    free(r);
}

/* ---- packed contributions ---- */

struct piece {
    uint32_t node, len;
    const char *data;
};

/* Takes packed contributions apart. Number of pieces (fresh array), or -1 when it is not well-formed. */
static ssize_t unpack(const char *packed, size_t len, struct piece **out)
{
    size_t n = 0, room = 0;
    *out = NULL;
    for (size_t at = 0; at < len;) {
        struct piece p;
        if (len - at < PACK_HEADER)
            return -1;
        memcpy(&p.node, packed + at, 4);
        memcpy(&p.len, packed + at + 4, 4);
        at += PACK_HEADER;
        if (p.len > len - at)
            return -1;
        p.data = packed + at;
        at += p.len;
        if (n == room) {
            room = room ? 2 * room : 16;
            *out = mem_grow(*out, room, sizeof **out);
        }
        (*out)[n++] = p;
    }
    return (ssize_t)n;
}

static int by_node(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

/* All data in node order; fresh, NULL when there is none. */
static char *concatenate(const struct round *r, size_t *len)
{
    struct piece *pieces;
    ssize_t n = unpack(r->packed, r->len, &pieces);
    char *out = NULL;
    *len = 0;
    if (n > 0) {
        qsort(pieces, (size_t)n, sizeof *pieces, by_node);
        out = mem_zero(r->len, 1);
        for (ssize_t i = 0; i < n; i++) {
            memcpy(out + *len, pieces[i].data, pieces[i].len);
            *len += pieces[i].len;
        }
    }
    free(pieces);
    return out;
}

/* ---- flow ---- */

static void deliver(struct fences *f, struct round *r, int status, const void *data, size_t len)
{
    int64_t first = tree_child(f->node_rank, 0);
    for (int i = 0; i < TREE_RADIX; i++)
        if (r->expected >> i & 1)
            f->ops->down(f->ctx, first + i, r->key, status, data, len);
    if (r->waiter) {
        char *copy = len ? mem_zero(len, 1) : NULL;
        if (copy)
            memcpy(copy, data, len);
        f->ops->done(f->ctx, r->waiter, status, copy, len);
    }
    round_remove(f, r);
}

static void check_complete(struct fences *f, struct round *r)
{
    if ((r->arrived & r->expected) != r->expected)
        return;
    if (f->node_rank != 0) {
        f->ops->up(f->ctx, r->key, r->status, r->packed, r->len);
        free(r->packed);
        r->packed = NULL;
        r->len = r->room = 0;
        return;
    }
    size_t len;
    char *data = concatenate(r, &len);
    deliver(f, r, r->status, data, len);
    free(data);
}

static void arrive(struct fences *f, struct round *r, int source, int status)
{
    r->arrived |= UINT64_C(1) << source;
    r->status = fence_status_combine(r->status, status);
    check_complete(f, r);
}

void fences_local(struct fences *f, const char *key, int status, const void *data, size_t len, void *waiter)
{
    struct round *r = round_for(f, key, SOURCE_LOCAL);
    r->waiter = waiter;
    if (len) {
        uint32_t header[2] = {(uint32_t)f->node_rank, (uint32_t)len};
        round_append(r, header, sizeof header);
        round_append(r, data, len);
    }
    arrive(f, r, SOURCE_LOCAL, status);
}

int fences_from_child(struct fences *f, int64_t child, const char *key, int status, const void *data,
                      size_t len, struct err *err)
{
    int64_t source = child - tree_child(f->node_rank, 0);
    struct piece *pieces;
    ssize_t n = unpack(data, len, &pieces);
    free(pieces);
    if (n < 0 || source < 0 || source >= TREE_RADIX || !fence_key_valid(key))
        return err_set(err, "the shim of node %lld sent a fence contribution that cannot be read",
                       (long long)child);
    struct round *r = round_for(f, key, (int)source);
    round_append(r, data, len);
    arrive(f, r, (int)source, status);
    return 0;
}

void fences_from_parent(struct fences *f, const char *key, int status, const void *data, size_t len)
{
    for (struct round *r = f->rounds; r; r = r->next) {
        if (strcmp(r->key, key) == 0 && (r->arrived & r->expected) == r->expected) {
            deliver(f, r, status, data, len);
            return;
        }
    }
}

void fences_fail(struct fences *f, int status)
{
    while (f->rounds) {
        struct round *r = f->rounds;
        if (r->waiter)
            f->ops->done(f->ctx, r->waiter, status, NULL, 0);
        round_remove(f, r);
    }
}

void fences_free(struct fences *f, int status)
{
    if (!f)
        return;
    fences_fail(f, status);
    free(f);
}

size_t fences_outstanding(const struct fences *f)
{
    size_t n = 0;
    for (const struct round *r = f->rounds; r; r = r->next)
        n++;
    return n;
}
