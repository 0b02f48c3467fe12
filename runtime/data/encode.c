/* encode: see encode.h. Everything is found in the piece itself, so that pieces can be encoded in any order by any thread. */
#include "runtime/data/encode.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/data/mapping.h"
#include "runtime/data/record.h"

/* What the lines of a piece are handed to. */
struct reader {
    void *arg;
    void (*record)(void *arg, const struct record *record);
    void (*bad)(void *arg, uint64_t offset, const struct err *why);
};

/* Bytes of the mark that some programs for Windows put before a file's first line. */
static size_t mark_length(const char *text, size_t len)
{
    return len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

/* Calls the reader for each line of text[0..len), which lies at `offset` of its file. */
static void read_lines(const char *text, size_t len, uint64_t offset, const char *field,
                       const struct reader *reader)
{
    for (size_t at = offset == 0 ? mark_length(text, len) : 0; at < len;) {
        struct record record;
        struct err why = {""};
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        if (record_parse(text + at, n, field, &record, &why) != 0)
            reader->bad(reader->arg, offset + at, &why);
        else if (!record.empty)
            reader->record(reader->arg, &record);
        record_clear(&record);
        at += n + 1;
    }
}

/* Maps the piece's file; it may have been cut since it was listed. */
static int map_piece(const struct source *source, const struct piece *piece, struct mapping *m,
                     struct err *err)
{
    const char *path = source_path(source, piece->file);
    if (mapping_open(path, m, err) != 0)
        return -1;
    if (m->size >= piece->offset + piece->len)
        return 0;
    mapping_close(m);
    return err_set(err, "%s became shorter while it was read; start again when nobody writes to it", path);
}

/* ---- tokens ---- */

struct encoder {
    const struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct encoded *out;
};

static void append(struct encoder *e, const char *text, size_t len)
{
    struct encoded *out = e->out;
    tokenizer_encode(e->tokenizer, e->scratch, text, len, &out->ids, &out->n, &out->room);
    out->text_bytes += len;
}

static void append_end(struct encoder *e)
{
    struct encoded *out = e->out;
    int32_t end = tokenizer_end(e->tokenizer);
    out->documents++;
    if (end < 0)
        return;
    out->ids = mem_one_more(out->ids, out->n, &out->room, sizeof *out->ids);
    out->ids[out->n++] = end;
}

/* Tokens from..n-1 count or do not. The list begins with the first that does not. */
static void mark(struct encoded *out, size_t from, bool count)
{
    if (!out->counts && count)
        return;
    bool fresh = !out->counts;
    out->counts = mem_grow(out->counts, out->n, 1);
    if (fresh)
        memset(out->counts, 1, from);
    memset(out->counts + from, count, out->n - from);
}

static void encode_record(void *arg, const struct record *record)
{
    struct encoder *e = arg;
    size_t from = e->out->n;
    if (record->prompt)
        append(e, record->prompt, record->prompt_len);
    mark(e->out, from, !record->prompt);
    from = e->out->n;
    append(e, record->text, record->text_len);
    append_end(e);
    mark(e->out, from, true);
}

static void note_bad(void *arg, uint64_t offset, const struct err *why)
{
    struct encoded *out = ((struct encoder *)arg)->out;
    if (out->bad_lines++ > 0)
        return;
    out->bad_at = offset;
    out->err = *why;
}

void encode_piece(const struct source *source, const struct piece *piece, const struct tokenizer *tokenizer,
                  struct tokenizer_scratch *scratch, const char *field, struct encoded *out)
{
    struct mapping m;
    *out = (struct encoded){.n = 0};
    struct encoder e = {tokenizer, scratch, out};
    if (map_piece(source, piece, &m, &out->err) != 0)
        return;
    const char *text = (const char *)m.bytes + piece->offset;
    if (piece->jsonl) {
        read_lines(text, piece->len, piece->offset, field,
                   &(struct reader){.arg = &e, .record = encode_record, .bad = note_bad});
    } else {
        append(&e, text, piece->len);
        if (piece->last)
            append_end(&e);
    }
    mapping_close(&m);
}

void encoded_clear(struct encoded *e)
{
    free(e->ids);
    free(e->counts);
    *e = (struct encoded){.n = 0};
}

bool encode_may_cut(const struct tokenizer *tokenizer)
{
    /* bytes have no pieces to look over; other tokenizers without a pre-split merge across anything */
    return strcmp(tokenizer_presplit(tokenizer), "none") != 0 ||
           strcmp(tokenizer_name(tokenizer), "bytes") == 0;
}

/* ---- texts ---- */

struct listener {
    void (*each)(void *arg, const char *text, size_t len);
    void *arg;
};

static void tell_record(void *arg, const struct record *record)
{
    const struct listener *l = arg;
    if (record->prompt)
        l->each(l->arg, record->prompt, record->prompt_len);
    l->each(l->arg, record->text, record->text_len);
}

static void pass_over(void *arg, uint64_t offset, const struct err *why)
{
    (void)arg;
    (void)offset;
    (void)why; /* told when the piece is encoded */
}

int encode_texts(const struct source *source, const struct piece *piece, const char *field,
                 void (*each)(void *arg, const char *text, size_t len), void *arg, struct err *err)
{
    struct mapping m;
    struct listener l = {each, arg};
    if (map_piece(source, piece, &m, err) != 0)
        return -1;
    const char *text = (const char *)m.bytes + piece->offset;
    if (piece->jsonl)
        read_lines(text, piece->len, piece->offset, field,
                   &(struct reader){.arg = &l, .record = tell_record, .bad = pass_over});
    else
        each(arg, text, piece->len);
    mapping_close(&m);
    return 0;
}
