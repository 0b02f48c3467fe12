/* record: see record.h. The strings stay where jansson has put them. */
#include "runtime/data/record.h"

#include <string.h>

static bool blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n", line[i]) || line[i] == '\0')
            return false;
    return true;
}

static int get_string(const json_t *obj, const char *key, const char **text, size_t *len, struct err *err)
{
    const json_t *value = json_object_get(obj, key);
    if (!value)
        return err_set(err, "has no member \"%s\"", key);
    if (!json_is_string(value))
        return err_set(err, "has a member \"%s\" that is no string", key);
    *text = json_string_value(value);
    *len = json_string_length(value);
    return 0;
}

static int find_text(struct record *r, const char *field, struct err *err)
{
    if (field)
        return get_string(r->owner, field, &r->text, &r->text_len, err);
    if (json_object_get(r->owner, "text"))
        return get_string(r->owner, "text", &r->text, &r->text_len, err);
    if (!json_object_get(r->owner, "prompt") || !json_object_get(r->owner, "completion"))
        return err_set(err, "has neither \"text\" nor \"prompt\" and \"completion\"");
    if (get_string(r->owner, "prompt", &r->prompt, &r->prompt_len, err) != 0)
        return -1;
    return get_string(r->owner, "completion", &r->text, &r->text_len, err);
}

int record_parse(const char *line, size_t len, const char *field, struct record *out, struct err *err)
{
    json_error_t why;
    *out = (struct record){.empty = blank(line, len)};
    if (out->empty)
        return 0;
    if (len > RECORD_LINE_MAX)
        return err_set(err, "is longer than %u MiB; is this JSONL, one object a line?",
                       RECORD_LINE_MAX >> 20);
    /* numbers are not looked at: one of more than 63 bits, a hash beside the text, say, may be anything */
    out->owner = json_loadb(line, len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    if (!out->owner)
        return err_set(err, "is not JSON: %s (column %d)", why.text, why.column);
    int rc = json_is_object(out->owner) ? find_text(out, field, err) : err_set(err, "is not a JSON object");
    if (rc != 0)
        record_clear(out);
    return rc;
}

void record_clear(struct record *r)
{
    json_decref(r->owner);
    *r = (struct record){.empty = true};
}
