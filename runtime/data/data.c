/* data: a corpus is mapped read-only, never copied; sizes are 64 bits.
 *
 * The order within an epoch is a keyed bijection on 0..n-1 instead of a shuffled table: a Feistel network on the next power of four
 * at or above n, walked until it lands below n ("cycle walking"; Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
 * That needs no memory however large the corpus is, and any rank can compute any sample at once. */
#include "runtime/data/data.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/fsutil.h"
#include "common/mem.h"

#define FEISTEL_ROUNDS    6
#define FINGERPRINT_BYTES 65536

/* Header of a token file: all numbers little endian, as every machine this runs on has them. */
struct token_header {
    char magic[8]; /* "BELAYTOK" */
    uint32_t version, token_bytes;
    uint64_t count;
    uint64_t reserved;
};
static const char token_magic[8] = {'B', 'E', 'L', 'A', 'Y', 'T', 'O', 'K'};

struct data {
    char *path;
    void *map;
    size_t map_bytes;
    const unsigned char *bytes; /* one byte a token, or */
    const uint16_t *words;      /* two */
    uint64_t tokens, sequences;
    int64_t vocab;
    size_t context;
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* One pass of the network over numbers of 2*half bits. */
static uint64_t feistel(uint64_t x, unsigned half, uint64_t key)
{
    uint64_t mask = (1ULL << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint64_t next = left ^ (mix(right + mix(key + round * 0x9e3779b97f4a7c15ULL)) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t data_pick(uint64_t sequences, uint64_t seed, uint64_t sample)
{
    uint64_t key = mix(mix(seed + 0x9e3779b97f4a7c15ULL) + sample / sequences);
    unsigned half = 1;
    while (half < 31 && (1ULL << (2 * half)) < sequences)
        half++;
    uint64_t x = sample % sequences;
    do
        x = feistel(x, half, key);
    while (x >= sequences);
    return x;
}

static bool has_suffix(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static int check_file(const char *path, int fd, size_t *bytes, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(err, "cannot read the size of the training data %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, "the training data %s is not a file; give a text file or a .bin token file",
                       path);
    if (st.st_size == 0)
        return err_set(err, "the training data %s is empty", path);
    *bytes = (size_t)st.st_size;
    return 0;
}

/* Maps a whole file; NULL with a sentence. */
static void *map_file(const char *path, size_t *bytes, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_sys(err, "cannot open the training data %s (train.data.path)", path);
        return NULL;
    }
    void *map = NULL;
    if (check_file(path, fd, bytes, err) == 0) {
        map = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) {
            err_sys(err, "cannot map the training data %s", path);
            map = NULL;
        }
    }
    close(fd);
    return map;
}

/* A token file: with a header its count must match the size exactly; without one it is words from the first byte on. */
static int find_words(struct data *d, struct err *err)
{
    struct token_header h = {.count = 0};
    size_t skip = 0;
    if (d->map_bytes >= sizeof h && memcmp(d->map, token_magic, sizeof token_magic) == 0) {
        memcpy(&h, d->map, sizeof h);
        skip = sizeof h;
        if (h.version != 1 || h.token_bytes != sizeof(uint16_t))
            return err_set(
                err,
                "%s is a token file of version %u with %u bytes a token; this program reads version 1 with 2",
                d->path, h.version, h.token_bytes);
        if (h.count != (d->map_bytes - skip) / sizeof(uint16_t))
            return err_set(err,
                           "%s is torn: its header announces %llu tokens, its size holds %llu; make it again",
                           d->path, (unsigned long long)h.count,
                           (unsigned long long)((d->map_bytes - skip) / sizeof(uint16_t)));
    }
    if ((d->map_bytes - skip) % sizeof(uint16_t) != 0)
        return err_set(err, "%s does not hold whole tokens of 16 bits: its size is odd", d->path);
    d->words = (const uint16_t *)(const void *)((const char *)d->map + skip);
    d->tokens = (d->map_bytes - skip) / sizeof(uint16_t);
    return 0;
}

static int find_tokens(struct data *d, struct err *err)
{
    if (has_suffix(d->path, ".bin"))
        return find_words(d, err);
    if (d->vocab < 256)
        return err_set(err, "the byte tokenizer needs train.model.vocab of at least 256, not %lld",
                       (long long)d->vocab);
    d->bytes = d->map;
    d->tokens = d->map_bytes;
    return 0;
}

struct data *data_open(const char *path, int64_t vocab, size_t context, struct err *err)
{
    struct data *d = mem_zero(1, sizeof *d);
    d->path = str_dup(path);
    d->vocab = vocab;
    d->context = context;
    d->map = map_file(path, &d->map_bytes, err);
    if (!d->map || find_tokens(d, err) != 0)
        goto fail;
    d->sequences = d->tokens == 0 ? 0 : (d->tokens - 1) / context;
    if (d->sequences == 0) {
        err_set(
            err,
            "the training data %s has %llu tokens, fewer than one sequence of %zu+1 (train.model.context)",
            path, (unsigned long long)d->tokens, context);
        goto fail;
    }
    return d;
fail:
    data_close(d);
    return NULL;
}

void data_close(struct data *data)
{
    if (!data)
        return;
    if (data->map)
        munmap(data->map, data->map_bytes);
    free(data->path);
    free(data);
}

uint64_t data_tokens(const struct data *data)
{
    return data->tokens;
}

uint64_t data_sequences(const struct data *data)
{
    return data->sequences;
}

uint64_t data_fingerprint(const struct data *data)
{
    const char *map = data->map;
    size_t n = data->map_bytes < FINGERPRINT_BYTES ? data->map_bytes : FINGERPRINT_BYTES;
    uint64_t head = XXH3_64bits_withSeed(map, n, data->map_bytes);
    return XXH3_64bits_withSeed(map + data->map_bytes - n, n, head);
}

/* Copies tokens at..at+n-1; -1 when one is not below vocab. */
static int copy_tokens(const struct data *d, uint64_t at, size_t n, int32_t *out)
{
    if (d->bytes) {
        for (size_t i = 0; i < n; i++)
            out[i] = d->bytes[at + i];
        return 0;
    }
    int32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = d->words[at + i];
        largest = out[i] > largest ? out[i] : largest;
    }
    return largest < d->vocab ? 0 : -1;
}

int data_fill(const struct data *data, uint64_t seed, uint64_t first, size_t count, int32_t *tokens,
              int32_t *targets, struct err *err)
{
    size_t context = data->context;
    for (size_t i = 0; i < count; i++) {
        uint64_t at = data_pick(data_sequences(data), seed, first + i) * context;
        if (copy_tokens(data, at, context, tokens + i * context) != 0 ||
            copy_tokens(data, at + 1, context, targets + i * context) != 0)
            return err_set(err,
                           "%s has a token at or above train.model.vocab (%lld) in its tokens %llu to %llu; "
                           "raise vocab or make the file again",
                           data->path, (long long)data->vocab, (unsigned long long)at,
                           (unsigned long long)at + context);
    }
    return 0;
}

static int write_tokens(int fd, const unsigned char *bytes, uint64_t count)
{
    struct token_header h = {.version = 1, .token_bytes = sizeof(uint16_t), .count = count};
    memcpy(h.magic, token_magic, sizeof h.magic);
    if (fs_write_all(fd, &h, sizeof h) != 0)
        return -1;
    uint16_t words[8192];
    for (uint64_t at = 0; at < count; at += 8192) {
        size_t n = count - at < 8192 ? (size_t)(count - at) : 8192;
        for (size_t i = 0; i < n; i++)
            words[i] = bytes[at + i];
        if (fs_write_all(fd, words, n * sizeof *words) != 0)
            return -1;
    }
    return fsync(fd);
}

int data_tokenize(const char *text_path, const char *bin_path, struct err *err)
{
    size_t bytes = 0;
    void *text = map_file(text_path, &bytes, err);
    if (!text)
        return -1;
    char *temporary = str_printf("%s.tmp.%d", bin_path, (int)getpid());
    int rc = 0, fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        rc = err_sys(err, "cannot write the token file %s", temporary);
    } else {
        if (write_tokens(fd, text, bytes) != 0 || rename(temporary, bin_path) != 0) {
            rc = err_sys(err, "cannot write the token file %s", bin_path);
            (void)unlink(temporary); /* the error above is the one to tell */
        }
        close(fd);
    }
    free(temporary);
    munmap(text, bytes);
    return rc;
}
