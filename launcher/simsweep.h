/* simsweep: one scenario under many settings and seeds: which is best. */
#ifndef BELAY_LAUNCHER_SIMSWEEP_H
#define BELAY_LAUNCHER_SIMSWEEP_H

#include <jansson.h>

#include "launcher/args.h"
#include "launcher/simfile.h"
#include "sim/sim.h"

#define SIMSWEEP_ROWS_MAX 256

/* What is compared. */
enum { SWEEP_GOODPUT, SWEEP_YIELD, SWEEP_COUNT };
struct simsweep_sample {
    double of[SWEEP_COUNT];
};

/* Means over the seeds, and how far they spread. */
struct simsweep_row {
    char *values[SCENARIO_SWEEPS_MAX];     /* of the keys, in their order */
    double ettr, ettr_spread;              /* standard deviation over seeds; NaN with one seed */
    struct simsweep_sample mean, *samples; /* by seed */
    bool near, same; /* goodput, and then yield too, as good as the best's by all that seeds can tell */
    char *never;     /* a job that can never start with these values: a sentence, or NULL */
    double utilisation, spare, wait_ms, interrupted;
    double replay, stalled,
        recovery; /* shares of the time of jobs: repeated; waiting for checkpoints; detect + stop + place + load */
    double failed; /* jobs that failed */
};

struct simsweep {
    char *keys[SCENARIO_SWEEPS_MAX];
    size_t n_keys;
    struct simsweep_row rows[SIMSWEEP_ROWS_MAX];
    size_t n_rows, best; /* best: of those with as much goodput as any, the most yield */
    int64_t seeds;
    double days;
    /* of the largest job, over all runs: for the closed forms beside the table; 0 = not known */
    double mttf_s, cost_s;
    bool overlap;
    double written_s; /* until a checkpoint is durable */
};

/* Runs file with each combination of the values in its sweep: (with none, only as it is), `seeds` seeds each from `seed` (-1 = the file's)
 * on; days 0 = the file's. 0, or an exit code after saying what is wrong. */
int simsweep_run(const struct simfile *file, const struct args_list *sets, int64_t seed, int64_t seeds,
                 double days, struct simsweep *out);
void simsweep_print(const struct simsweep *sweep);
json_t *simsweep_json(const struct simsweep *sweep);
void simsweep_clear(struct simsweep *sweep);

#endif
