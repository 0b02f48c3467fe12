/* tokenfile: see tokenfile.h. Numbers in files are little endian, as every machine that this runs on has them. */
#include "runtime/data/tokenfile.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define LLMC_HEADER 1024 /* 256 int32 */
#define FLAG_MASK   1u

/* Version 1 ends after `flags`, which it calls reserved. */
struct header {
    char magic[8]; /* "BELAYTOK" */
    uint32_t version, token_bytes;
    uint64_t count;
    uint64_t flags;
    uint64_t vocab;
    int64_t end;
    uint64_t fingerprint;
    uint64_t reserved;
};
_Static_assert(sizeof(struct header) == TOKENFILE_HEADER, "the header has no gaps");
#define HEADER_1 32

static const char magic[8] = {'B', 'E', 'L', 'A', 'Y', 'T', 'O', 'K'};

size_t token_type_bytes(enum token_type type)
{
    static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 8};
    return bytes[type];
}

/* Is the size exactly what the header says? The count is not trusted: no sum here can overflow. */
static int check_size(const struct token_layout *l, uint64_t size, bool masked, const char *path,
                      struct err *err)
{
    uint64_t bytes = token_type_bytes(l->type), room = (size - l->offset) / bytes;
    uint64_t mask = masked ? l->count / 8 + (l->count % 8 != 0) : 0;
    if (l->count <= room && size - l->offset - l->count * bytes == mask)
        return 0;
    return err_set(err,
                   "%s is torn: its header announces %" PRIu64 " tokens%s, its size has room for %" PRIu64
                   "; make the file again",
                   path, l->count, masked ? " and a mask" : "", room);
}

static int cut_header(size_t size, size_t whole, const char *path, struct err *err)
{
    return err_set(err, "%s is torn: its header ends after %zu of %zu bytes; make the file again", path, size,
                   whole);
}

static int check_version(const struct header *h, size_t size, const char *path, struct err *err)
{
    if (h->version != 1 && h->version != 2)
        return err_set(err,
                       "%s is a token file of version %u; this program reads versions 1 and 2: use the "
                       "program that wrote it, or make the file again",
                       path, h->version);
    if (h->token_bytes != 2 && h->token_bytes != 4)
        return err_set(err,
                       "%s is a token file with %u bytes a token; only 2 and 4 can be: make the file again",
                       path, h->token_bytes);
    if (h->version == 2 && size < sizeof *h)
        return cut_header(size, sizeof *h, path, err);
    return 0;
}

static int check_extras(const struct header *h, const char *path, struct err *err)
{
    if ((h->flags & ~(uint64_t)FLAG_MASK) != 0 || h->reserved != 0)
        return err_set(
            err, "%s uses something that this program does not know (flags %" PRIx64 "); use a newer one",
            path, h->flags);
    if (h->vocab > INT32_MAX || h->end < -1 || (h->vocab > 0 && h->end >= (int64_t)h->vocab))
        return err_set(err,
                       "%s has a broken header (vocabulary %" PRIu64 ", end of text %" PRId64
                       "); make the file again",
                       path, h->vocab, h->end);
    return 0;
}

static int own_layout(const unsigned char *bytes, size_t size, const char *path, struct token_layout *out,
                      struct err *err)
{
    struct header h = {.count = 0};
    if (size < HEADER_1)
        return cut_header(size, sizeof h, path, err);
    memcpy(&h, bytes, size < sizeof h ? size : sizeof h);
    if (check_version(&h, size, path, err) != 0)
        return -1;
    *out = (struct token_layout){
        .type = h.token_bytes == 2 ? TOKEN_U16 : TOKEN_U32, .count = h.count, .end = -1};
    out->offset = h.version == 1 ? HEADER_1 : sizeof h;
    if (h.version == 1)
        return check_size(out, size, false, path, err);
    bool masked = h.flags & FLAG_MASK;
    if (check_extras(&h, path, err) != 0 || check_size(out, size, masked, path, err) != 0)
        return -1;
    out->vocab = h.vocab;
    out->end = h.end;
    out->fingerprint = h.fingerprint;
    out->mask = masked ? out->offset + out->count * h.token_bytes : 0;
    return 0;
}

struct llmc {
    int32_t magic, version;
    enum token_type type;
};
static const struct llmc llmc_kinds[] = {{20240520, 1, TOKEN_U16}, {20240801, 7, TOKEN_U32}};

/* llm.c's evaluation sets have a magic of their own; taken for bare tokens they would be nonsense. */
#define LLMC_EVAL_MAGIC 20240522

static int llmc_layout(const struct llmc *kind, const unsigned char *bytes, size_t size, const char *path,
                       struct token_layout *out, struct err *err)
{
    int32_t h[3];
    if (size < LLMC_HEADER)
        return cut_header(size, LLMC_HEADER, path, err);
    memcpy(h, bytes, sizeof h);
    if (h[1] != kind->version)
        return err_set(err,
                       "%s is an llm.c token file of version %d; version %d can be read: make the file again",
                       path, h[1], kind->version);
    if (h[2] < 0)
        return err_set(err, "%s is an llm.c token file with %d tokens; make the file again", path, h[2]);
    *out =
        (struct token_layout){.type = kind->type, .offset = LLMC_HEADER, .count = (uint64_t)h[2], .end = -1};
    return check_size(out, size, false, path, err);
}

static int bare_layout(size_t size, const char *path, struct token_layout *out, struct err *err)
{
    if (size % sizeof(uint16_t) != 0)
        return err_set(
            err,
            "%s has no header that is known and an odd size, so it does not hold tokens of 16 bits "
            "either; make it with belay-train prepare",
            path);
    *out = (struct token_layout){.type = TOKEN_U16, .count = size / sizeof(uint16_t), .end = -1};
    return 0;
}

int tokenfile_layout(const unsigned char *bytes, size_t size, const char *path, struct token_layout *out,
                     struct err *err)
{
    int32_t first = 0;
    if (size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0)
        return own_layout(bytes, size, path, out, err);
    if (size >= sizeof first)
        memcpy(&first, bytes, sizeof first);
    for (size_t i = 0; i < sizeof llmc_kinds / sizeof *llmc_kinds; i++)
        if (first == llmc_kinds[i].magic)
            return llmc_layout(&llmc_kinds[i], bytes, size, path, out, err);
    if (first == LLMC_EVAL_MAGIC)
        return err_set(err, "%s is an evaluation set of llm.c, not text to train on", path);
    return bare_layout(size, path, out, err);
}

void tokenfile_header(const struct token_layout *layout, unsigned char out[TOKENFILE_HEADER])
{
    struct header h = {.version = 2,
                       .token_bytes = (uint32_t)token_type_bytes(layout->type),
                       .count = layout->count,
                       .flags = layout->mask ? FLAG_MASK : 0,
                       .vocab = layout->vocab,
                       .end = layout->end,
                       .fingerprint = layout->fingerprint};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(out, &h, sizeof h);
}
