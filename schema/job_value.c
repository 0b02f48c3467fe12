/* job_value: see job_value.h. A reader for each type, chosen by the row; quotes are judged by what other readers of YAML would make of the
 * word, so that a file means the same to all of them. */
#include "schema/job_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/diag.h"
#include "schema/scalar.h"
#include "schema/suggest.h"

/* ---- one word ---- */

static int set_name(char *out, const char *text, struct err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    static const char rule[] =
        "must be 1 to 63 letters, digits, \".\", \"_\" and \"-\", the first a letter or digit";
    char quoted[DIAG_QUOTE_SIZE], culprit[DIAG_QUOTE_SIZE];
    size_t len = strlen(text), fine = strspn(text, allowed);
    (void)diag_quote(quoted, text);
    if (len > JOB_NAME_MAX)
        return err_set(err, "%s, not %s (%zu bytes)", rule, quoted, len);
    if (fine < len) {
        char bad[5] = {0};
        (void)snprintf(bad, sizeof bad, "%.*s", ((unsigned char)text[fine] & 0x80) ? 4 : 1, text + fine);
        return err_set(err, "%s, not %s (%s is not allowed)", rule, quoted,
                       text[fine] == ' ' ? "a space" : diag_quote(culprit, bad));
    }
    if (len == 0 || strchr("._-", text[0]))
        return err_set(err, "%s, not %s", rule, quoted);
    memcpy(out, text, len + 1);
    return 0;
}

int job_value_text(char **out, const char *text, struct err *err)
{
    size_t len = strlen(text);
    if (len == 0)
        return err_set(err, "must not be empty");
    if (len > JOB_TEXT_MAX)
        return err_set(err, "must have at most %d bytes, this has %zu", JOB_TEXT_MAX, len);
    free(*out);
    *out = str_dup(text);
    return 0;
}

