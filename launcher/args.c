/* args: see args.h. One table of options serves the reading, the help text and the nearest known word. */
#include "launcher/args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster_dir.h"
#include "common/mem.h"
#include "schema/suggest.h"

#define OPTIONS_MAX     40
#define DURATION_MAX_MS (INT64_C(10) * 366 * 24 * 3600 * 1000)

struct parser {
    const struct command *self;
    struct args_option options[OPTIONS_MAX]; /* the command's own, then the common ones */
    size_t n_options;
    bool want_help;
    const char *dir, *output;
    struct args *out;
};

int args_int64(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || text[0] == ' ' || text[0] == '+')
        return -1;
    *out = v;
    return 0;
}

static int64_t unit_ms(const char **p)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t len = strlen(units[i].name);
        if (strncmp(*p, units[i].name, len) == 0) {
            *p += len;
            return units[i].ms;
        }
    }
    return -1;
}

int64_t args_duration_ms(const char *text)
{
    int64_t total = 0;
    if (!*text)
        return -1;
    while (*text) {
        char *end;
        if (*text < '0' || *text > '9')
            return -1;
        errno = 0;
        long long n = strtoll(text, &end, 10);
        const char *p = end;
        int64_t unit = unit_ms(&p);
        if (errno || unit < 0 || n > (DURATION_MAX_MS - total) / unit)
            return -1;
        total += n * unit;
        text = p;
    }
    return total;
}

static void add_option(struct parser *p, const struct args_option *o)
{
    if (p->n_options >= OPTIONS_MAX)
        abort(); /* a table in this program is too long: never at a user's hand */
    p->options[p->n_options++] = *o;
}

static void add_common(struct parser *p)
{
    const struct args_option output =
        ARGS_OPTION_TEXT("output", 'o', &p->output, "FORM", "table (default), wide or json");
    const struct args_option dir = ARGS_OPTION_TEXT(
        "dir", 0, &p->dir, "DIR", "the cluster's directory (else $BELAY_DIR, else the default state folder)");
    const struct args_option help = ARGS_OPTION_FLAG("help", 'h', &p->want_help, "this text");
    if (p->self->listing)
        add_option(p, &output);
    add_option(p, &dir);
    add_option(p, &help);
}

static void print_option(const struct args_option *o)
{
    char left[64];
    snprintf(left, sizeof left, "%s%c%s--%s%s%s", o->letter ? "-" : "", o->letter ? o->letter : ' ',
             o->letter ? ", " : "   ", o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("  %-24s %s\n", left, o->help);
}

static void print_help(const struct parser *p)
{
    printf("usage: belay %s%s%s [options]\n\n%s.\n\n", p->self->name, *p->self->args ? " " : "",
           p->self->args, p->self->help);
    for (size_t i = 0; i < p->n_options; i++)
        print_option(&p->options[i]);
    printf("\nexamples:\n%s", p->self->examples);
}

static int unknown_option(const struct parser *p, const char *word, const char *name)
{
    const char *names[OPTIONS_MAX];
    for (size_t i = 0; i < p->n_options; i++)
        names[i] = p->options[i].name;
    const char *near = suggest_nearest(name, names, p->n_options);
    if (near)
        return cli_fail(CLI_USAGE, "%s: there is no option \"%s\": did you mean --%s?", p->self->name, word,
                        near);
    return cli_fail(CLI_USAGE, "%s: there is no option \"%s\": `belay %s --help` lists them", p->self->name,
                    word, p->self->name);
}

static const struct args_option *find_long(const struct parser *p, const char *name, size_t len)
{
    for (size_t i = 0; i < p->n_options; i++)
        if (strlen(p->options[i].name) == len && memcmp(p->options[i].name, name, len) == 0)
            return &p->options[i];
    return NULL;
}

static const struct args_option *find_letter(const struct parser *p, char letter)
{
    for (size_t i = 0; i < p->n_options; i++)
        if (p->options[i].letter == letter)
            return &p->options[i];
    return NULL;
}

static int store_count(const struct parser *p, const struct args_option *o, const char *value)
{
    int64_t n;
    if (args_int64(value, &n) != 0 || n < o->min || n > o->max)
        return cli_fail(CLI_USAGE, "%s: --%s \"%s\" is not a whole number from %lld to %lld", p->self->name,
                        o->name, value, (long long)o->min, (long long)o->max);
    *(int64_t *)o->into = n;
    return ARGS_GO;
}

static int store_duration(const struct parser *p, const struct args_option *o, const char *value)
{
    int64_t ms = args_duration_ms(value);
    if (ms < 0)
        return cli_fail(CLI_USAGE, "%s: --%s \"%s\" is not a duration such as 30m, 1h30m or 45s",
                        p->self->name, o->name, value);
    *(int64_t *)o->into = ms;
    return ARGS_GO;
}

static int store(const struct parser *p, const struct args_option *o, const char *value)
{
    struct args_list *list = o->into;
    switch (o->kind) {
    case ARGS_FLAG:
        *(bool *)o->into = true;
        return ARGS_GO;
    case ARGS_TEXT:
        *(const char **)o->into = value;
        return ARGS_GO;
    case ARGS_LIST:
        list->items = mem_grow(list->items, list->count + 1, sizeof *list->items);
        list->items[list->count++] = value;
        return ARGS_GO;
    case ARGS_COUNT:
        return store_count(p, o, value);
    case ARGS_DURATION:
        return store_duration(p, o, value);
    }
    return ARGS_GO;
}

/* Takes the option in word, with `inline_value` (after = or the letter) or else the next word as its value. */
static int take(const struct parser *p, const struct args_option *o, const char *inline_value, int argc,
                char **argv, int *i)
{
    if (o->kind == ARGS_FLAG) {
        if (inline_value)
            return cli_fail(CLI_USAGE, "%s: --%s takes no value", p->self->name, o->name);
        return store(p, o, NULL);
    }
    if (!inline_value) {
        if (*i + 1 >= argc)
            return cli_fail(CLI_USAGE, "%s: --%s needs a value: --%s %s", p->self->name, o->name, o->name,
                            o->value);
        inline_value = argv[++*i];
    }
    return store(p, o, inline_value);
}

static int take_long(const struct parser *p, int argc, char **argv, int *i)
{
    const char *name = argv[*i] + 2;
    const char *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct args_option *o = find_long(p, name, len);
    if (!o) {
        char *plain = str_printf("%.*s", (int)len, name);
        int rc = unknown_option(p, argv[*i], plain);
        free(plain);
        return rc;
    }
    return take(p, o, equals ? equals + 1 : NULL, argc, argv, i);
}

/* "-f", "-ojson", "-o json", and flags run together as in "-fa". */
static int take_letters(const struct parser *p, int argc, char **argv, int *i)
{
    const char *word = argv[*i];
    for (const char *c = word + 1; *c; c++) {
        const struct args_option *o = find_letter(p, *c);
        if (!o)
            return unknown_option(p, word, word + 1);
        if (o->kind != ARGS_FLAG)
            return take(p, o, c[1] ? c + 1 : NULL, argc, argv, i);
        store(p, o, NULL);
    }
    return ARGS_GO;
}

static int take_words(struct parser *p, int argc, char **argv)
{
    struct args *out = p->out;
    bool options_end = false;
    out->words = mem_zero((size_t)argc + 1, sizeof *out->words);
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        int rc = ARGS_GO;
        if (options_end || word[0] != '-' || !word[1])
            out->words[out->n_words++] = word;
        else if (strcmp(word, "--") == 0)
            options_end = true;
        else if (word[1] == '-')
            rc = take_long(p, argc, argv, &i);
        else
            rc = take_letters(p, argc, argv, &i);
        if (rc != ARGS_GO)
            return rc;
    }
    return ARGS_GO;
}

