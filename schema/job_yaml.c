/* job_yaml: a spec as a job file again, by a walk over the table of fields. Every value is written out, each text in double quotes
 * with escapes, so that the file means the same to every reader and at any later time, whatever the defaults are then. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/job_fields.h"
#include "schema/scalar.h"
#include "schema/utf8.h"

struct printer {
    FILE *out;
    const struct job_spec *spec;
    bool written[JOB_FIELDS_MAX]; /* sections whose line is there */
};

static const void *member(const struct printer *p, const struct job_field *f)
{
    return (const char *)p->spec + f->at;
}

static int64_t int_of(const struct printer *p, const struct job_field *f)
{
    int64_t n = 0;
    memcpy(&n, member(p, f), sizeof n);
    return n;
}

static double real_of(const struct printer *p, const struct job_field *f, size_t index)
{
    double value = 0;
    memcpy(&value, (const char *)member(p, f) + index * sizeof value, sizeof value);
    return value;
}

static const char *text_of(const struct printer *p, const struct job_field *f)
{
    const char *text = NULL;
    memcpy(&text, member(p, f), sizeof text);
    return text;
}

/* ---- values ---- */

/* U+0080 to U+009F, the line breaks U+2028 and U+2029, U+FEFF, U+FFFE and U+FFFF: YAML takes them only as escapes, or folds them. */
static uint32_t code_to_escape(const unsigned char *c, size_t n)
{
    uint32_t code = n == 2   ? (uint32_t)(c[0] & 0x1f) << 6 | (c[1] & 0x3f)
                    : n == 3 ? (uint32_t)(c[0] & 0x0f) << 12 | (uint32_t)(c[1] & 0x3f) << 6 | (c[2] & 0x3f)
                             : 0;
    bool escape =
        (code >= 0x80 && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff || code >= 0xfffe;
    return escape ? code : 0;
}

static void put_char(FILE *out, const char *c, size_t n)
{
    unsigned char first = (unsigned char)c[0];
    uint32_t code = code_to_escape((const unsigned char *)c, n);
    if (first == '"' || first == '\\')
        (void)fprintf(out, "\\%c", first);
    else if (first == '\n')
        (void)fputs("\\n", out);
    else if (first < 0x20 || first == 0x7f)
        (void)fprintf(out, "\\x%02x", first);
    else if (code)
        (void)fprintf(out, "\\u%04" PRIx32, code);
    else
        (void)fwrite(c, 1, n, out);
}

static void put_text(FILE *out, const char *text)
{
    size_t len = strlen(text);
    (void)fputc('"', out);
    for (size_t at = 0; at < len;) {
        size_t n = utf8_length(text + at, len - at);
        if (n == 0) {
            (void)fputc('?', out); /* only in a spec that was not read by job_spec_parse */
            n = 1;
        } else {
            put_char(out, text + at, n);
        }
        at += n;
    }
    (void)fputc('"', out);
}

static void put_word(const struct printer *p, const struct job_field *f)
{
    int index = 0;
    memcpy(&index, member(p, f), sizeof index);
    (void)fputs(index >= 0 && (size_t)index < f->n_words ? f->words[index] : "invalid", p->out);
}

static void put_resume(const struct printer *p, const struct job_field *f)
{
    int64_t step = int_of(p, f);
    if (step == JOB_RESUME_AUTO)
        (void)fputs("auto", p->out);
    else if (step == JOB_RESUME_NEVER)
        (void)fputs("never", p->out);
    else
        (void)fprintf(p->out, "%" PRId64, step);
}

_Static_assert((int)JOB_EVERY_AUTO == (int)JOB_SPARES_AUTO, "auto is the same number for both");
static void put_number_or_auto(const struct printer *p, const struct job_field *f)
{
    int64_t number = int_of(p, f);
    if (number == JOB_SPARES_AUTO)
        (void)fputs("auto", p->out);
    else
        (void)fprintf(p->out, "%" PRId64, number);
}

static void put_betas(const struct printer *p, const struct job_field *f)
{
    char one[SCALAR_PRINT_SIZE], two[SCALAR_PRINT_SIZE];
    (void)fprintf(p->out, "[%s, %s]", scalar_print_real(one, real_of(p, f, 0)),
                  scalar_print_real(two, real_of(p, f, 1)));
}

static void put_events(const struct printer *p, const struct job_field *f)
{
    const char *between = "";
    (void)fputc('[', p->out);
    for (size_t i = 0; i < f->n_words; i++)
        if (p->spec->notify_on & (1u << i)) {
            (void)fprintf(p->out, "%s%s", between, f->words[i]);
            between = ", ";
        }
    (void)fputc(']', p->out);
}

static void put_command(const struct printer *p)
{
    for (size_t i = 0; p->spec->argv[i]; i++) {
        (void)fputs("\n    - ", p->out);
        put_text(p->out, p->spec->argv[i]);
    }
}

static void put_env(const struct printer *p)
{
    for (size_t i = 0; i < p->spec->n_env; i++) {
        (void)fputs("\n  ", p->out);
        put_text(p->out, p->spec->env[i].key);
        (void)fputs(": ", p->out);
        put_text(p->out, p->spec->env[i].value);
    }
}

static void put_mix(const struct printer *p)
{
    const struct job_train *t = &p->spec->train;
    for (size_t i = 0; i < t->n_corpora; i++) {
        char weight[SCALAR_PRINT_SIZE];
        (void)fputs("\n      - {path: ", p->out);
        put_text(p->out, t->corpora[i].path);
        (void)fprintf(p->out, ", weight: %s}", scalar_print_real(weight, t->corpora[i].weight));
    }
}

static void put_stages(const struct printer *p)
{
    for (size_t i = 0; i < p->spec->n_stages; i++)
        (void)fprintf(p->out, "%s%" PRId64, i ? ", " : "[", p->spec->stages[i]);
    (void)fputc(']', p->out);
}

static void put_range(const struct printer *p)
{
    char range[JOB_RANGE_SIZE];
    (void)fputs(job_range_print(range, p->spec), p->out);
}

static void put_value(const struct printer *p, const struct job_field *f)
{
    char word[SCALAR_PRINT_SIZE];
    switch (f->type) {
    case FIELD_NAME:
        put_text(p->out, member(p, f));
        break;
    case FIELD_TEXT:
        put_text(p->out, text_of(p, f));
        break;
    case FIELD_PRESET:
        (void)fputs(member(p, f), p->out);
        break;
    case FIELD_INT:
        (void)fprintf(p->out, "%" PRId64, int_of(p, f));
        break;
    case FIELD_REAL:
        (void)fputs(scalar_print_real(word, real_of(p, f, 0)), p->out);
        break;
    case FIELD_BOOL:
        (void)fputs(*(const bool *)member(p, f) ? "true" : "false", p->out);
        break;
    case FIELD_SIZE:
        (void)fputs(scalar_print_size(word, int_of(p, f)), p->out);
        break;
    case FIELD_DURATION:
        (void)fputs(scalar_print_duration(word, int_of(p, f)), p->out);
        break;
    case FIELD_ENUM:
        put_word(p, f);
        break;
    case FIELD_RESUME:
        put_resume(p, f);
        break;
    case FIELD_EVERY:
    case FIELD_SPARES:
        put_number_or_auto(p, f);
        break;
    case FIELD_RANGE:
        put_range(p);
        break;
    case FIELD_BETAS:
        put_betas(p, f);
        break;
    case FIELD_EVENTS:
        put_events(p, f);
        break;
    case FIELD_COMMAND:
        put_command(p);
        break;
    case FIELD_ENV:
        put_env(p);
        break;
    case FIELD_MIX:
        put_mix(p);
        break;
    case FIELD_STAGES:
        put_stages(p);
        break;
    case FIELD_SECTION:
        break;
    }
}

/* ---- fields ---- */

static bool begins_with(const char *path, const char *section)
{
    return strncmp(path, section, strlen(section)) == 0;
}

/* Has it several corpora? Then data_path is only the first of them. */
static bool is_mixed(const struct job_spec *s)
{
    return s->train.n_corpora > 1;
}

/* Fields of the other kind of job, and those without a value, are left away. */
static bool is_there(const struct printer *p, const struct job_field *f)
{
    const struct job_spec *s = p->spec;
    if (begins_with(f->path, s->is_train ? "run." : "train."))
        return false;
    if (begins_with(f->path, "checkpoint.upload.") && !s->checkpoint.upload.url)
        return false;
    switch (f->type) {
    case FIELD_TEXT:
        return text_of(p, f) != NULL && !(is_mixed(s) && strcmp(f->path, "train.data.path") == 0);
    case FIELD_PRESET:
        return s->train.model.preset[0] != '\0';
    case FIELD_EVENTS:
        return s->notify_url != NULL;
    case FIELD_COMMAND:
        return s->argv != NULL;
    case FIELD_ENV:
        return s->n_env > 0;
    case FIELD_MIX:
        return is_mixed(s);
    case FIELD_STAGES:
        return s->n_stages > 0;
    default:
        return f->type != FIELD_SECTION;
    }
}

static int depth_of(const char *path)
{
    int depth = 0;
    for (const char *c = path; *c; c++)
        depth += *c == '.';
    return depth;
}

static void put_key(const struct printer *p, size_t field)
{
    (void)fprintf(p->out, "%*s%s:", 2 * depth_of(job_fields[field].path), "", job_field_key(field));
}

/* Writes the lines of the sections around a field that are not there yet, outermost first. */
static void put_sections(struct printer *p,
                         size_t field) /* NOLINT(misc-no-recursion): as deep as the table */
{
    size_t parent = job_field_parent(field);
    if (parent == JOB_FIELD_NONE || p->written[parent])
        return;
    put_sections(p, parent);
    put_key(p, parent);
    (void)fputc('\n', p->out);
    p->written[parent] = true;
}

static void put_field(struct printer *p, size_t field)
{
    const struct job_field *f = &job_fields[field];
    put_sections(p, field);
    put_key(p, field);
    if (f->type != FIELD_COMMAND && f->type != FIELD_ENV && f->type != FIELD_MIX)
        (void)fputc(' ', p->out);
    put_value(p, f);
    (void)fputc('\n', p->out);
}

char *job_spec_to_yaml(const struct job_spec *spec)
{
    char *text = NULL;
    size_t size = 0;
    struct printer p = {.out = open_memstream(&text, &size), .spec = spec};
    if (!p.out)
        abort(); /* only for want of memory */
    for (size_t i = 0; i < job_fields_count; i++)
        if (is_there(&p, &job_fields[i]))
            put_field(&p, i);
    if (fclose(p.out) != 0)
        abort();
    return text;
}
