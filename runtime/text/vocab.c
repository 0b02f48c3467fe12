/* The bytes of all tokens lie one after the other in one block; a table of open addressing finds ids by a hash of the bytes. */
#include "runtime/text/vocab.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/mem.h"

struct entry {
    uint32_t at;  /* into bytes */
    uint16_t len; /* 0: a gap */
    bool special;
};

struct vocab {
    char *bytes;
    size_t used, bytes_room;
    struct entry *entries;
    size_t size, entries_room;
    int32_t *table; /* ids, -1 where empty */
    size_t mask;
    int32_t byte_ids[256];
};

struct vocab *vocab_new(void)
{
    return mem_zero(1, sizeof(struct vocab));
}

void vocab_free(struct vocab *v)
{
    if (!v)
        return;
    free(v->bytes);
    free(v->entries);
    free(v->table);
    free(v);
}

static void reach(struct vocab *v, size_t size)
{
    if (size <= v->size)
        return;
    if (size > v->entries_room) {
        v->entries_room = size > 2 * v->entries_room ? size : 2 * v->entries_room;
        v->entries = mem_grow(v->entries, v->entries_room, sizeof *v->entries);
    }
    memset(v->entries + v->size, 0, (size - v->size) * sizeof *v->entries);
    v->size = size;
}

static uint32_t append(struct vocab *v, const char *bytes, size_t len)
{
    if (v->used + len > v->bytes_room) {
        v->bytes_room = 2 * (v->used + len);
        v->bytes = mem_grow(v->bytes, v->bytes_room, 1);
    }
    memcpy(v->bytes + v->used, bytes, len);
    v->used += len;
    return (uint32_t)(v->used - len);
}

int vocab_put(struct vocab *v, int64_t id, const char *bytes, size_t len, bool special, struct err *err)
{
    if (id < 0 || id >= VOCAB_MAX)
        return err_set(err, "token id %lld is not within 0..%d", (long long)id, VOCAB_MAX - 1);
    if (len < 1 || len > VOCAB_TOKEN_MAX)
        return err_set(err, "token %lld has %zu bytes; 1 to %d are possible", (long long)id, len,
                       VOCAB_TOKEN_MAX);
    reach(v, (size_t)id + 1);
    struct entry *e = &v->entries[id];
    if (e->len > 0)
        return err_set(err, "token id %lld is given twice", (long long)id);
    /* VOCAB_MAX * VOCAB_TOKEN_MAX bytes, the most there can be, are within 32 bits */
    *e = (struct entry){.at = append(v, bytes, len), .len = (uint16_t)len, .special = special};
    return 0;
}

void vocab_make_special(struct vocab *v, int32_t id)
{
    v->entries[id].special = true;
}

static bool same(const struct vocab *v, int32_t id, const char *bytes, size_t len)
{
    const struct entry *e = &v->entries[id];
    return e->len == len && memcmp(v->bytes + e->at, bytes, len) == 0;
}

/* The place in the table of these bytes, or the empty one where they belong. */
static size_t place(const struct vocab *v, const char *bytes, size_t len)
{
    size_t i = XXH3_64bits(bytes, len) & v->mask;
    while (v->table[i] >= 0 && !same(v, v->table[i], bytes, len))
        i = (i + 1) & v->mask;
    return i;
}

static void make_table(struct vocab *v)
{
    size_t slots = 512;
    while (slots < 2 * v->size)
        slots *= 2;
    v->table = mem_zero(slots, sizeof *v->table);
    memset(v->table, 0xff, slots * sizeof *v->table);
    v->mask = slots - 1;
}

static int enter(struct vocab *v, int32_t id, struct err *err)
{
    const struct entry *e = &v->entries[id];
    if (e->len == 0 || e->special)
        return 0;
    size_t i = place(v, v->bytes + e->at, e->len);
    if (v->table[i] >= 0)
        return err_set(err, "tokens %d and %d are the same; each token may be there once", v->table[i], id);
    v->table[i] = id;
    return 0;
}

int vocab_seal(struct vocab *v, struct err *err)
{
    make_table(v);
    for (size_t id = 0; id < v->size; id++)
        if (enter(v, (int32_t)id, err) < 0)
            return -1;
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        v->byte_ids[b] = vocab_find(v, &byte, 1);
        if (v->byte_ids[b] < 0)
            return err_set(
                err,
                "there is no token for the byte 0x%02x; a byte-level vocabulary, which is what this "
                "program reads, has one for each of the 256 bytes",
                (unsigned)b);
    }
    return 0;
}

int32_t vocab_find(const struct vocab *v, const char *bytes, size_t len)
{
    return len > VOCAB_TOKEN_MAX ? -1 : v->table[place(v, bytes, len)];
}

int32_t vocab_byte(const struct vocab *v, unsigned char byte)
{
    return v->byte_ids[byte];
}

size_t vocab_size(const struct vocab *v)
{
    return v->size;
}

const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *len)
{
    if (id < 0 || (size_t)id >= v->size)
        return NULL;
    *len = v->entries[id].len;
    return v->bytes + v->entries[id].at;
}

bool vocab_is_special(const struct vocab *v, int32_t id)
{
    return id >= 0 && (size_t)id < v->size && v->entries[id].special;
}

int32_t vocab_special(const struct vocab *v, const char *name)
{
    for (size_t id = 0; id < v->size; id++)
        if (v->entries[id].special && same(v, (int32_t)id, name, strlen(name)))
            return (int32_t)id;
    return -1;
}

uint64_t vocab_fingerprint(const struct vocab *v)
{
    uint64_t hash = v->size;
    for (size_t id = 0; id < v->size; id++) {
        const struct entry *e = &v->entries[id];
        hash = XXH3_64bits_withSeed(v->bytes + e->at, e->len, hash * 2 + e->special);
    }
    return hash;
}
