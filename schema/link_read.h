/* link_read: the checked reading that all link decoders share. Used only inside schema/.
 *
 * A reader looks at one JSON object and remembers the first thing that was wrong with it; after that every further call
 * returns a harmless zero value, so that a decoder reads straight through and asks once at the end. */
#ifndef BELAY_SCHEMA_LINK_READ_H
#define BELAY_SCHEMA_LINK_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct link_reader {
    const json_t *obj;
    const char *what; /* e.g. "order": begins every sentence */
    struct err *err;
    bool failed;
};

/* Fails when obj is not an object. */
struct link_reader link_reader_new(const json_t *obj, const char *what, struct err *err);
/* A reader for an element of an array: the failure is carried back by link_reader_join. */
struct link_reader link_reader_child(const struct link_reader *parent, const json_t *obj, const char *what);
void link_reader_join(struct link_reader *parent, const struct link_reader *child);

/* Notes the failure "what: sentence" unless there is one already. */
void link_fail(struct link_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Whole number within min..max. The _or form takes absent or null for fallback; a wrong type still fails. */
int64_t link_int(struct link_reader *r, const char *key, int64_t min, int64_t max);
int64_t link_int_or(struct link_reader *r, const char *key, int64_t min, int64_t max, int64_t fallback);
bool link_bool_or(struct link_reader *r, const char *key, bool fallback);

/* String of at most max bytes, without NUL bytes, as a fresh copy (NULL only after a failure). */
char *link_text(struct link_reader *r, const char *key, size_t max);
/* The same, "" when absent or null. */
char *link_text_or_empty(struct link_reader *r, const char *key, size_t max);
/* Into a buffer of `size` bytes: at most size - 1 bytes of text. Absent or null gives "" when `required` is false. */
void link_text_into(struct link_reader *r, const char *key, char *out, size_t size, bool required);
/* Checks an element that is not under a key; borrowed, NULL after a failure. */
const char *link_element_text(struct link_reader *r, const char *key, const json_t *value, size_t max);

/* A required array of min..max elements (borrowed; NULL after a failure). link_array_or: absent or null gives NULL. */
json_t *link_array(struct link_reader *r, const char *key, size_t min, size_t max);
json_t *link_array_or(struct link_reader *r, const char *key, size_t max);
json_t *link_object_or(struct link_reader *r, const char *key, size_t max);

/* A string for sending. JSON carries only UTF-8: a text that is not (a message cut within a letter, say) is sent with '?'
 * for the bytes that are wrong, rather than not at all. NULL gives null. */
json_t *link_json_text(const char *text);

#endif
