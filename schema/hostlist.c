/* hostlist: a list is entries with commas between; an entry is literal pieces with brackets between, each bracket a set of numbers.
 *
 * An entry is read twice: once to check it and to count its names, once more to make them, by counting through its brackets
 * like an odometer whose last wheel turns fastest. */
#include "schema/hostlist.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/diag.h"

#define DIGITS_MAX   15 /* of a number in brackets; far from the end of int64_t */
#define BRACKETS_MAX 8  /* in one entry */

/* lo-hi within brackets, written with at least `width` digits. */
struct range {
    int64_t lo, hi;
    int width;
    uint64_t before; /* numbers of the ranges before it */
};

struct bracket {
    const char *literal; /* the text before it */
    size_t literal_len;
    struct range *ranges;
    size_t n_ranges, n_room;
    uint64_t count; /* of its numbers */
};

struct entry {
    const char *text;
    size_t len;
    struct bracket brackets[BRACKETS_MAX];
    size_t n_brackets;
    const char *tail; /* the text behind the last bracket */
    size_t tail_len;
    uint64_t count;
};

static int complain(struct err *err, const struct entry *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts the entry before the sentence. */
static int complain(struct err *err, const struct entry *e, const char *fmt, ...)
{
    char copy[DIAG_QUOTE_SIZE], quoted[DIAG_QUOTE_SIZE], why[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    (void)snprintf(copy, sizeof copy, "%.*s", (int)(e->len < sizeof copy ? e->len : sizeof copy), e->text);
    return err_set(err, "%s %s", diag_quote(quoted, copy), why);
}

static void entry_clear(struct entry *e)
{
    for (size_t i = 0; i < e->n_brackets; i++)
        free(e->brackets[i].ranges);
    e->n_brackets = 0;
}

/* ---- one bracket ---- */

static size_t digits_at(const char *c)
{
    return strspn(c, "0123456789");
}

/* One number; *width is how many digits it has when these are to be kept (it begins with 0), else 0. */
static int read_number(const struct entry *e, const char **at, int64_t *out, int *width, struct err *err)
{
    size_t n = digits_at(*at);
    if (n == 0)
        return complain(err, e, "needs numbers within its brackets, such as [1-8] or [1,3,5-7]");
    if (n > DIGITS_MAX)
        return complain(err, e, "has a number of %zu digits; at most %d are allowed", n, DIGITS_MAX);
    *out = strtoll(*at, NULL, 10);
    *width = **at == '0' && n > 1 ? (int)n : 0;
    *at += n;
    return 0;
}

static int check_range(const struct entry *e, const struct range *r, const char *hi, size_t hi_digits,
                       struct err *err)
{
    if (r->hi < r->lo)
        return complain(err, e, "has a range that runs backwards; write [%.*s-%" PRId64 "]", (int)hi_digits,
                        hi, r->lo);
    if (r->width > (int)hi_digits)
        return complain(
            err, e, "has a range whose ends differ in leading zeros; give both the same number of digits");
    return 0;
}

/* Behind a number may come what ends it; anything else, such as the x of [01-0x], is not a matter of its value. */
static int check_end(const struct entry *e, char next, struct err *err)
{
    if (next == ',' || next == ']')
        return 0;
    return complain(err, e,
                    next ? "has something else than numbers, \"-\" and \",\" in its brackets"
                         : "has a bracket that is not closed; add \"]\"");
}

static int read_range(const struct entry *e, const char **at, struct range *out, struct err *err)
{
    if (read_number(e, at, &out->lo, &out->width, err) < 0)
        return -1;
    out->hi = out->lo;
    if (**at != '-')
        return check_end(e, **at, err);
    const char *hi = ++*at;
    int hi_width = 0;
    if (read_number(e, at, &out->hi, &hi_width, err) < 0 || check_end(e, **at, err) < 0)
        return -1;
    if (hi_width > 0 && out->width != hi_width) /* [1-010] */
        return complain(
            err, e, "has a range whose ends differ in leading zeros; give both the same number of digits");
    return check_range(e, out, hi, (size_t)(*at - hi), err);
}

/* From behind "[" to behind "]". */
static int read_bracket(struct entry *e, const char **at, struct err *err)
{
    struct bracket *b = &e->brackets[e->n_brackets - 1];
    for (;;) {
        b->ranges = mem_one_more(b->ranges, b->n_ranges, &b->n_room, sizeof *b->ranges);
        struct range *r = &b->ranges[b->n_ranges++];
        if (read_range(e, at, r, err) < 0)
            return -1;
        r->before = b->count;
        b->count += (uint64_t)(r->hi - r->lo) + 1;
        if (*(*at)++ == ']')
            return 0;
    }
}

/* ---- one entry ---- */

static size_t literal_at(const char *c)
{
    return strcspn(c, "[],");
}

static int check_literal(const struct entry *e, const char *text, size_t len, struct err *err)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (isalnum(c) || strchr("._-", c))
            continue;
        return complain(err, e,
                        "has a %s; names have only letters, digits, \".\", \"_\" and \"-\", with numbers in "
                        "[brackets] and commas between names",
                        c == ' ' ? "space within" : "character that names cannot have");
    }
    return 0;
}

static int check_start(const struct entry *e, struct err *err)
{
    if (e->len == 0)
        return err_set(err, "has an empty name; is there a comma too many?");
    if (e->text[0] != '[' && !isalnum((unsigned char)e->text[0]))
        return complain(err, e, "must begin with a letter or digit");
    return 0;
}

