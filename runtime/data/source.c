/* source: see source.h. Only the file that is being cut is mapped; whoever works on a piece maps its file again. */
#include "runtime/data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "runtime/data/mapping.h"
#include "runtime/data/outfolder.h"

#define PIECE_BYTES (1u << 20)
#define LOOK_BYTES  4096 /* of a file, to tell whether it is text */

struct file {
    char *path;
    uint64_t size;
    bool jsonl;
};

struct source {
    struct file *files;
    size_t n, room, left_out;
    uint64_t bytes;
    /* the cursor */
    size_t at;
    uint64_t offset;
    struct mapping map; /* of files[at], when offset > 0 */
};

struct source *source_new(void)
{
    return mem_zero(1, sizeof(struct source));
}

void source_free(struct source *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        free(s->files[i].path);
    free(s->files);
    mapping_close(&s->map);
    free(s);
}

size_t source_files(const struct source *s)
{
    return s->n;
}

uint64_t source_bytes(const struct source *s)
{
    return s->bytes;
}

size_t source_left_out(const struct source *s)
{
    return s->left_out;
}

const char *source_path(const struct source *s, size_t file)
{
    return s->files[file].path;
}

/* ---- the list ---- */

static bool is_jsonl(const char *path)
{
    size_t n = strlen(path);
    return n >= 6 && strcmp(path + n - 6, ".jsonl") == 0;
}

/* Text has no zero bytes; archives, pictures and UTF-16 have, early. 1 text, 0 not, -1 with a sentence. */
static int look(const char *path, struct err *err)
{
    char start[LOOK_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "cannot open %s", path);
    ssize_t n = read(fd, start, sizeof start);
    int rc = n < 0 ? err_sys(err, "cannot read %s", path) : !memchr(start, '\0', (size_t)n);
    close(fd);
    return rc;
}

static void append(struct source *s, const char *path, uint64_t size)
{
    s->files = mem_one_more(s->files, s->n, &s->room, sizeof *s->files);
    s->files[s->n++] = (struct file){.path = str_dup(path), .size = size, .jsonl = is_jsonl(path)};
    s->bytes += size;
}

static int add_file(struct source *s, const char *path, uint64_t size, bool named, struct err *err)
{
    int text = look(path, err);
    if (text < 0)
        return -1;
    if (text)
        append(s, path, size);
    else if (named)
        return err_set(err, "%s is not text: it has zero bytes; unpack or convert it to UTF-8 first", path);
    else
        s->left_out++;
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* One entry of a folder. Links to files are followed, links to folders are not, so that there is no way round in a circle. Token files may lie
 * beside their text: were what they came from read again with their tokenizer in it, the same command would not make the same twice. */
static int add_entry(struct source *s, FTS *walk, FTSENT *entry, struct err *err)
{
    struct stat st;
    if (entry->fts_level > 0 && entry->fts_name[0] == '.') {
        (void)fts_set(walk, entry, FTS_SKIP); /* fails for unknown instructions only */
        return 0;
    }
    switch (entry->fts_info) {
    case FTS_D:
        if (outfolder_made(entry->fts_path))
            (void)fts_set(walk, entry, FTS_SKIP);
        return 0;
    case FTS_F:
        return add_file(s, entry->fts_path, (uint64_t)entry->fts_statp->st_size, false, err);
    case FTS_SL:
        if (stat(entry->fts_path, &st) == 0 && S_ISREG(st.st_mode))
            return add_file(s, entry->fts_path, (uint64_t)st.st_size, false, err);
        return 0;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        errno = entry->fts_errno;
        return err_sys(err, "cannot read %s", entry->fts_path);
    default:
        return 0;
    }
}

static int add_folder(struct source *s, const char *path, struct err *err)
{
    char *copy = str_dup(path);
    size_t len = strlen(copy);
    while (len > 1 && copy[len - 1] == '/') /* a/ and a give the same names */
        copy[--len] = '\0';
    char *roots[] = {copy, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, by_name);
    int rc = walk ? 0 : err_sys(err, "cannot open the folder %s", path);
    for (FTSENT *entry; rc == 0 && (entry = fts_read(walk)) != NULL;)
        rc = add_entry(s, walk, entry, err);
    if (walk)
        (void)fts_close(walk); /* nothing was changed */
    free(copy);
    return rc;
}

int source_add(struct source *s, const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return err_sys(err, "cannot open %s", path);
    if (S_ISREG(st.st_mode))
        return add_file(s, path, (uint64_t)st.st_size, true, err);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, "%s is neither a file nor a folder", path);
    size_t before = s->n;
    if (add_folder(s, path, err) != 0)
        return -1;
    return s->n > before ? 0 : err_set(err, "the folder %s holds no text files", path);
}

/* ---- pieces ---- */

static bool letter(unsigned char c)
{
    c |= 0x20;
    return c >= 'a' && c <= 'z';
}

static bool visible(unsigned char c)
{
    return c > ' ' && c < 0x7f;
}

/* The first place at or behind `from` where text may be cut; the size when there is none. from >= 2. */
static size_t text_cut(const struct mapping *m, size_t from)
{
    while (from < m->size) {
        const unsigned char *end = memchr(m->bytes + from - 1, '\n', m->size - from);
        if (!end)
            break;
        from = (size_t)(end - m->bytes) + 1;
        if (visible(end[-1]) && letter(end[1]))
            return from;
        from++;
    }
    return m->size;
}

static size_t line_cut(const struct mapping *m, size_t from)
{
    const unsigned char *end = memchr(m->bytes + from - 1, '\n', m->size - from + 1);
    return end ? (size_t)(end - m->bytes) + 1 : m->size;
}

/* Where the piece that begins at `from` ends. */
static size_t piece_end(const struct mapping *m, size_t from, bool jsonl, bool cut)
{
    if (m->size - from <= PIECE_BYTES || (!jsonl && !cut))
        return m->size;
    return jsonl ? line_cut(m, from + PIECE_BYTES) : text_cut(m, from + PIECE_BYTES);
}

static void next_file(struct source *s)
{
    mapping_close(&s->map);
    s->at++;
    s->offset = 0;
}

bool source_next(struct source *s, bool cut, struct piece *out, struct err *err)
{
    while (s->at < s->n) {
        const struct file *f = &s->files[s->at];
        if (s->offset == 0 && mapping_open(f->path, &s->map, err) != 0)
            return false;
        size_t from = (size_t)s->offset, end = piece_end(&s->map, from, f->jsonl, cut);
        *out = (struct piece){
            .file = s->at, .offset = from, .len = end - from, .jsonl = f->jsonl, .last = end == s->map.size};
        s->offset = end;
        if (end == s->map.size)
            next_file(s);
        if (out->len > 0)
            return true;
    }
    return false;
}

void source_rewind(struct source *s)
{
    mapping_close(&s->map);
    s->at = 0;
    s->offset = 0;
}

uint64_t source_line(const struct source *s, size_t file, uint64_t offset)
{
    struct mapping m;
    uint64_t line = 1;
    if (mapping_open(s->files[file].path, &m, NULL) != 0)
        return 0;
    const unsigned char *at = m.bytes, *end = m.bytes + (offset < m.size ? offset : m.size);
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        line++;
    }
    mapping_close(&m);
    return line;
}
