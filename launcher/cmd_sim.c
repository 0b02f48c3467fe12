/* belay sim: weeks of a cluster in seconds, from a scenario file; needs no cluster. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/args.h"
#include "launcher/output.h"
#include "launcher/simfile.h"
#include "launcher/simsvg.h"
#include "launcher/simsweep.h"
#include "launcher/simview.h"

enum { POINTS = 240 };

struct request {
    struct simfile file;
    const char *days_text, *svg;
    int64_t seed, seeds;
    bool sweep;
    struct args_list sets;
    enum args_output output;
    double days;
};

static int load(const struct request *q, struct scenario **out)
{
    return simfile_scenario(&q->file, q->sets.items, q->sets.count, out);
}

/* ---- one run ---- */

static int draw(const struct request *q, const struct scenario *s, const struct sim_result *r)
{
    if (!q->svg)
        return CLI_DONE;
    FILE *out = fopen(q->svg, "we");
    if (!out)
        return cli_fail(CLI_USAGE, "%s cannot be written: %s", q->svg, strerror(errno));
    simsvg_write(out, r, s->name ? s->name : q->file.name);
    bool bad = fflush(out) != 0 || ferror(out);
    if (fclose(out) != 0 || bad)
        return cli_fail(CLI_REFUSED, "%s could not be written: is the disk full?", q->svg);
    return CLI_DONE;
}

static void show(const struct request *q, const struct scenario *s, const struct sim_result *r, uint64_t seed)
{
    if (q->output != OUTPUT_JSON) {
        simview_print(s, r, seed, q->output == OUTPUT_WIDE);
        return;
    }
    json_t *o = simview_json(s, r, seed);
    output_json(o);
    json_decref(o);
}

static int simulate_once(const struct request *q)
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
    if (sim_run(s, &options, &r, &err) < 0)
        rc = cli_fail(CLI_REFUSED, "%s", err.text);
    else
        rc = draw(q, s, &r);
    if (rc == CLI_DONE)
        show(q, s, &r, options.seed);
    if (rc == CLI_DONE && r.never_fit > 0)
        rc = CLI_JOB_FAILED;
    sim_result_clear(&r);
    scenario_free(s);
    return rc;
}

/* ---- many ---- */

static int check_sweep(const struct request *q, bool *sweeps)
{
    struct scenario *s = NULL;
    int rc = load(q, &s);
    *sweeps = rc == CLI_DONE && s->n_sweeps > 0;
    scenario_free(s);
    if (rc == CLI_DONE && q->sweep && !*sweeps)
        return cli_fail(CLI_USAGE,
                        "%s has nothing to sweep: add, e.g., sweep: {checkpoint.every: [10m, 30m, 1h]}",
                        q->file.name);
    return rc;
}

static int simulate_many(const struct request *q)
{
    bool sweeps = false;
    int rc = check_sweep(q, &sweeps);
    if (rc != CLI_DONE)
        return rc;
    if (q->svg)
        return cli_fail(CLI_USAGE, "--svg draws one run: leave --sweep and --seeds away");
    struct args_list sets = q->sets;
    const char **items = mem_zero(sets.count + 2, sizeof(char *));
    for (size_t i = 0; i < sets.count; i++)
        items[i] = sets.items[i];
    if (sweeps && !q->sweep)
        items[sets.count++] = "sweep={}"; /* only seeds were asked for */
    sets.items = items;
    struct simsweep *w = mem_zero(1, sizeof(*w));
    rc = simsweep_run(&q->file, &sets, q->seed, q->seeds, q->days, w);
    if (rc == CLI_DONE && q->output == OUTPUT_JSON) {
        json_t *o = simsweep_json(w);
        output_json(o);
        json_decref(o);
    } else if (rc == CLI_DONE) {
        simsweep_print(w);
    }
    if (rc == CLI_DONE && w->rows[w->best].never)
        rc = CLI_JOB_FAILED;
    simsweep_clear(w);
    free(w);
    free(items);
    return rc;
}

static int simulate(const struct request *q)
{
    return q->sweep || q->seeds > 1 ? simulate_many(q) : simulate_once(q);
}

/* ---- the command line ---- */

static int read_days(struct request *q)
{
    if (!q->days_text)
        return CLI_DONE;
    char *end = NULL;
    q->days = strtod(q->days_text, &end);
    if (end == q->days_text || *end != '\0' || !(q->days >= SCENARIO_DAYS_MIN) || q->days > SCENARIO_DAYS_MAX)
        return cli_fail(CLI_USAGE, "--days must be a number of days from %g to %d, not \"%s\"",
                        SCENARIO_DAYS_MIN, SCENARIO_DAYS_MAX, q->days_text);
    return CLI_DONE;
}

static int sim(const struct command *self, int argc, char **argv)
{
    struct request q = {.seed = -1, .seeds = 1};
    const struct args_option options[] = {
        ARGS_OPTION_LIST("set", 0, &q.sets, "KEY=VALUE",
                         "put this in place of what the file says, e.g. checkpoint.every=1h"),
        ARGS_OPTION_COUNT("seed", 0, &q.seed, 0, INT64_MAX, "N", "draw everything from this number"),
        ARGS_OPTION_COUNT("seeds", 0, &q.seeds, 1, 10000, "K", "means over so many seeds"),
        ARGS_OPTION_FLAG("sweep", 0, &q.sweep,
                         "every combination of the values in the file's sweep:, and which is best"),
        ARGS_OPTION_TEXT("svg", 0, &q.svg, "FILE", "draw utilisation and goodput over time"),
        ARGS_OPTION_TEXT("days", 0, &q.days_text, "D", "simulate this many days"),
    };
    struct args args;
    int rc = args_parse(self, options, sizeof(options) / sizeof(options[0]), argc, argv, &args);
    if (rc == ARGS_GO) {
        q.output = args.output;
        rc = read_days(&q);
        if (rc == CLI_DONE)
            rc = simfile_open(args.words[0], &q.file);
        if (rc == CLI_DONE)
            rc = simulate(&q);
        simfile_close(&q.file);
        args_clear(&args);
    }
    free(q.sets.items);
    return rc;
}

const struct command command_sim = {
    .name = "sim",
    .args = "FILE [--seed N] [--seeds K] [--days D] [--set KEY=VALUE]... [--sweep] [--svg FILE]",
    .help = "Simulates weeks of a cluster from a scenario file (- = standard input); needs no cluster",
    .examples = "  belay sim examples/sim-small.yaml --svg small.svg\n"
                "  belay sim examples/sim-small.yaml --sweep --seeds 10\n",
    .min_words = 1,
    .max_words = 1,
    .listing = true,
    .run = sim,
};