static int check_words(const struct parser *p)
{
    const struct command *self = p->self;
    if (p->out->n_words < self->min_words)
        return cli_fail(CLI_USAGE, "%s: something is missing: belay %s %s", self->name, self->name,
                        self->args);
    if (p->out->n_words > self->max_words)
        return cli_fail(CLI_USAGE, "%s: \"%s\" is one word too many: belay %s%s%s", self->name,
                        p->out->words[self->max_words], self->name, *self->args ? " " : "", self->args);
    return ARGS_GO;
}

static int choose_output(struct parser *p)
{
    static const char *const forms[] = {"table", "wide", "json"};
    if (!p->output)
        return ARGS_GO;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(p->output, forms[i]) == 0) {
            p->out->output = (enum args_output)i;
            return ARGS_GO;
        }
    return cli_fail(CLI_USAGE, "%s: -o \"%s\" is not table, wide or json", p->self->name, p->output);
}

static int choose_dir(struct parser *p)
{
    struct err err = {""};
    p->out->dir = cluster_dir_choose(p->dir, &err);
    return p->out->dir ? ARGS_GO : cli_fail(CLI_USAGE, "%s: %s", p->self->name, err.text);
}

static int parse(struct parser *p, int argc, char **argv)
{
    int rc = take_words(p, argc, argv);
    if (rc == ARGS_GO && p->want_help) {
        print_help(p);
        return CLI_DONE;
    }
    if (rc == ARGS_GO)
        rc = check_words(p);
    if (rc == ARGS_GO)
        rc = choose_output(p);
    if (rc == ARGS_GO)
        rc = choose_dir(p);
    return rc;
}

int args_parse(const struct command *self, const struct args_option *options, size_t n_options, int argc,
               char **argv, struct args *out)
{
    struct parser p = {.self = self, .out = out};
    *out = (struct args){.output = OUTPUT_TABLE};
    for (size_t i = 0; i < n_options; i++)
        add_option(&p, &options[i]);
    add_common(&p);
    int rc = parse(&p, argc, argv);
    if (rc != ARGS_GO)
        args_clear(out);
    return rc;
}

void args_clear(struct args *args)
{
    free(args->dir);
    free(args->words);
    *args = (struct args){.output = OUTPUT_TABLE};
}
