/* written: a hash table from (job, attempt) to 64-bit FNV-1a fingerprints.
 *
 * Always holds: an entry's fingerprint is that of a row which was handed to SQLite in a transaction that either committed or
 * ended this process, so an equal fingerprint means an equal row. */
#include "daemon/written.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct entry {
    struct entry *next;
    int64_t job, attempt;
    uint64_t placement;
    uint64_t *nodes; /* one a node of the attempt; 0 = not written */
    size_t n_nodes;
};

struct written {
    struct entry **bucket;
    size_t n_buckets, count; /* n_buckets is a power of two */
};

struct written *written_new(void)
{
    struct written *w = mem_zero(1, sizeof(*w));
    w->n_buckets = 256;
    w->bucket = mem_zero(w->n_buckets, sizeof(void *));
    return w;
}

static void entry_free(struct entry *e)
{
    free(e->nodes);
    free(e);
}

void written_free(struct written *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_buckets; i++) {
        for (struct entry *e = w->bucket[i], *next; e; e = next) {
            next = e->next;
            entry_free(e);
        }
    }
    free(w->bucket);
    free(w);
}

#define HASH_START 1469598103934665603u

static uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static uint64_t hash_int(uint64_t h, int64_t value)
{
    return hash_bytes(h, &value, sizeof(value));
}

static uint64_t hash_str(uint64_t h, const char *s)
{
    return s ? hash_bytes(h, s, strlen(s) + 1) : hash_int(h, -1);
}

static struct entry **slot(const struct written *w, int64_t job, int64_t attempt)
{
    uint64_t h = hash_int(hash_int(HASH_START, job), attempt);
    struct entry **at = &w->bucket[(h ^ h >> 32) & (w->n_buckets - 1)];
    while (*at && ((*at)->job != job || (*at)->attempt != attempt))
        at = &(*at)->next;
    return at;
}

static void grow(struct written *w)
{
    struct written bigger = {.n_buckets = w->n_buckets * 4, .count = w->count};
    bigger.bucket = mem_zero(bigger.n_buckets, sizeof(void *));
    for (size_t i = 0; i < w->n_buckets; i++) {
        for (struct entry *e = w->bucket[i], *next; e; e = next) {
            next = e->next;
            e->next = NULL;
            *slot(&bigger, e->job, e->attempt) = e;
        }
    }
    free(w->bucket);
    *w = bigger;
}

static struct entry *entry_get(struct written *w, int64_t job, int64_t attempt)
{
    struct entry **at = slot(w, job, attempt), *e = *at;
    if (e)
        return e;
    e = mem_zero(1, sizeof(*e));
    e->job = job;
    e->attempt = attempt;
    *at = e;
    if (++w->count > w->n_buckets)
        grow(w);
    return e;
}

static void entry_drop(struct written *w, int64_t job, int64_t attempt)
{
    struct entry **at = slot(w, job, attempt), *e = *at;
    if (!e)
        return;
    *at = e->next;
    w->count--;
    entry_free(e);
}

static uint64_t placed_hash(uint64_t h, const struct placed_rank *ranks, size_t n)
{
    h = hash_int(h, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        const struct placed_rank *p = &ranks[i];
        const int64_t numbers[] = {p->rank, p->slot, p->tp, p->pp, p->cp, p->dp};
        h = hash_str(hash_bytes(h, numbers, sizeof(numbers)), p->node);
    }
    return h;
}

static uint64_t placement_hash(const struct attempt_record *a)
{
    return placed_hash(placed_hash(HASH_START, a->placement, a->world), a->spares, a->n_spares);
}

bool written_placement_changes(struct written *w, const struct attempt_record *attempt)
{
    struct entry *e = entry_get(w, attempt->job, attempt->number);
    uint64_t h = placement_hash(attempt);
    bool changes = e->placement != h;
    e->placement = h;
    return changes;
}

static uint64_t rank_hash(uint64_t h, const struct link_rank *r)
{
    const int64_t numbers[] = {r->rank,   r->slot,      r->pid,       (int64_t)r->start, r->state,   r->code,
                               r->signal, r->connected, r->finalized, r->started_ms,     r->ended_ms};
    return hash_str(hash_bytes(h, numbers, sizeof(numbers)), r->why);
}

static uint64_t node_hash(const struct attempt_node *n)
{
    const struct link_report *r = &n->report;
    const int64_t numbers[] = {n->reported, r->rev, r->phase, r->port, r->master_port, (int64_t)r->n_ranks};
    uint64_t h = hash_str(hash_bytes(HASH_START, numbers, sizeof(numbers)), n->node);
    h = hash_str(h, r->reason);
    for (size_t i = 0; i < r->n_ranks; i++)
        h = rank_hash(h, &r->ranks[i]);
    return h ? h : 1; /* 0 means "not written" */
}

bool written_node_changes(struct written *w, const struct attempt_record *attempt, size_t node)
{
    struct entry *e = entry_get(w, attempt->job, attempt->number);
    if (e->n_nodes != attempt->n_nodes) {
        free(e->nodes);
        e->n_nodes = attempt->n_nodes;
        e->nodes = mem_zero(e->n_nodes, sizeof(*e->nodes));
    }
    uint64_t h = node_hash(&attempt->nodes[node]);
    bool changes = e->nodes[node] != h;
    e->nodes[node] = h;
    return changes;
}

void written_attempt_forget(struct written *w, const struct attempt_record *attempt)
{
    entry_drop(w, attempt->job, attempt->number);
}
