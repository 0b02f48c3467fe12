/* shard: see shard.h. Only pages that are read are ever in memory. */
#include "runtime/data/shard.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/mem.h"
#include "runtime/data/megatron.h"

#define FINGERPRINT_BYTES 4096 /* at either end: a corpus of thousands of shards opens on every rank */

static bool is_bin(const char *path)
{
    size_t n = strlen(path);
    return n >= 4 && strcmp(path + n - 4, ".bin") == 0;
}

/* x.bin -> x.idx */
static char *index_path(const char *bin_path)
{
    return str_printf("%.*s.idx", (int)strlen(bin_path) - 4, bin_path);
}

bool shard_has_index(const char *bin_path)
{
    char *path = is_bin(bin_path) ? index_path(bin_path) : NULL;
    bool found = path && access(path, F_OK) == 0;
    free(path);
    return found;
}

static int indexed_layout(struct shard *s, struct err *err)
{
    struct mapping idx;
    char *path = index_path(s->path);
    int rc = mapping_open(path, &idx, err);
    if (rc == 0)
        rc = megatron_layout(idx.bytes, idx.size, s->map.size, path, &s->layout, NULL, err);
    mapping_close(&idx);
    free(path);
    return rc;
}

static int find_layout(struct shard *s, struct err *err)
{
    if (!is_bin(s->path)) {
        s->layout = (struct token_layout){.type = TOKEN_U8, .count = s->map.size, .end = -1};
        return 0;
    }
    if (shard_has_index(s->path))
        return indexed_layout(s, err);
    return tokenfile_layout(s->map.bytes, s->map.size, s->path, &s->layout, err);
}

int shard_open(const char *path, struct shard *out, struct err *err)
{
    *out = (struct shard){.path = str_dup(path)};
    int rc = mapping_open(path, &out->map, err);
    if (rc == 0 && out->map.size == 0)
        rc = err_set(err, "%s is empty; make it again", path);
    if (rc == 0)
        rc = find_layout(out, err);
    if (rc != 0)
        shard_close(out);
    return rc;
}

void shard_close(struct shard *s)
{
    mapping_close(&s->map);
    free(s->path);
    *s = (struct shard){.path = NULL};
}

/* A plain loop for each type, which the compiler can vectorise; what is out of range is noticed, not branched on. */
#define COPY(type)                                                                                           \
    do {                                                                                                     \
        const type *from = (const type *)(const void *)base + at;                                            \
        for (size_t i = 0; i < n; i++) {                                                                     \
            int64_t v = from[i];                                                                             \
            bad |= v < 0 || v >= vocab;                                                                      \
            out[i] = (int32_t)v;                                                                             \
        }                                                                                                    \
    } while (0)

int shard_read(const struct shard *s, uint64_t at, size_t n, int64_t vocab, int32_t *out)
{
    const unsigned char *base = s->map.bytes + s->layout.offset;
    int bad = 0;
    switch (s->layout.type) {
    case TOKEN_U8:
        COPY(uint8_t);
        break;
    case TOKEN_I8: /* read without its sign, a negative one is 128 or more */
        vocab = vocab < 128 ? vocab : 128;
        COPY(uint8_t);
        break;
    case TOKEN_U16:
        COPY(uint16_t);
        break;
    case TOKEN_I16:
        COPY(int16_t);
        break;
    case TOKEN_U32:
        COPY(uint32_t);
        break;
    case TOKEN_I32:
        COPY(int32_t);
        break;
    case TOKEN_I64:
        COPY(int64_t);
        break;
    }
    return bad ? -1 : 0;
}

void shard_mask(const struct shard *s, uint64_t at, size_t n, int32_t *out)
{
    if (!s->layout.mask)
        return;
    const unsigned char *mask = s->map.bytes + s->layout.mask;
    for (size_t i = 0; i < n; i++)
        if (!(mask[(at + i) / 8] >> ((at + i) % 8) & 1))
            out[i] = -1;
}

uint64_t shard_fingerprint(const struct shard *s)
{
    size_t n = s->map.size < FINGERPRINT_BYTES ? s->map.size : FINGERPRINT_BYTES;
    uint64_t shape[] = {s->map.size, s->layout.type, s->layout.offset, s->layout.count, s->layout.mask};
    uint64_t head = XXH3_64bits_withSeed(s->map.bytes, n, XXH3_64bits(shape, sizeof shape));
    return XXH3_64bits_withSeed(s->map.bytes + s->map.size - n, n, head);
}
