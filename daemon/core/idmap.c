/* idmap: open addressing with linear probing. It always holds that the table is at most half full and that no empty place lies
 * between a key's home and where it is, so that a lookup may stop at the first empty place. */
#include "daemon/core/idmap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct entry {
    char *key; /* NULL = empty */
    uint64_t hash;
    void *value;
};

struct idmap {
    struct entry *entries;
    size_t size, count; /* size: a power of two */
};

enum { SIZE_AT_START = 16 };

/* FNV-1a with a final mix: the keys come from users, but a slow lookup is all that colliding ones could bring about. */
static uint64_t hash_of(const char *key)
{
    uint64_t h = 14695981039346656037u;
    for (const unsigned char *p = (const unsigned char *)key; *p; p++)
        h = (h ^ *p) * 1099511628211u;
    h ^= h >> 32;
    return h;
}

struct idmap *idmap_new(void)
{
    struct idmap *map = mem_zero(1, sizeof(*map));
    map->size = SIZE_AT_START;
    map->entries = mem_zero(map->size, sizeof(*map->entries));
    return map;
}

void idmap_free(struct idmap *map)
{
    if (!map)
        return;
    for (size_t i = 0; i < map->size; i++)
        free(map->entries[i].key);
    free(map->entries);
    free(map);
}

/* Where key is, or the empty place where it belongs. */
static size_t find(const struct idmap *map, const char *key, uint64_t hash)
{
    size_t i = hash & (map->size - 1);
    while (map->entries[i].key && (map->entries[i].hash != hash || strcmp(map->entries[i].key, key) != 0))
        i = (i + 1) & (map->size - 1);
    return i;
}

void *idmap_get(const struct idmap *map, const char *key)
{
    return map->entries[find(map, key, hash_of(key))].value;
}

static void grow(struct idmap *map)
{
    struct entry *old = map->entries;
    size_t old_size = map->size;
    map->size *= 2;
    map->entries = mem_zero(map->size, sizeof(*map->entries));
    for (size_t i = 0; i < old_size; i++)
        if (old[i].key)
            map->entries[find(map, old[i].key, old[i].hash)] = old[i];
    free(old);
}

void idmap_put(struct idmap *map, const char *key, void *value)
{
    if ((map->count + 1) * 2 > map->size)
        grow(map);
    uint64_t hash = hash_of(key);
    struct entry *e = &map->entries[find(map, key, hash)];
    if (!e->key) {
        e->key = str_dup(key);
        e->hash = hash;
        map->count++;
    }
    e->value = value;
}

void idmap_remove(struct idmap *map, const char *key)
{
    size_t mask = map->size - 1, hole = find(map, key, hash_of(key));
    if (!map->entries[hole].key)
        return;
    free(map->entries[hole].key);
    map->entries[hole] = (struct entry){0};
    map->count--;
    for (size_t i = (hole + 1) & mask; map->entries[i].key; i = (i + 1) & mask) {
        size_t home = map->entries[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue; /* the hole lies before its home: it may not go there */
        map->entries[hole] = map->entries[i];
        map->entries[i] = (struct entry){0};
        hole = i;
    }
}

size_t idmap_count(const struct idmap *map)
{
    return map->count;
}