static void list_words(const struct job_field *f, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < f->n_words && used < size; i++) {
        const char *between = i == 0 ? "" : i + 1 == f->n_words ? " or " : ", ";
        int n = snprintf(out + used, size - used, "%s%s", between, f->words[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* The index of a word, or -1 with a sentence that names the nearest one. */
int job_value_index(const struct job_field *f, const char *text, struct err *err)
{
    for (size_t i = 0; i < f->n_words; i++)
        if (strcmp(f->words[i], text) == 0)
            return (int)i;
    char quoted[DIAG_QUOTE_SIZE], list[256];
    const char *nearest = suggest_nearest(text, f->words, f->n_words);
    list_words(f, list, sizeof list);
    return err_set(err, "must be %s, not %s%s%s%s", list, diag_quote(quoted, text),
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static int set_enum(void *out, const struct job_field *f, const char *text, struct err *err)
{
    int index = job_value_index(f, text, err);
    if (index >= 0)
        memcpy(out, &index, sizeof index); /* every enum of the spec has the size of an int */
    return index < 0 ? -1 : 0;
}

static int set_preset(char *out, const struct job_field *f, const char *text, struct err *err)
{
    int index = job_value_index(f, text, err);
    if (index >= 0)
        (void)snprintf(out, sizeof((struct job_model *)0)->preset, "%s", f->words[index]);
    return index < 0 ? -1 : 0;
}

static int set_resume(int64_t *out, const struct job_field *f, const char *text, struct err *err)
{
    if (strcmp(text, "auto") == 0)
        *out = JOB_RESUME_AUTO;
    else if (strcmp(text, "never") == 0)
        *out = JOB_RESUME_NEVER;
    else if (scalar_int(text, f->min, f->max, out, NULL) < 0) {
        char quoted[DIAG_QUOTE_SIZE];
        return err_set(err, "must be auto, never or a step from %" PRId64 " to %" PRId64 ", not %s", f->min,
                       f->max, diag_quote(quoted, text));
    }
    return 0;
}

static int set_every(int64_t *out, const struct job_field *f, const char *text, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    *out = JOB_EVERY_AUTO;
    if (strcmp(text, "auto") == 0 || scalar_int(text, f->min, f->max, out, NULL) == 0)
        return 0;
    return err_set(err, "must be auto or a number of steps from %" PRId64 " to %" PRId64 ", not %s", f->min,
                   f->max, diag_quote(quoted, text));
}

static int set_spares(int64_t *out, const struct job_field *f, const char *text, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    *out = JOB_SPARES_AUTO;
    if (strcmp(text, "auto") == 0 || scalar_int(text, f->min, f->max, out, NULL) == 0)
        return 0;
    return err_set(err, "must be auto or a number of nodes from %" PRId64 " to %" PRId64 ", not %s", f->min,
                   f->max, diag_quote(quoted, text));
}

/* LOW..HIGH; dots: where the dots are. */
static int set_low_high(int64_t *low, int64_t *high, const struct job_field *f, const char *text,
                        const char *dots, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE], first[32] = "";
    size_t len = (size_t)(dots - text);
    (void)snprintf(first, sizeof first, "%.*s", len < sizeof first ? (int)len : 0, text);
    if (scalar_int(first, f->min, f->max, low, NULL) == 0 &&
        scalar_int(dots + 2, f->min, f->max, high, NULL) == 0 && *low <= *high)
        return 0;
    return err_set(err,
                   "must be a whole number or a range LOW..HIGH, such as 2..8, from %" PRId64 " to %" PRId64
                   ", not %s",
                   f->min, f->max, diag_quote(quoted, text));
}

static int set_range(struct job_spec *spec, const struct job_field *f, const char *text, struct err *err)
{
    const char *dots = strstr(text, "..");
    if (dots && set_low_high(&spec->dp_min, &spec->dp_max, f, text, dots, err) < 0)
        return -1;
    if (!dots && scalar_int(text, f->min, f->max, &spec->dp_max, err) < 0)
        return -1;
    spec->dp_min = dots ? spec->dp_min : spec->dp_max;
    spec->dp = spec->dp_max;
    return 0;
}

int job_value_word(struct job_spec *spec, const struct job_field *f, const char *text, struct err *err)
{
    void *out = (char *)spec + f->at;
    switch (f->type) {
    case FIELD_NAME:
        return set_name(out, text, err);
    case FIELD_TEXT:
        return job_value_text(out, text, err);
    case FIELD_INT:
        return scalar_int(text, f->min, f->max, out, err);
    case FIELD_REAL:
        return scalar_real(text, f->low, f->high, out, err);
    case FIELD_BOOL:
        return scalar_bool(text, out, err);
    case FIELD_SIZE:
        return scalar_size(text, f->min, f->max, out, err);
    case FIELD_DURATION:
        return scalar_duration(text, f->min, f->max, out, err);
    case FIELD_ENUM:
        return set_enum(out, f, text, err);
    case FIELD_PRESET:
        return set_preset(out, f, text, err);
    case FIELD_EVERY:
        return set_every(out, f, text, err);
    case FIELD_RESUME:
        return set_resume(out, f, text, err);
    case FIELD_SPARES:
        return set_spares(out, f, text, err);
    case FIELD_RANGE:
        return set_range(spec, f, text, err);
    default:
        return err_set(err, "must not be a single word");
    }
}

/* ---- quotes: where they are needed, and where they are wrong ---- */

int job_value_is_text(const struct tree_node *node, bool numbers, struct err *err)
{
    enum scalar_class class = node->plain ? scalar_classify(node->text) : SCALAR_TEXT;
    static const char *const names[] = {[SCALAR_NULL] = "nothing",
                                        [SCALAR_BOOL] = "a boolean",
                                        [SCALAR_NUMBER] = "a number",
                                        [SCALAR_ODD_NUMBER] = "a number"};
    if (class == SCALAR_TEXT || (class == SCALAR_NUMBER && numbers))
        return 0;
    if (node->text[0] == '\0')
        return err_set(err, "must not be empty");
    char quoted[DIAG_QUOTE_SIZE];
    (void)diag_quote(quoted, node->text);
    return err_set(err, "%s without quotes is read as %s by many YAML tools; write %s with the quotes",
                   node->text, names[class], quoted);
}

int job_value_is_number(const struct tree_node *node, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    if (node->plain)
        return 0;
    return err_set(err, "must not be in quotes; write %s without them", diag_quote(quoted, node->text));
}

static int check_quotes(const struct job_field *f, const struct tree_node *node, struct err *err)
{
    switch (f->type) {
    case FIELD_NAME:
    case FIELD_TEXT:
        return job_value_is_text(node, false, err);
    case FIELD_INT:
    case FIELD_RANGE:
    case FIELD_REAL:
    case FIELD_BOOL:
        return job_value_is_number(node, err);
    default:
        return 0;
    }
}

/* ---- nodes ---- */

const char *job_value_kind(const struct tree_node *node)
{
    if (tree_is_empty(node))
        return "empty";
    return node->kind == TREE_SCALAR ? "a single word" : node->kind == TREE_SEQUENCE ? "a list" : "a mapping";
}

int job_value_is_scalar(const struct tree_node *node, struct err *err)
{
    return node->kind == TREE_SCALAR ? 0
                                     : err_set(err, "must be a single value, not %s", job_value_kind(node));
}

int job_value_scalar(struct job_spec *spec, const struct job_field *f, const struct tree_node *node,
                     struct err *err)
{
    if (job_value_is_scalar(node, err) < 0 || check_quotes(f, node, err) < 0)
        return -1;
    return job_value_word(spec, f, node->text, err);
}
