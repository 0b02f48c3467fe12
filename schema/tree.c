/* tree: libyaml's events become nodes. Before libyaml sees a byte the text is checked for size, NUL bytes, UTF-8 and control
 * characters, so that each of these has a place and a sentence of its own.
 *
 * The first thing that makes the rest doubtful ends the reading; a key that is there twice does not (the first one counts). */
#include "schema/tree.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/mem.h"
#include "schema/utf8.h"

#define DEPTH_MAX 16
#define NODES_MAX 20000
#define KEYS_MAX  1000 /* in one mapping; also keeps the search for doubles cheap */

struct builder {
    yaml_parser_t parser;
    const char *text;
    size_t len;
    const char *set;
    struct diag *diag;
    size_t nodes, depth;
};

struct tree_node *tree_node_new(enum tree_kind kind, struct mark at, const char *text)
{
    struct tree_node *node = mem_zero(1, sizeof *node);
    node->kind = kind;
    node->at = at;
    node->text = str_dup(text);
    return node;
}

void tree_append(struct tree_node *node, struct tree_node *item)
{
    if ((node->n_items & (node->n_items + 1)) == 0) /* grows at 0, 1, 3, 7, … */
        node->items = mem_grow(node->items, 2 * node->n_items + 1, sizeof(void *));
    node->items[node->n_items++] = item;
}

void tree_free(struct tree_node *node) /* NOLINT(misc-no-recursion): depth is limited */
{
    if (!node)
        return;
    for (size_t i = 0; i < node->n_items; i++)
        tree_free(node->items[i]);
    free(node->items);
    free(node->text);
    free(node);
}

size_t tree_find(const struct tree_node *mapping, const char *key)
{
    for (size_t i = 0; i + 1 < mapping->n_items; i += 2)
        if (strcmp(mapping->items[i]->text, key) == 0)
            return i + 1;
    return 0;
}

bool tree_is_empty(const struct tree_node *node)
{
    return node->kind == TREE_SCALAR && node->plain && node->text[0] == '\0';
}

/* ---- the bytes ---- */

static struct mark mark_of_offset(const struct builder *b, size_t offset)
{
    struct mark at = {1, 1, b->set};
    for (size_t i = 0; i < offset && i < b->len; i++) {
        if (b->text[i] == '\n') {
            at.line++;
            at.column = 1;
        } else if (((unsigned char)b->text[i] & 0xc0) != 0x80) {
            at.column++;
        }
    }
    return at;
}

static int check_size(struct builder *b)
{
    if (b->len > JOB_FILE_MAX) {
        diag_add(b->diag, mark_of_offset(b, 0), "the file has %zu bytes; a %s file has at most %u (1 MiB)",
                 b->len, diag_kind(b->diag), JOB_FILE_MAX);
        return -1;
    }
    return 0;
}

static int is_control(const char *c, size_t n)
{
    unsigned char first = (unsigned char)c[0];
    if (n == 1)
        return (first < 0x20 && first != '\t' && first != '\n' && first != '\r') || first == 0x7f;
    unsigned char second = (unsigned char)c[1];
    return (n == 2 && first == 0xc2 && second < 0xa0 && second != 0x85) ||
           (n == 3 && first == 0xef && second == 0xbf && (unsigned char)c[2] >= 0xbe); /* U+FFFE, U+FFFF */
}

static int check_bytes(struct builder *b)
{
    for (size_t at = 0; at < b->len;) {
        size_t n = utf8_length(b->text + at, b->len - at);
        unsigned byte = (unsigned char)b->text[at];
        if (n > 0 && !is_control(b->text + at, n)) {
            at += n;
            continue;
        }
        if (byte == 0)
            diag_add(b->diag, mark_of_offset(b, at), "NUL byte; a %s file is text, is this another file?",
                     diag_kind(b->diag));
        else if (n == 0)
            diag_add(b->diag, mark_of_offset(b, at), "byte 0x%02x is not UTF-8; save the file as UTF-8",
                     byte);
        else
            diag_add(b->diag, mark_of_offset(b, at),
                     "control character 0x%02x; remove it, or write it as \"\\xNN\" within double quotes",
                     byte);
        return -1;
    }
    return 0;
}