/* Digits of the number as written. */
static size_t written_length(const struct range *r, int64_t n)
{
    char text[32];
    return (size_t)snprintf(text, sizeof text, "%0*" PRId64, r->width, n);
}

/* The longest name of the entry; its count in e->count (saturating). */
static size_t measure(struct entry *e)
{
    size_t longest = e->tail_len;
    e->count = 1;
    for (size_t i = 0; i < e->n_brackets; i++) {
        const struct bracket *b = &e->brackets[i];
        size_t digits = 0;
        for (size_t k = 0; k < b->n_ranges; k++) {
            size_t n = written_length(&b->ranges[k], b->ranges[k].hi);
            digits = n > digits ? n : digits;
        }
        longest += b->literal_len + digits;
        if (__builtin_mul_overflow(e->count, b->count, &e->count))
            e->count = UINT64_MAX;
    }
    return longest;
}

/* Reads one entry up to its comma or the end; *at is then there. */
static int read_entry(struct entry *e, const char **at, struct err *err)
{
    const char *literal = *at;
    for (;;) {
        size_t n = literal_at(*at);
        *at += n;
        if (**at != '[')
            break;
        if (e->n_brackets == BRACKETS_MAX)
            return complain(err, e, "has more than %d brackets", BRACKETS_MAX);
        e->brackets[e->n_brackets++] = (struct bracket){.literal = literal, .literal_len = n};
        ++*at;
        if (read_bracket(e, at, err) < 0)
            return -1;
        literal = *at;
    }
    if (**at == ']')
        return complain(err, e, "has a \"]\" without a \"[\" before it");
    e->tail = literal;
    e->tail_len = (size_t)(*at - literal);
    while (e->tail_len > 0 && e->tail[e->tail_len - 1] == ' ') /* before the comma or the end */
        e->tail_len--;
    return 0;
}

/* How far the entry goes, for messages: to the comma that is not in brackets. */
static size_t entry_length(const char *text)
{
    size_t n = 0;
    for (bool inside = false; text[n] && (inside || text[n] != ','); n++)
        inside = text[n] == '[' ? true : text[n] == ']' ? false : inside;
    while (n > 0 && text[n - 1] == ' ')
        n--;
    return n;
}

static int check_entry(struct entry *e, struct err *err)
{
    for (size_t i = 0; i < e->n_brackets; i++)
        if (check_literal(e, e->brackets[i].literal, e->brackets[i].literal_len, err) < 0)
            return -1;
    if (check_literal(e, e->tail, e->tail_len, err) < 0)
        return -1;
    size_t longest = measure(e);
    if (longest > HOSTLIST_NAME_MAX)
        return complain(err, e, "is a name of %zu bytes; at most %d are allowed", longest, HOSTLIST_NAME_MAX);
    return 0;
}

/* ---- names ---- */

/* The k-th number of the bracket, as text: of the last range that begins at or before it. */
static void number_text(const struct bracket *b, uint64_t k, char out[32])
{
    size_t low = 0, high = b->n_ranges;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (b->ranges[middle].before <= k)
            low = middle;
        else
            high = middle;
    }
    const struct range *r = &b->ranges[low];
    (void)snprintf(out, 32, "%0*" PRId64, r->width, r->lo + (int64_t)(k - r->before));
}

static char *make_name(const struct entry *e, uint64_t index)
{
    char name[2 * HOSTLIST_NAME_MAX], number[32];
    uint64_t rest = e->count;
    size_t used = 0;
    for (size_t i = 0; i < e->n_brackets; i++) {
        const struct bracket *b = &e->brackets[i];
        rest /= b->count;
        number_text(b, index / rest % b->count, number);
        used += (size_t)snprintf(name + used, sizeof name - used, "%.*s%s", (int)b->literal_len, b->literal,
                                 number);
    }
    (void)snprintf(name + used, sizeof name - used, "%.*s", (int)e->tail_len, e->tail);
    return str_dup(name);
}

static void add_names(const struct entry *e, struct hostlist *out)
{
    out->names = mem_grow(out->names, out->n + e->count, sizeof *out->names);
    for (uint64_t k = 0; k < e->count; k++)
        out->names[out->n++] = make_name(e, k);
}

/* Reads the entry at *at, adds its names, and leaves *at behind it. */
static int expand_entry(const char **at, size_t limit, struct hostlist *out, struct err *err)
{
    *at += strspn(*at, " ");
    struct entry e = {.text = *at, .len = entry_length(*at)};
    int rc = check_start(&e, err) < 0 || read_entry(&e, at, err) < 0 || check_entry(&e, err) < 0 ? -1 : 0;
    if (rc == 0 && e.count > limit - out->n)
        rc = complain(err, &e, "makes it more than %zu names, which is the most allowed here", limit);
    if (rc == 0)
        add_names(&e, out);
    entry_clear(&e);
    return rc;
}

int hostlist_expand(const char *text, size_t limit, struct hostlist *out, struct err *err)
{
    *out = (struct hostlist){0};
    const char *at = text;
    for (;;) {
        if (expand_entry(&at, limit, out, err) < 0) {
            hostlist_clear(out);
            return -1;
        }
        if (*at == '\0')
            return 0;
        at++; /* the comma */
    }
}

void hostlist_clear(struct hostlist *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct hostlist){0};
}

bool hostlist_is_name(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > HOSTLIST_NAME_MAX || !isalnum((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return false;
    return true;
}
