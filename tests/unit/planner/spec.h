/* Job specs for tests of the planner: a model and a mesh, through the reader like everything else. */
#ifndef BELAY_TESTS_PLANNER_SPEC_H
#define BELAY_TESTS_PLANNER_SPEC_H

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/job.h"

static inline struct job_spec *spec_parse(const char *yaml)
{
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    if (job_spec_parse_plan(yaml, strlen(yaml), "test", NULL, 0, &spec, &d) != 0)
        fail_msg("%s", d.text[0]);
    return spec;
}

/* A training job in bf16: "preset: gpt3-175b", then the rest of train: and everything after it, as lines of YAML. */
static inline struct job_spec *spec_of(const char *model, int64_t global, int64_t micro, const char *parallel)
{
    char *yaml = str_printf("name: t\n"
                            "train:\n"
                            "  model: {%s}\n"
                            "  data: {path: x.bin, tokenizer: other}\n"
                            "  steps: 10\n"
                            "  batch: {global: %lld, micro: %lld}\n"
                            "  precision: bf16\n"
                            "parallel: {%s}\n",
                            model, (long long)global, (long long)micro, parallel);
    struct job_spec *spec = spec_parse(yaml);
    free(yaml);
    return spec;
}

/* cmocka's comparison of reals is in float: too coarse for bytes of large models. */
static inline void spec_same(double got, double want, double tolerance, const char *what, int line)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("line %d: %s is %.10g, not %.10g", line, what, got, want);
}
#define SAME(got, want, tolerance) spec_same(got, want, tolerance, #got, __LINE__)
#define NEAR(got, want, ratio)     spec_same(got, want, (want) * (ratio), #got, __LINE__)

#endif
