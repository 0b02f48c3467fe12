/* belay sim: weeks of a cluster in seconds, from a scenario file; needs no cluster. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/mem.h"
#include "launcher/args.h"
#include "launcher/jobfile.h"
#include "launcher/output.h"
#include "launcher/simview.h"

enum { POINTS = 240 };

struct request {
    const char *file, *days_text, *svg;
    int64_t seed, seeds;
    bool sweep;
    struct args_list sets;
    enum args_output output;
    double days;
};

static int load(const struct request *q, struct scenario **out)
{
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    int rc = scenario_load(q->file, q->sets.items, q->sets.count, out, d);
    if (rc < 0)
        jobfile_print_diagnostics(d);
    free(d);
    return rc < 0 ? CLI_USAGE : CLI_DONE;
}

static int simulate(const struct request *q)
{
    struct scenario *s = NULL;
    int rc = load(q, &s);
    if (rc != CLI_DONE)
        return rc;
    struct err err = {""};
    struct sim_result r;
    struct sim_options options = {.seed = (uint64_t)(q->seed >= 0 ? q->seed : s->seed),
                                  .days = q->days > 0 ? q->days : s->days,
                                  .points = POINTS};
    if (sim_run(s, &options, &r, &err) < 0) {
        rc = cli_fail(CLI_REFUSED, "%s", err.text);
    } else if (q->output == OUTPUT_JSON) {
        json_t *o = simview_json(s, &r, options.seed);
        output_json(o);
        json_decref(o);
    } else {
        simview_print(s, &r, options.seed, q->output == OUTPUT_WIDE);
    }
    sim_result_clear(&r);
    scenario_free(s);
    return rc;
}

static int read_days(struct request *q)
{
    if (!q->days_text)
        return CLI_DONE;
    char *end = NULL;
    q->days = strtod(q->days_text, &end);
    if (end == q->days_text || *end != '\0' || !(q->days > 0) || q->days > SCENARIO_DAYS_MAX)
        return cli_fail(CLI_USAGE, "--days must be a number of days above 0, at most %d, not \"%s\"",
                        SCENARIO_DAYS_MAX, q->days_text);
    return CLI_DONE;
}

static int sim(const struct command *self, int argc, char **argv)
{
    struct request q = {.seed = -1, .seeds = 1};
    const struct args_option options[] = {
        ARGS_OPTION_LIST("set", 0, &q.sets, "KEY=VALUE",
                         "put this in place of what the file says, e.g. checkpoint.every=1h"),
        ARGS_OPTION_COUNT("seed", 0, &q.seed, 0, INT64_MAX, "N", "draw everything from this number"),
        ARGS_OPTION_TEXT("days", 0, &q.days_text, "D", "simulate this many days"),
    };
    struct args args;
    int rc = args_parse(self, options, sizeof(options) / sizeof(options[0]), argc, argv, &args);
    if (rc == ARGS_GO) {
        q.file = args.words[0];
        q.output = args.output;
        rc = read_days(&q);
        if (rc == CLI_DONE)
            rc = simulate(&q);
        args_clear(&args);
    }
    free(q.sets.items);
    return rc;
}

const struct command command_sim = {
    .name = "sim",
    .args = "FILE [--seed N] [--days D] [--set KEY=VALUE]...",
    .help = "Simulates weeks of a cluster: jobs, failures, checkpoints; needs no cluster",
    .examples = "  belay sim examples/sim-small.yaml\n",
    .min_words = 1,
    .max_words = 1,
    .listing = true,
    .run = sim,
};
