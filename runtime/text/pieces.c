/* The bytes of all pieces lie one after the other; a table of open addressing, at most half full, finds their numbers. */
#include "runtime/text/pieces.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/mem.h"

struct entry {
    uint64_t times;
    size_t at;
    uint32_t hash; /* spares looking at the bytes of most others */
    uint16_t len;
};

struct pieces {
    char *bytes;
    size_t used, bytes_room;
    struct entry *entries;
    size_t count, entries_room;
    uint32_t *table; /* number + 1, 0 where empty */
    size_t slots;
};

struct pieces *pieces_new(void)
{
    struct pieces *p = mem_zero(1, sizeof *p);
    p->slots = 1024;
    p->table = mem_zero(p->slots, sizeof *p->table);
    return p;
}

void pieces_free(struct pieces *p)
{
    if (!p)
        return;
    free(p->bytes);
    free(p->entries);
    free(p->table);
    free(p);
}

static void enter(struct pieces *p, size_t number)
{
    size_t i = p->entries[number].hash & (p->slots - 1);
    while (p->table[i] != 0)
        i = (i + 1) & (p->slots - 1);
    p->table[i] = (uint32_t)number + 1;
}

static void make_table(struct pieces *p, size_t slots)
{
    free(p->table);
    p->slots = slots;
    p->table = mem_zero(slots, sizeof *p->table);
    for (size_t i = 0; i < p->count; i++)
        enter(p, i);
}

static size_t append(struct pieces *p, const char *bytes, size_t len)
{
    if (p->used + len > p->bytes_room) {
        p->bytes_room = 2 * (p->used + len);
        p->bytes = mem_grow(p->bytes, p->bytes_room, 1);
    }
    memcpy(p->bytes + p->used, bytes, len);
    p->used += len;
    return p->used - len;
}

static struct entry *find(const struct pieces *p, const char *bytes, size_t len, uint32_t hash)
{
    for (size_t i = hash & (p->slots - 1); p->table[i] != 0; i = (i + 1) & (p->slots - 1)) {
        struct entry *e = &p->entries[p->table[i] - 1];
        if (e->hash == hash && e->len == len && memcmp(p->bytes + e->at, bytes, len) == 0)
            return e;
    }
    return NULL;
}

size_t pieces_add(struct pieces *p, const char *bytes, size_t len, uint64_t times)
{
    uint32_t hash = (uint32_t)XXH3_64bits(bytes, len);
    struct entry *e = find(p, bytes, len, hash);
    if (e) {
        e->times += times;
        return (size_t)(e - p->entries);
    }
    p->entries = mem_one_more(p->entries, p->count, &p->entries_room, sizeof *p->entries);
    p->entries[p->count] = (struct entry){times, append(p, bytes, len), hash, (uint16_t)len};
    if (2 * ++p->count > p->slots)
        make_table(p, 2 * p->slots);
    else
        enter(p, p->count - 1);
    return p->count - 1;
}

size_t pieces_count(const struct pieces *p)
{
    return p->count;
}

size_t pieces_bytes(const struct pieces *p)
{
    return p->used;
}

uint64_t pieces_get(const struct pieces *p, size_t i, const char **bytes, size_t *len)
{
    *bytes = p->bytes + p->entries[i].at;
    *len = p->entries[i].len;
    return p->entries[i].times;
}

void pieces_merge(struct pieces *p, const struct pieces *more)
{
    for (size_t i = 0; i < more->count; i++) {
        const struct entry *e = &more->entries[i];
        (void)pieces_add(p, more->bytes + e->at, e->len, e->times);
    }
}

/* Keeps what occurs at least `times` times. */
static void keep(struct pieces *p, uint64_t times)
{
    size_t count = 0, used = 0;
    for (size_t i = 0; i < p->count; i++) {
        struct entry e = p->entries[i];
        if (e.times < times)
            continue;
        memmove(p->bytes + used, p->bytes + e.at, e.len);
        e.at = used;
        used += e.len;
        p->entries[count++] = e;
    }
    p->count = count;
    p->used = used;
}

void pieces_prune(struct pieces *p, size_t count, size_t bytes)
{
    if (p->count <= count && p->used <= bytes)
        return;
    for (uint64_t times = 2; p->count > count || p->used > bytes; times *= 2)
        keep(p, times);
    make_table(p, p->slots);
}
