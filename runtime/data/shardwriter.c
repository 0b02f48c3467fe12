/* shardwriter: see shardwriter.h. A shard grows under a temporary name; its header, which has the count, and its mask, of which there is none
 * while every token counts, come when it is whole. */
#include "runtime/data/shardwriter.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"

#define BUFFER_BYTES 65536

struct shardwriter {
    char *folder;
    struct token_layout layout;
    uint64_t limit; /* tokens a shard */
    int fd;         /* -1 = no shard is open */
    char *name, *temporary;
    uint64_t count, masked_here;
    unsigned char *mask; /* of this shard, bits; NULL while every token counts */
    uint64_t tokens, masked;
    _Alignas(uint32_t) unsigned char buffer[BUFFER_BYTES];
    size_t used;
    struct indexfile_shard *done;
    size_t n, room;
};

struct shardwriter *shardwriter_new(const char *folder, const struct token_layout *layout, uint64_t tokens)
{
    struct shardwriter *w = mem_zero(1, sizeof *w);
    w->folder = str_dup(folder);
    w->layout = *layout;
    w->limit = tokens;
    w->fd = -1;
    return w;
}

static int failed(const struct shardwriter *w, struct err *err)
{
    return err_sys(err, "cannot write %s", w->temporary);
}

static int flush(struct shardwriter *w, struct err *err)
{
    size_t used = w->used;
    w->used = 0;
    return fs_write_all(w->fd, w->buffer, used) == 0 ? 0 : failed(w, err);
}

static int open_shard(struct shardwriter *w, struct err *err)
{
    if (w->n >= INDEXFILE_SHARDS_MAX)
        return err_set(err, "more than %d shards; make them larger with --shard-tokens",
                       INDEXFILE_SHARDS_MAX);
    char file[32];
    (void)snprintf(file, sizeof file, "shard-%05zu.bin", w->n);
    w->name = str_printf("%s/%s", w->folder, file);
    w->temporary = str_printf("%s.tmp", w->name);
    w->done = mem_one_more(w->done, w->n, &w->room, sizeof *w->done);
    w->done[w->n] = (struct indexfile_shard){.file = str_dup(file)};
    w->n++;
    w->count = w->masked_here = 0;
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (w->fd < 0)
        return failed(w, err);
    memset(w->buffer, 0, TOKENFILE_HEADER); /* its place */
    w->used = TOKENFILE_HEADER;
    return 0;
}

/* Header, mask, fsync, name. */
static int complete(struct shardwriter *w, struct err *err)
{
    unsigned char header[TOKENFILE_HEADER];
    w->layout.count = w->count;
    w->layout.mask = w->mask != NULL;
    tokenfile_header(&w->layout, header);
    if (flush(w, err) != 0)
        return -1;
    if ((w->mask && fs_write_all(w->fd, w->mask, (size_t)(w->count / 8 + (w->count % 8 != 0))) != 0) ||
        pwrite(w->fd, header, sizeof header, 0) != (ssize_t)sizeof header || fsync(w->fd) != 0 ||
        rename(w->temporary, w->name) != 0)
        return failed(w, err);
    return 0;
}

static void forget(struct shardwriter *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    free(w->name);
    free(w->temporary);
    free(w->mask);
    w->name = w->temporary = NULL;
    w->mask = NULL;
}

static int close_shard(struct shardwriter *w, struct err *err)
{
    if (complete(w, err) != 0)
        return -1;
    w->done[w->n - 1].tokens = w->count;
    w->tokens += w->count;
    w->masked += w->masked_here;
    forget(w);
    return 0;
}

/* Notes that n more tokens count or not; bits of the rest of the shard are set, as if they counted. */
static void note_mask(struct shardwriter *w, const unsigned char *counts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (counts[i])
            continue;
        if (!w->mask) {
            w->mask = mem_grow(NULL, (size_t)(w->limit / 8 + 1), 1);
            memset(w->mask, 0xff, (size_t)(w->limit / 8 + 1));
        }
        uint64_t at = w->count + i;
        w->mask[at / 8] &= (unsigned char)~(1u << (at % 8));
        w->masked_here++;
    }
}

/* Puts n tokens, for which there is room, behind what is in the buffer. */
static void pack(struct shardwriter *w, const int32_t *ids, size_t n)
{
    void *to = w->buffer + w->used; /* aligned: the header has 64 bytes */
    if (w->layout.type == TOKEN_U16)
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = (uint16_t)ids[i];
    else
        memcpy(to, ids, n * sizeof *ids);
}

/* n tokens that fit in the shard. */
static int write_tokens(struct shardwriter *w, const int32_t *ids, size_t n, struct err *err)
{
    size_t bytes = token_type_bytes(w->layout.type);
    w->count += n;
    while (n > 0) {
        if (w->used == sizeof w->buffer && flush(w, err) != 0)
            return -1;
        size_t room = (sizeof w->buffer - w->used) / bytes, take = room < n ? room : n;
        pack(w, ids, take);
        w->used += take * bytes;
        ids += take;
        n -= take;
    }
    return 0;
}

int shardwriter_add(struct shardwriter *w, const int32_t *ids, const unsigned char *counts, size_t n,
                    struct err *err)
{
    while (n > 0) {
        if (w->fd < 0 && open_shard(w, err) != 0)
            return -1;
        uint64_t left = w->limit - w->count;
        size_t take = left < n ? (size_t)left : n;
        if (counts) {
            note_mask(w, counts, take);
            counts += take;
        }
        if (write_tokens(w, ids, take, err) != 0 || (w->count == w->limit && close_shard(w, err) != 0))
            return -1;
        ids += take;
        n -= take;
    }
    return 0;
}

int shardwriter_finish(struct shardwriter *w, struct indexfile *x, struct err *err)
{
    if (w->fd >= 0 && close_shard(w, err) != 0)
        return -1;
    x->shards = w->done;
    x->n_shards = w->n;
    x->tokens = w->tokens;
    x->masked = w->masked;
    w->done = NULL;
    w->n = 0;
    return 0;
}

void shardwriter_free(struct shardwriter *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        (void)unlink(w->temporary); /* what stays is removed by the next run */
    forget(w);
    for (size_t i = 0; i < w->n; i++)
        free(w->done[i].file);
    free(w->done);
    free(w->folder);
    free(w);
}
