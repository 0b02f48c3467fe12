/* link_read: see link_read.h. Nothing here allocates before the size of what it copies has been checked. */
#include "schema/link_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/utf8.h"

struct link_reader link_reader_new(const json_t *obj, const char *what, struct err *err)
{
    struct link_reader r = {.obj = obj, .what = what, .err = err};
    if (!json_is_object(obj))
        link_fail(&r, "not a JSON object");
    return r;
}

struct link_reader link_reader_child(const struct link_reader *parent, const json_t *obj, const char *what)
{
    struct link_reader r = {.obj = obj, .what = what, .err = parent->err, .failed = parent->failed};
    if (!json_is_object(obj))
        link_fail(&r, "not a JSON object");
    return r;
}

void link_reader_join(struct link_reader *parent, const struct link_reader *child)
{
    parent->failed |= child->failed;
}

void link_fail(struct link_reader *r, const char *fmt, ...)
{
    if (r->failed)
        return;
    r->failed = true;
    char text[512];
    va_list args;
    va_start(args, fmt);
    int written = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)err_set(r->err, "%s: %s", r->what, written < 0 ? "wrong" : text);
}

/* The value under key, or NULL when it is absent, null or something has failed already. */
static json_t *get(const struct link_reader *r, const char *key)
{
    json_t *value = r->failed ? NULL : json_object_get(r->obj, key);
    return json_is_null(value) ? NULL : value;
}

static json_t *get_required(struct link_reader *r, const char *key)
{
    json_t *value = get(r, key);
    if (!value)
        link_fail(r, "\"%s\" is missing", key);
    return value;
}

static int64_t checked_int(struct link_reader *r, const char *key, const json_t *value, int64_t min,
                           int64_t max)
{
    if (!json_is_integer(value)) {
        link_fail(r, "\"%s\" is not a whole number", key);
        return 0;
    }
    int64_t n = json_integer_value(value);
    if (n < min || n > max) {
        link_fail(r, "\"%s\" is %" PRId64 ", allowed is %" PRId64 " to %" PRId64, key, n, min, max);
        return 0;
    }
    return n;
}

int64_t link_int(struct link_reader *r, const char *key, int64_t min, int64_t max)
{
    const json_t *value = get_required(r, key);
    return value ? checked_int(r, key, value, min, max) : 0;
}

int64_t link_int_or(struct link_reader *r, const char *key, int64_t min, int64_t max, int64_t fallback)
{
    const json_t *value = get(r, key);
    return value ? checked_int(r, key, value, min, max) : fallback;
}

bool link_bool_or(struct link_reader *r, const char *key, bool fallback)
{
    const json_t *value = get(r, key);
    if (!value)
        return fallback;
    if (!json_is_boolean(value))
        link_fail(r, "\"%s\" is not true or false", key);
    return json_is_true(value);
}

const char *link_element_text(struct link_reader *r, const char *key, const json_t *value, size_t max)
{
    if (r->failed)
        return NULL;
    if (!json_is_string(value)) {
        link_fail(r, "\"%s\" is not a string", key);
        return NULL;
    }
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    if (len > max)
        link_fail(r, "\"%s\" has %zu bytes, at most %zu are allowed", key, len, max);
    else if (strlen(text) != len)
        link_fail(r, "\"%s\" holds a NUL byte", key);
    return r->failed ? NULL : text;
}

char *link_text(struct link_reader *r, const char *key, size_t max)
{
    const json_t *value = get_required(r, key);
    return value ? str_dup(link_element_text(r, key, value, max)) : NULL;
}

char *link_text_or_empty(struct link_reader *r, const char *key, size_t max)
{
    const json_t *value = get(r, key);
    if (!value)
        return r->failed ? NULL : str_dup("");
    return str_dup(link_element_text(r, key, value, max));
}

void link_text_into(struct link_reader *r, const char *key, char *out, size_t size, bool required)
{
    const json_t *value = required ? get_required(r, key) : get(r, key);
    const char *text = value ? link_element_text(r, key, value, size - 1) : NULL;
    out[0] = '\0';
    if (text)
        memcpy(out, text, strlen(text) + 1);
}

json_t *link_array(struct link_reader *r, const char *key, size_t min, size_t max)
{
    json_t *value = get_required(r, key);
    if (value && !json_is_array(value))
        link_fail(r, "\"%s\" is not an array", key);
    else if (value && (json_array_size(value) < min || json_array_size(value) > max))
        link_fail(r, "\"%s\" has %zu elements, allowed is %zu to %zu", key, json_array_size(value), min, max);
    return r->failed ? NULL : value;
}

json_t *link_array_or(struct link_reader *r, const char *key, size_t max)
{
    return get(r, key) ? link_array(r, key, 0, max) : NULL;
}

json_t *link_object_or(struct link_reader *r, const char *key, size_t max)
{
    json_t *value = get(r, key);
    if (value && !json_is_object(value))
        link_fail(r, "\"%s\" is not an object", key);
    else if (value && json_object_size(value) > max)
        link_fail(r, "\"%s\" has %zu keys, at most %zu are allowed", key, json_object_size(value), max);
    return r->failed ? NULL : value;
}

static json_t *or_abort(json_t *value)
{
    if (!value)
        abort(); /* only for want of memory */
    return value;
}

json_t *link_json_text(const char *text)
{
    if (!text)
        return json_null();
    json_t *value = json_string(text);
    if (value)
        return value;
    char *clean = str_dup(text);
    utf8_clean(clean);
    value = or_abort(json_string(clean));
    free(clean);
    return value;
}
