/* args: reads a subcommand's words: options in any order, `--name value`, `--name=value`, `-n value`, `--` ends options.
 *
 * Each command describes its options in a table; --dir, --help and (for listings) -o are added here. A wrong word is
 * answered with the nearest known one. */
#ifndef BELAY_LAUNCHER_ARGS_H
#define BELAY_LAUNCHER_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/command.h"

enum args_kind { ARGS_FLAG, ARGS_TEXT, ARGS_COUNT, ARGS_DURATION, ARGS_LIST };
enum args_output { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON };

struct args_list {
    const char **items;
    size_t count;
};

struct args_option {
    const char *name; /* without the dashes */
    char letter;      /* 0 = none */
    enum args_kind kind;
    void *
        into; /* bool * | const char ** | int64_t * | int64_t * (milliseconds) | struct args_list * (free items) */
    int64_t min, max; /* of ARGS_COUNT */
    const char *value;
    const char *help;
};

#define ARGS_OPTION_FLAG(n, c, var, text)                                                                    \
    {                                                                                                        \
        .name = (n), .letter = (c), .kind = ARGS_FLAG, .into = (var), .help = (text)                         \
    }
#define ARGS_OPTION_TEXT(n, c, var, v, text)                                                                 \
    {                                                                                                        \
        .name = (n), .letter = (c), .kind = ARGS_TEXT, .into = (var), .value = (v), .help = (text)           \
    }
#define ARGS_OPTION_LIST(n, c, var, v, text)                                                                 \
    {                                                                                                        \
        .name = (n), .letter = (c), .kind = ARGS_LIST, .into = (var), .value = (v), .help = (text)           \
    }
#define ARGS_OPTION_COUNT(n, c, var, lo, hi, v, text)                                                        \
    {                                                                                                        \
        .name = (n), .letter = (c), .kind = ARGS_COUNT, .into = (var), .min = (lo), .max = (hi),             \
        .value = (v), .help = (text)                                                                         \
    }
#define ARGS_OPTION_DURATION(n, c, var, v, text)                                                             \
    {                                                                                                        \
        .name = (n), .letter = (c), .kind = ARGS_DURATION, .into = (var), .value = (v), .help = (text)       \
    }

struct args {
    char *dir; /* the cluster's directory, chosen by --dir, $BELAY_DIR or default */
    enum args_output output;
    const char **words; /* NULL-terminated; the strings belong to argv */
    size_t n_words;
};

#define ARGS_GO (-1)

/* Reads argv (the words after the subcommand's name). Returns ARGS_GO with *out filled (args_clear), or an exit code
 * after printing help (0) or what is wrong (2). */
int args_parse(const struct command *self, const struct args_option *options, size_t n_options, int argc,
               char **argv, struct args *out);
void args_clear(struct args *args);

/* "30m", "1h30m", "45s", "2d", "500ms": milliseconds, or -1 when it is none of these. At most 10 years. */
int64_t args_duration_ms(const char *text);

/* A whole number without anything around it. 0 or -1. */
int args_int64(const char *text, int64_t *out);

#endif
