/* What the tests of the job file write job files from, and how they read them. */
#ifndef BELAY_TESTS_JOB_TEXT_H
#define BELAY_TESTS_JOB_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "schema/job.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* A good training job; what a row adds begins in line 7. */
#define TRAIN                                                                                                \
    "name: x\ntrain:\n  model: {arch: gpt2, layers: 2, hidden: 64, heads: 4, context: 32}\n"                 \
    "  data: {path: a.txt}\n  steps: 10\n  batch: {global: 8}\n"
/* A model of one's own; what follows begins in line 7 too. */
#define MODEL(fields)                                                                                        \
    "name: x\ntrain:\n  model: {" fields "}\n  data: {path: a.txt}\n  steps: 10\n  batch: {global: 8}\n"
/* A good job of any program; what a row adds begins in line 3. */
#define RUN "name: x\nrun: {command: [a]}\n"
/* Data of one's own. */
#define DATA(fields)                                                                                         \
    "name: x\ntrain:\n  model: {" GPT2 "}\n  data: {" fields "}\n  steps: 10\n  batch: {global: 8}\n"
#define GPT2    "arch: gpt2, layers: 2, hidden: 64, heads: 4, context: 32"
#define LLAMA   "arch: llama, layers: 2, hidden: 64, heads: 4, context: 32"
#define TEN     "aaaaaaaaaa"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static inline bool any_says(const struct job_diagnostics *d, const char *text)
{
    for (size_t i = 0; i < d->count && i < JOB_DIAGNOSTICS_MAX; i++)
        if (strstr(d->text[i], text))
            return true;
    return false;
}

static inline void must_refuse(const char *yaml, size_t len, const char *says)
{
    static struct job_diagnostics d;
    struct job_spec *spec = (struct job_spec *)&d; /* must be set to NULL */
    int rc = job_spec_parse(yaml, len, "f.yaml", NULL, 0, &spec, &d);
    if (rc == 0)
        fail_msg("accepted although \"%s\" was expected:\n%.300s", says, yaml);
    assert_null(spec);
    assert_true(d.count > 0);
    if (!any_says(&d, says))
        fail_msg("expected \"%s\", got \"%s\"", says, d.text[0]);
}

static inline struct job_spec *must_accept(const char *yaml, const char *const *sets, size_t n_sets)
{
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    if (job_spec_parse(yaml, strlen(yaml), "f.yaml", sets, n_sets, &spec, &d) < 0)
        fail_msg("refused: %s\n%s", d.text[0], yaml);
    assert_int_equal(d.count, 0);
    return spec;
}

#endif
