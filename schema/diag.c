/* diag: see diag.h. Keeps a bounded number of sentences, so that a file of mistakes costs no memory; counts them all. */
#include "schema/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/utf8.h"

#define KEPT_MAX                                                                                             \
    (5 * JOB_DIAGNOSTICS_MAX) /* more than are shown, since checks across fields come after the reading */

struct entry {
    struct mark at;
    size_t arrived; /* keeps the sort stable */
    char text[512];
};

struct diag {
    const char *file, *kind;
    size_t count, kept;
    struct entry entries[KEPT_MAX];
};

struct diag *diag_new(const char *file)
{
    struct diag *d = mem_zero(1, sizeof *d);
    d->file = file;
    d->kind = "job";
    return d;
}

void diag_free(struct diag *d)
{
    free(d);
}

void diag_set_kind(struct diag *d, const char *kind)
{
    d->kind = kind;
}

const char *diag_kind(const struct diag *d)
{
    return d->kind;
}

void diag_add(struct diag *d, struct mark at, const char *fmt, ...)
{
    size_t index = d->count++;
    if (d->kept == KEPT_MAX)
        return;
    struct entry *e = &d->entries[d->kept++];
    e->at = at;
    e->arrived = index;
    va_list args;
    va_start(args, fmt);
    int written = vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
    if (written < 0)
        e->text[0] = '\0';
}

size_t diag_count(const struct diag *d)
{
    return d->count;
}

int diag_full(const struct diag *d)
{
    return d->kept == KEPT_MAX;
}

static int compare_sizes(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int compare(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    int order = compare_sizes(a->at.set != NULL, b->at.set != NULL);
    if (order == 0 && !a->at.set)
        order = compare_sizes(a->at.line, b->at.line);
    if (order == 0 && !a->at.set)
        order = compare_sizes(a->at.column, b->at.column);
    return order ? order : compare_sizes(a->arrived, b->arrived);
}

/* Appends one character of n bytes, or its bytes as \xNN when a terminal might act on it. False when it does not fit. */
static int append_char(char *out, size_t size, const char *text, size_t n)
{
    size_t used = strlen(out);
    unsigned char first = (unsigned char)text[0];
    int control =
        n == 0 || first < 0x20 || first == 0x7f || (n == 2 && first == 0xc2 && (unsigned char)text[1] < 0xa0);
    size_t width = control ? 4 * (n ? n : 1) : n;
    if (used + width + 1 > size)
        return 0;
    if (!control) {
        memcpy(out + used, text, n);
        out[used + n] = '\0';
        return 1;
    }
    for (size_t i = 0; i < (n ? n : 1); i++)
        (void)snprintf(out + used + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
    return 1;
}

/* Makes text safe to print, and well-formed UTF-8, into out. Returns false when it had to be cut. */
static int make_printable(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);
    out[0] = '\0';
    for (size_t at = 0; at < len;) {
        size_t n = utf8_length(text + at, len - at);
        if (!append_char(out, size, text + at, n))
            return 0;
        at += n ? n : 1;
    }
    return 1;
}

const char *diag_quote(char out[DIAG_QUOTE_SIZE], const char *text)
{
    char shown[DIAG_QUOTE_SIZE - 6]; /* two quotes, the NUL and the ellipsis of three bytes */
    int whole = make_printable(shown, sizeof shown, text);
    (void)snprintf(out, DIAG_QUOTE_SIZE, "\"%s%s\"", shown, whole ? "" : "…");
    return out;
}

/* Cuts before the character that does not fit and shows that it was cut. */
static void finish_text(char out[512], const char *text)
{
    char cut[512 - 3];
    int whole = make_printable(cut, sizeof cut, text);
    (void)snprintf(out, 512, "%s%s", cut, whole ? "" : "…");
}

static void print_entry(const struct diag *d, const struct entry *e, char out[512])
{
    char where[256], line[1024];
    int whole = make_printable(where, sizeof where, e->at.set ? e->at.set : d->file);
    const char *dots = whole ? "" : "…";
    if (e->at.set)
        (void)snprintf(line, sizeof line, "--set %s%s: %s", where, dots, e->text);
    else
        (void)snprintf(line, sizeof line, "%s%s:%zu:%zu: %s", where, dots, e->at.line, e->at.column, e->text);
    finish_text(out, line);
}

void diag_finish(struct diag *d, struct job_diagnostics *out)
{
    memset(out, 0, sizeof *out);
    qsort(d->entries, d->kept, sizeof d->entries[0], compare);
    for (size_t i = 0; i < d->kept && i < JOB_DIAGNOSTICS_MAX; i++)
        print_entry(d, &d->entries[i], out->text[i]);
    out->count = d->count;
}
