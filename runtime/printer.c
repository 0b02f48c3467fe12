/* printer: see printer.h. */
#include "runtime/printer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/jsonx.h"
#include "common/mem.h"

/* Tokens as well-formed UTF-8; fresh, with a NUL behind its *len bytes. */
static char *text_of(const struct printer *p, const int32_t *ids, size_t n, size_t *len)
{
    struct utf8out utf8 = {.n = 0};
    char *out = NULL;
    size_t bytes;
    *len = 0;
    for (size_t i = 0; i < n; i++) {
        const char *piece = tokenizer_bytes(p->tokenizer, ids[i], &bytes);
        if (!piece)
            continue;
        out = mem_grow(out, *len + UTF8OUT_ROOM(bytes) + 4, 1);
        *len += utf8out_feed(&utf8, piece, bytes, out + *len);
    }
    out = mem_grow(out, *len + 4, 1);
    *len += utf8out_end(&utf8, out + *len);
    out[*len] = 0;
    return out;
}

static json_t *json_text(const struct printer *p, const int32_t *ids, size_t n)
{
    size_t len;
    char *text = text_of(p, ids, n, &len);
    json_t *value = json_stringn(text, len);
    free(text);
    return value;
}

static json_t *json_ids(const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static json_t *json_numbers(const double *x, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_real(x[i]));
    return list;
}

static void print_json(const struct printer *p, const struct generate_text *t, size_t prompt, size_t sample)
{
    json_t *obj = json_object();
    jsonx_set(obj, "prompt", json_integer((json_int_t)prompt));
    jsonx_set(obj, "sample", json_integer((json_int_t)sample));
    jsonx_set(obj, "prompt_text", json_text(p, t->prompt, t->n_prompt));
    jsonx_set(obj, "prompt_tokens", json_ids(t->prompt, t->n_prompt));
    jsonx_set(obj, "text", json_text(p, t->tokens, t->n));
    jsonx_set(obj, "tokens", json_ids(t->tokens, t->n));
    if (p->log_probabilities)
        jsonx_set(obj, "log_probabilities", json_numbers(t->log_probabilities, t->n));
    jsonx_set_str(obj, "end", t->ended ? "end_of_text" : "max_tokens");
    char *line = json_dumps(obj, JSON_COMPACT);
    if (line)
        (void)puts(line); /* the command looks at the stream once, at its end */
    free(line);
    json_decref(obj);
}

/* id, logarithm and the token in quotes, as JSON would */
static void print_token_line(const struct printer *p, int32_t id, double log_probability)
{
    json_t *value = json_text(p, &id, 1);
    char *quoted = json_dumps(value, JSON_ENCODE_ANY);
    printf("%d\t%.6f\t%s\n", id, log_probability, quoted ? quoted : "");
    free(quoted);
    json_decref(value);
}

static void print_plain(const struct printer *p, const int32_t *ids, size_t n)
{
    size_t len;
    char *text = text_of(p, ids, n, &len);
    (void)fwrite(text, 1, len, stdout);
    free(text);
}

void printer_begin(struct printer *p, const struct generate_text *text)
{
    if (p->alone && p->echo && !p->json && !p->log_probabilities)
        print_plain(p, text->prompt, text->n_prompt);
    (void)fflush(stdout);
}

void printer_token(void *arg, size_t text, int32_t id, double log_probability)
{
    struct printer *p = arg;
    size_t bytes;
    (void)text;
    if (!p->alone || p->json)
        return;
    if (p->log_probabilities) {
        print_token_line(p, id, log_probability);
        return;
    }
    const char *piece = tokenizer_bytes(p->tokenizer, id, &bytes);
    if (!piece)
        return;
    char *out = mem_zero(UTF8OUT_ROOM(bytes), 1);
    size_t n = utf8out_feed(&p->utf8, piece, bytes, out);
    (void)fwrite(out, 1, n, stdout);
    (void)fflush(stdout);
    free(out);
}

static void end_alone(struct printer *p)
{
    char rest[4];
    size_t n = utf8out_end(&p->utf8, rest);
    if (p->log_probabilities)
        return;
    (void)fwrite(rest, 1, n, stdout);
    (void)putchar('\n');
}

void printer_text(struct printer *p, const struct generate_text *text, size_t prompt, size_t sample)
{
    if (p->json) {
        print_json(p, text, prompt, sample);
        return;
    }
    if (p->alone) {
        end_alone(p);
        return;
    }
    printf("--- prompt %zu, sample %zu\n", prompt + 1, sample + 1);
    if (p->log_probabilities) {
        for (size_t i = 0; i < text->n; i++)
            print_token_line(p, text->tokens[i], text->log_probabilities[i]);
        return;
    }
    if (p->echo)
        print_plain(p, text->prompt, text->n_prompt);
    print_plain(p, text->tokens, text->n);
    (void)putchar('\n');
}