/* ---- what libyaml reports ---- */

static struct mark mark_of(const struct builder *b, yaml_mark_t at)
{
    struct mark mark = {at.line + 1, at.column + 1, b->set};
    return mark;
}

/* Where the first tab within the indentation of a line is, counted from 0; SIZE_MAX when there is none. */
static size_t tab_in_indentation(const struct builder *b, size_t line)
{
    size_t at = 0;
    for (; line > 0 && at < b->len; at++)
        line -= b->text[at] == '\n';
    for (size_t start = at; at < b->len && (b->text[at] == ' ' || b->text[at] == '\t'); at++)
        if (b->text[at] == '\t')
            return at - start;
    return SIZE_MAX;
}

static size_t offset_of_mark(const struct builder *b, yaml_mark_t at)
{
    size_t i = 0;
    for (size_t line = 0; line < at.line && i < b->len; i++)
        line += b->text[i] == '\n';
    for (size_t column = 0; column < at.column && i < b->len; column++)
        do
            i++;
        while (i < b->len && ((unsigned char)b->text[i] & 0xc0) == 0x80);
    return i;
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

/* Within {…} and […] a plain word ends before a bracket, so r[1-2] must be quoted. Returns true, and that word, when the bracket is what
 * libyaml stumbled over. */
static bool bracket_word(const struct builder *b, yaml_mark_t at, char word[DIAG_QUOTE_SIZE])
{
    size_t bracket = offset_of_mark(b, at), begin = bracket, end = bracket;
    bool within = false, closed = false;
    if (bracket >= b->len || b->text[bracket] != '[')
        return false;
    while (begin > 0 && is_name_byte(b->text[begin - 1]))
        begin--;
    for (; end < b->len && b->text[end] && (is_name_byte(b->text[end]) || strchr("[],", b->text[end]));
         end++) {
        if (!within && strchr("],", b->text[end]))
            break;
        within = b->text[end] == '[' || (within && b->text[end] != ']');
        closed |= b->text[end] == ']';
    }
    (void)snprintf(word, DIAG_QUOTE_SIZE, "%.*s", (int)(end - begin), b->text + begin);
    return closed && begin < bracket;
}

static void report_syntax(struct builder *b, struct mark at)
{
    const yaml_parser_t *p = &b->parser;
    char word[DIAG_QUOTE_SIZE], quoted[DIAG_QUOTE_SIZE];
    const char *problem = p->problem ? p->problem : "out of memory";
    if (p->context && bracket_word(b, p->problem_mark, word))
        diag_add(b->diag, at,
                 "brackets within {…} or […] begin a list; put the name in quotes: %s (not YAML: %s)",
                 diag_quote(quoted, word), problem);
    else if (p->context &&
             (strstr(p->context, "scanning an alias") || strstr(p->context, "scanning an anchor")))
        diag_add(b->diag, mark_of(b, p->context_mark),
                 "a text that begins with * or & must be in quotes (not YAML: %s)", problem);
    else if (p->context)
        diag_add(b->diag, at, "not YAML: %s, %s that begins in line %zu", problem, p->context,
                 p->context_mark.line + 1);
    else
        diag_add(b->diag, at, "not YAML: %s", problem);
}

static void report_problem(struct builder *b)
{
    const yaml_parser_t *p = &b->parser;
    if (p->error == YAML_READER_ERROR) {
        diag_add(b->diag, mark_of_offset(b, p->problem_offset), "cannot be read: %s", p->problem);
        return;
    }
    struct mark at = mark_of(b, p->problem_mark);
    size_t tab = tab_in_indentation(b, p->problem_mark.line);
    if (tab != SIZE_MAX) {
        at.column = tab + 1;
        diag_add(b->diag, at,
                 "tab in the indentation; YAML allows only spaces there, so replace each tab by spaces");
        return;
    }
    report_syntax(b, at);
}

static int next_event(struct builder *b, yaml_event_t *event)
{
    if (yaml_parser_parse(&b->parser, event))
        return 0;
    report_problem(b);
    return -1;
}

/* ---- nodes ---- */

static struct tree_node *build(struct builder *b, const yaml_event_t *event);

static int refuse(struct builder *b, const yaml_event_t *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(struct builder *b, const yaml_event_t *event, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    diag_add(b->diag, mark_of(b, event->start_mark), "%s", what);
    return -1;
}

static int check_decorations(struct builder *b, const yaml_event_t *event, const yaml_char_t *anchor,
                             const yaml_char_t *tag)
{
    if (anchor)
        return refuse(b, event,
                      "anchors (&name) are not allowed in a %s file; write the value out where it is used",
                      diag_kind(b->diag));
    if (tag)
        return refuse(b, event, "tags (!name) are not allowed in a %s file; leave the tag away",
                      diag_kind(b->diag));
    if (++b->nodes > NODES_MAX)
        return refuse(b, event, "more than 20000 values; a %s file is never that large", diag_kind(b->diag));
    return 0;
}

static struct tree_node *build_scalar(struct builder *b, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (check_decorations(b, event, event->data.scalar.anchor, event->data.scalar.tag) < 0)
        return NULL;
    if (strlen(text) != event->data.scalar.length) {
        (void)refuse(b, event,
                     "this text holds a NUL byte (\\0), which no file name, argument or variable can");
        return NULL;
    }
    struct tree_node *node = tree_node_new(TREE_SCALAR, mark_of(b, event->start_mark), text);
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return node;
}

static int check_key(struct builder *b, const struct tree_node *mapping, const struct tree_node *key)
{
    if (key->kind != TREE_SCALAR) {
        diag_add(b->diag, key->at, "a key must be a word, not a list or mapping");
        return -1;
    }
    if (key->plain && strcmp(key->text, "<<") == 0) {
        diag_add(b->diag, key->at, "merge keys (<<) are not allowed in a %s file; write the fields out",
                 diag_kind(b->diag));
        return -1;
    }
    if (mapping->n_items >= 2 * KEYS_MAX) {
        diag_add(b->diag, key->at, "more than %d keys in one mapping", KEYS_MAX);
        return -1;
    }
    return 0;
}

/* Takes both nodes. */
static void add_pair(struct builder *b, struct tree_node *mapping, struct tree_node *key,
                     struct tree_node *value)
{
    size_t first = tree_find(mapping, key->text);
    if (!first) {
        tree_append(mapping, key);
        tree_append(mapping, value);
        return;
    }
    char quoted[DIAG_QUOTE_SIZE];
    const struct mark *at = &mapping->items[first - 1]->at;
    diag_add(b->diag, key->at, "%s is given twice; it is already in line %zu, column %zu",
             diag_quote(quoted, key->text), at->line, at->column);
    tree_free(key);
    tree_free(value);
}

/* The node that begins with the next event, or NULL at the end of the collection (*end) or after an error. */
static struct tree_node *build_next(struct builder *b, yaml_event_type_t last, bool *end)
{
    yaml_event_t event;
    *end = false;
    if (next_event(b, &event) < 0)
        return NULL;
    struct tree_node *node = NULL;
    if (event.type == last)
        *end = true;
    else
        node = build(b, &event);
    yaml_event_delete(&event);
    return node;
}

static int build_pair(struct builder *b, struct tree_node *mapping, bool *end)
{
    struct tree_node *key = build_next(b, YAML_MAPPING_END_EVENT, end);
    if (!key)
        return *end ? 0 : -1;
    bool no_value = false;
    struct tree_node *value = check_key(b, mapping, key) < 0 ? NULL : build_next(b, YAML_NO_EVENT, &no_value);
    if (!value) {
        tree_free(key);
        return -1;
    }
    add_pair(b, mapping, key, value);
    return 0;
}

static int build_element(struct builder *b, struct tree_node *sequence, bool *end)
{
    struct tree_node *item = build_next(b, YAML_SEQUENCE_END_EVENT, end);
    if (item)
        tree_append(sequence, item);
    return item || *end ? 0 : -1;
}

static struct tree_node *build_collection(struct builder *b, const yaml_event_t *event, enum tree_kind kind)
{
    bool mapping = kind == TREE_MAPPING;
    const yaml_char_t *anchor =
        mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    const yaml_char_t *tag = mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    if (check_decorations(b, event, anchor, tag) < 0)
        return NULL;
    if (b->depth == DEPTH_MAX) {
        (void)refuse(b, event, "nested more than 16 deep; a %s file never is", diag_kind(b->diag));
        return NULL;
    }
    struct tree_node *node = tree_node_new(kind, mark_of(b, event->start_mark), NULL);
    bool end = false;
    int rc = 0;
    b->depth++;
    while (rc == 0 && !end)
        rc = mapping ? build_pair(b, node, &end) : build_element(b, node, &end);
    b->depth--;
    if (rc < 0) {
        tree_free(node);
        return NULL;
    }
    return node;
}

static struct tree_node *build(struct builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return build_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return build_collection(b, event, TREE_SEQUENCE);
    case YAML_MAPPING_START_EVENT:
        return build_collection(b, event, TREE_MAPPING);
    case YAML_ALIAS_EVENT:
        (void)refuse(b, event,
                     "aliases (*name) are not allowed in a %s file; write the value out, or, where it is a "
                     "text, in quotes",
                     diag_kind(b->diag));
        return NULL;
    default:
        (void)refuse(b, event, "unexpected end of the document");
        return NULL;
    }
}

/* Passes the stream and document starts. False when there is no document. */
static int begin_document(struct builder *b)
{
    for (;;) {
        yaml_event_t event;
        if (next_event(b, &event) < 0)
            return -1;
        yaml_event_type_t type = event.type;
        struct mark at = mark_of(b, event.start_mark);
        yaml_event_delete(&event);
        if (type == YAML_DOCUMENT_START_EVENT)
            return 0;
        if (type == YAML_STREAM_END_EVENT) {
            const char *kind = diag_kind(b->diag);
            diag_add(b->diag, at, "the file is empty; a %s file begins with  name: my-%s", kind, kind);
            return -1;
        }
    }
}

/* Nothing but the end may follow the document. */
static int end_document(struct builder *b)
{
    for (;;) {
        yaml_event_t event;
        if (next_event(b, &event) < 0)
            return -1;
        yaml_event_type_t type = event.type;
        int rc = type == YAML_DOCUMENT_START_EVENT
                     ? refuse(b, &event, "a second document begins here (---); one file holds one %s",
                              diag_kind(b->diag))
                     : 0;
        yaml_event_delete(&event);
        if (rc < 0 || type == YAML_STREAM_END_EVENT)
            return rc;
    }
}

static struct tree_node *build_document(struct builder *b)
{
    bool end = false;
    struct tree_node *root = begin_document(b) < 0 ? NULL : build_next(b, YAML_NO_EVENT, &end);
    if (root && end_document(b) < 0) {
        tree_free(root);
        root = NULL;
    }
    return root;
}

/* --set name= is an empty value, not an empty file. */
static struct tree_node *empty_value(const struct builder *b)
{
    struct tree_node *node = tree_node_new(TREE_SCALAR, mark_of_offset(b, 0), "");
    node->plain = true;
    return node;
}

struct tree_node *tree_parse(const char *text, size_t len, const char *set, struct diag *d)
{
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark; would shift the columns */
        text += 3;
        len -= 3;
    }
    struct builder b = {.text = text, .len = len, .set = set, .diag = d};
    if (check_size(&b) < 0 || check_bytes(&b) < 0)
        return NULL;
    if (set && strspn(text, " ") >= len)
        return empty_value(&b);
    if (!yaml_parser_initialize(&b.parser))
        abort(); /* only for want of memory */
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, len);
    struct tree_node *root = build_document(&b);
    yaml_parser_delete(&b.parser);
    return root;
}
