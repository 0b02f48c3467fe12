/* belay validate: checks a job file without a cluster. */
#include <stdio.h>
#include <stdlib.h>

#include "launcher/args.h"
#include "launcher/format.h"
#include "launcher/jobfile.h"

enum { SIZES_SHOWN = 12 };

/* Largest first, as they are tried. */
static void describe_sizes(const struct job_spec *spec)
{
    int64_t dp = spec->dp;
    printf(", or fewer: dp may be %lld", (long long)dp);
    for (int n = 1; n < SIZES_SHOWN && (dp = job_dp_at_most(spec, dp - 1)) > 0; n++)
        printf(", %lld", (long long)dp);
    if (dp > 0 && job_dp_at_most(spec, dp - 1) > 0)
        printf(" and smaller ones down to %lld", (long long)job_dp_at_least(spec, 1));
}

static void describe_train(const struct job_spec *spec)
{
    char parameters[FORMAT_SIZE];
    const struct job_train *t = &spec->train;
    printf("%s with %s parameters, %lld steps of %lld sequences of %lld tokens on %lld rank%s",
           job_arch_name(t->model.arch), format_count((double)job_model_parameters(&t->model), parameters),
           (long long)t->steps, (long long)t->batch_global, (long long)t->model.context,
           (long long)spec->ranks, spec->ranks == 1 ? "" : "s");
    printf(" (tp %lld, pp %lld, cp %lld, dp %lld)", (long long)spec->tp, (long long)spec->pp,
           (long long)spec->cp, (long long)spec->dp);
    if (job_elastic(spec))
        describe_sizes(spec);
}

static void describe(const struct jobfile *f)
{
    const struct job_spec *spec = f->spec;
    printf("%s is valid: %s: ", f->name, spec->name);
    if (spec->is_train)
        describe_train(spec);
    else
        printf("%s on %lld rank%s", spec->argv[0], (long long)spec->ranks, spec->ranks == 1 ? "" : "s");
    printf(".\n");
}

static int validate(const struct command *self, int argc, char **argv)
{
    struct args_list sets = {.items = NULL};
    struct jobfile f;
    const struct args_option options[] = {
        ARGS_OPTION_LIST("set", 0, &sets, "KEY=VALUE",
                         "put this in place of what the file says, e.g. train.steps=40"),
    };
    struct args args;
    int rc = args_parse(self, options, 1, argc, argv, &args);
    if (rc == ARGS_GO) {
        rc = jobfile_load(args.words[0], &sets, &f);
        if (rc == CLI_DONE) {
            describe(&f);
            jobfile_clear(&f);
        }
        args_clear(&args);
    }
    free(sets.items);
    return rc;
}

const struct command command_validate = {
    .name = "validate",
    .args = "FILE [--set KEY=VALUE]...",
    .help = "Checks a job file (- = standard input) and says what it asks for; needs no cluster",
    .examples = "  belay validate examples/quickstart.yaml\n  belay validate job.yaml --set train.steps=40\n",
    .min_words = 1,
    .max_words = 1,
    .run = validate,
};
