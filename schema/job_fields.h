/* job_fields: every field of the job file, one row each. Reading, defaults, suggestions, printing and docs/job-file.md all follow
 * this one table, so none of them can know a field that the others do not. Used only inside schema/ and its tests. */
#ifndef BELAY_SCHEMA_JOB_FIELDS_H
#define BELAY_SCHEMA_JOB_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/job.h"

enum job_field_type {
    FIELD_SECTION,  /* a mapping of further fields */
    FIELD_NAME,     /* char[JOB_NAME_MAX + 1] */
    FIELD_TEXT,     /* char *, not empty */
    FIELD_INT,      /* int64_t, min..max */
    FIELD_REAL,     /* double, low..high */
    FIELD_BOOL,     /* bool */
    FIELD_SIZE,     /* int64_t bytes, min..max */
    FIELD_DURATION, /* int64_t ms, min..max */
    FIELD_ENUM,     /* an enum whose values are the indices of words */
    FIELD_PRESET,   /* char[32], one of words */
    FIELD_EVERY,    /* int64_t: auto or a number of steps */
    FIELD_RESUME,   /* int64_t: auto, never or a step */
    FIELD_SPARES,   /* int64_t: auto or a number of nodes */
    FIELD_RANGE,    /* dp, dp_min and dp_max: a number or LOW..HIGH, each min..max */
    FIELD_BETAS, /* two doubles, beta1 and beta2, from `at` on; this type and those after it are no single values */
    FIELD_EVENTS,  /* unsigned: bit i for words[i] */
    FIELD_COMMAND, /* argv */
    FIELD_ENV,     /* env and n_env */
    FIELD_MIX,     /* train.corpora and train.n_corpora */
    FIELD_STAGES,  /* stages and n_stages, each min..max */
    FIELD_LISTS = FIELD_BETAS,
};

struct job_field {
    const char
        *path; /* "train.optimizer.lr"; rows are in the order of printing, a section before its fields */
    enum job_field_type type;
    size_t at; /* offset in struct job_spec */
    int64_t min, max;
    double low, high;
    const char *fallback; /* the default as it would be written; NULL when there is none or it is computed */
    const char *computed; /* the computed default in words, for the documentation */
    bool required;        /* must be there once its section is */
    const char *const *words; /* FIELD_ENUM, _PRESET, _EVENTS */
    size_t n_words;
    const char *help;
};

#define JOB_FIELDS_MAX 128
#define JOB_FIELD_NONE ((size_t)-1)

extern const struct job_field job_fields[];
extern const size_t job_fields_count;

/* The row of "section.key" (section "" = top level), or JOB_FIELD_NONE. */
size_t job_field_find(const char *section, const char *key);
/* The row of a full path; the path must be known. */
size_t job_field_index(const char *path);
/* The row of the section that a row is in, or JOB_FIELD_NONE for the top level. */
size_t job_field_parent(size_t field);
/* The last word of a row's path. */
const char *job_field_key(size_t field);

/* Says what may be meant by an unknown key: the section(s) it belongs under, the nearest known word, or what is allowed. */
void job_field_explain(const char *section, const char *key, char *out, size_t size);

/* A row as one line of the reference in docs/job-file.md. */
void job_field_document(size_t field, char *out, size_t size);

#define JOB_TEXT_MAX    4096 /* bytes of a path or URL */
#define JOB_CORPORA_MAX 256  /* of a mixture */
#define JOB_WEIGHT_MIN  1e-9 /* of a corpus */
#define JOB_WEIGHT_MAX  1e9
#define JOB_ARGS_MAX    4096               /* words of a command */
#define JOB_ARG_MAX     ((128u << 10) - 1) /* bytes of one: the kernel's MAX_ARG_STRLEN */

/* The numbers of a preset. */
struct job_preset {
    const char *name;
    enum job_arch arch;
    int64_t layers, hidden, heads, kv_heads, ffn, vocab, context, experts, top_k;
    double rope_theta; /* 0: the default */
};
/* NULL when there is none of that name. */
const struct job_preset *job_preset_find(const char *name);

#endif
