/* objects_keys: see objects_keys.h. */
#include "checkpoint/objects_keys.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/mem.h"

#define FILE_MAX (1u << 20)

/* A value goes into headers: printable, without blanks. False when it does not fit or is none. */
static bool take(char *out, size_t size, const char *value, size_t len)
{
    if (len >= size)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isgraph((unsigned char)value[i]))
            return false;
    memcpy(out, value, len);
    out[len] = 0;
    return true;
}

void objects_keys_clear(struct objects_keys *keys)
{
    explicit_bzero(keys, sizeof *keys);
}

/* ---- a file ---- */

struct line {
    const char *name, *value;
    size_t name_len, value_len;
    bool section; /* name is that of a section */
};

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && isspace((unsigned char)**text)) {
        ++*text;
        --*len;
    }
    while (*len > 0 && isspace((unsigned char)(*text)[*len - 1]))
        --*len;
}

/* "[name]" or "name = value"; false for comments, empty lines and what belongs to the line before. */
static bool read_line(const char *text, size_t len, struct line *out)
{
    *out = (struct line){.section = false};
    if (len == 0 || isspace((unsigned char)*text) || *text == '#' || *text == ';')
        return false;
    trim(&text, &len);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        *out = (struct line){.name = text + 1, .name_len = len - 2, .section = true};
        trim(&out->name, &out->name_len);
        return true;
    }
    const char *equals = memchr(text, '=', len);
    if (!equals)
        return false;
    out->name = text;
    out->name_len = (size_t)(equals - text);
    out->value = equals + 1;
    out->value_len = len - out->name_len - 1;
    trim(&out->name, &out->name_len);
    trim(&out->value, &out->value_len);
    return true;
}

static bool is_named(const struct line *l, const char *name)
{
    return l->name_len == strlen(name) && memcmp(l->name, name, l->name_len) == 0;
}

/* A setting of the profile. False when it is a key that cannot be one. */
static bool take_setting(const struct line *l, struct objects_keys *out)
{
    if (is_named(l, "aws_access_key_id"))
        return take(out->id, sizeof out->id, l->value, l->value_len);
    if (is_named(l, "aws_secret_access_key"))
        return take(out->secret, sizeof out->secret, l->value, l->value_len);
    if (is_named(l, "aws_session_token"))
        return take(out->token, sizeof out->token, l->value, l->value_len);
    return true;
}

int objects_keys_parse(const char *text, const char *file, const char *profile, struct objects_keys *out,
                       struct err *err)
{
    bool inside = false, found = false;
    struct line l;
    *out = (struct objects_keys){.id = ""};
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        if (!read_line(text, len, &l))
            continue;
        if (l.section)
            found |= inside = is_named(&l, profile);
        else if (inside && !take_setting(&l, out))
            return err_set(err, "%s: a key of the profile %s is too long, or has blanks in it", file,
                           profile);
    }
    if (!found)
        return err_set(err, "%s has no profile [%s]", file, profile);
    if (!*out->id || !*out->secret)
        return err_set(err, "%s: the profile %s lacks aws_access_key_id or aws_secret_access_key", file,
                       profile);
    return 0;
}

static char *file_name(void)
{
    const char *named = getenv("AWS_SHARED_CREDENTIALS_FILE"), *home = getenv("HOME");
    if (named && *named)
        return str_dup(named);
    return home && *home ? str_printf("%s/.aws/credentials", home) : NULL;
}

static int load_file(struct objects_keys *out, struct err *err)
{
    const char *profile = getenv("AWS_PROFILE");
    struct err why = {"there is no home folder"};
    char *file = file_name(), *text = file ? fs_read(file, FILE_MAX, NULL, &why) : NULL;
    int rc = -1;
    if (text)
        rc = objects_keys_parse(text, file, profile && *profile ? profile : "default", out, err);
    else
        err_set(err,
                "there are no keys for object storage: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not "
                "set (a job passes them by env), and %s",
                why.text);
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    free(file);
    return rc;
}

/* ---- the environment ---- */

static int load_environment(const char *id, const char *secret, struct objects_keys *out, struct err *err)
{
    const char *token = getenv("AWS_SESSION_TOKEN");
    token = token ? token : "";
    if (take(out->id, sizeof out->id, id, strlen(id)) &&
        take(out->secret, sizeof out->secret, secret, strlen(secret)) &&
        take(out->token, sizeof out->token, token, strlen(token)))
        return 0;
    return err_set(err, "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_SESSION_TOKEN is too long, or has "
                        "blanks in it");
}

int objects_keys_load(struct objects_keys *out, struct err *err)
{
    const char *id = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY");
    bool have_id = id && *id, have_secret = secret && *secret;
    *out = (struct objects_keys){.id = ""};
    if (have_id != have_secret)
        return err_set(err, "%s is set, but %s is not: set both, or neither",
                       have_id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                       have_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    return have_id ? load_environment(id, secret, out, err) : load_file(out, err);
}
