/* jsonx: see jsonx.h. */
#include "common/jsonx.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/mem.h"

int jsonx_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *out, struct err *err)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_integer(v))
        return err_set(err, "\"%s\" must be a whole number", key);
    int64_t n = json_integer_value(v);
    if (n < min || n > max)
        return err_set(err, "\"%s\" is %" PRId64 "; allowed are %" PRId64 " to %" PRId64, key, n, min, max);
    *out = n;
    return 0;
}

int jsonx_str(const json_t *obj, const char *key, const char **out, struct err *err)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_string(v))
        return err_set(err, "\"%s\" must be a string", key);
    *out = json_string_value(v);
    return 0;
}

int jsonx_hex(const json_t *obj, const char *key, uint64_t *out, struct err *err)
{
    const char *text = "";
    if (jsonx_str(obj, key, &text, err) != 0)
        return -1;
    if (strlen(text) != 16 ||
        strspn(text, "0123456789abcdefABCDEF") != 16) /* strtoull takes signs and 0x, too */
        return err_set(err, "\"%s\" must be 16 hexadecimal digits", key);
    *out = strtoull(text, NULL, 16);
    return 0;
}

int jsonx_array(const json_t *obj, const char *key, json_t **out, struct err *err)
{
    json_t *v = json_object_get(obj, key);
    if (!json_is_array(v))
        return err_set(err, "\"%s\" must be an array", key);
    *out = v;
    return 0;
}

int64_t jsonx_int_or(const json_t *obj, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

double jsonx_real_or(const json_t *obj, const char *key, double fallback)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_number(v) ? json_number_value(v) : fallback;
}

bool jsonx_bool_or(const json_t *obj, const char *key, bool fallback)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

const char *jsonx_str_or(const json_t *obj, const char *key, const char *fallback)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_string(v) ? json_string_value(v) : fallback;
}

void jsonx_set(json_t *obj, const char *key, json_t *value)
{
    if (json_object_set_new(obj, key, value) < 0)
        abort(); /* out of memory, or value is not valid UTF-8: see jsonx_set_str */
}

void jsonx_set_str(json_t *obj, const char *key, const char *value_or_null)
{
    json_t *v = value_or_null ? json_string(value_or_null) : json_null();
    jsonx_set(obj, key, v ? v : json_string("(not valid UTF-8)"));
}

void jsonx_set_real(json_t *obj, const char *key, double value)
{
    jsonx_set(obj, key, isfinite(value) ? json_real(value) : json_null());
}

void jsonx_set_hex(json_t *obj, const char *key, uint64_t value)
{
    char hex[17];
    (void)snprintf(hex, sizeof hex, "%016" PRIx64, value);
    jsonx_set_str(obj, key, hex);
}

json_t *jsonx_read_file(const char *path, size_t limit, struct err *err)
{
    size_t len;
    char *text = fs_read(path, limit, &len, err);
    if (!text)
        return NULL;
    json_error_t why;
    json_t *obj = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!obj)
        err_set(err, "%s:%d:%d: not JSON: %s", path, why.line, why.column, why.text);
    free(text);
    return obj;
}

int jsonx_write_file(const char *path, const json_t *obj, struct err *err)
{
    char *text = json_dumps(obj, JSON_INDENT(1));
    if (!text)
        return err_set(err, "cannot write %s: the content is not JSON", path);
    char *line = str_printf("%s\n", text);
    int rc = fs_write_durable(path, line, strlen(line), 0600, err);
    free(text);
    free(line);
    return rc;
}
