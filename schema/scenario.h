/* scenario: the scenario file of `belay sim` (docs/simulation.md): a cluster, jobs, failures and how long things take.
 *
 * Read like a job file: everything wrong is collected as file:line:column, unknown fields name the nearest known one. Files that it
 * names (cluster, jobs[].file) are looked up beside it and read at once. */
#ifndef BELAY_SCHEMA_SCENARIO_H
#define BELAY_SCHEMA_SCENARIO_H

#include "schema/cluster.h"
#include "schema/job.h"

#define SCENARIO_JOBS_MAX   256    /* entries of jobs: */
#define SCENARIO_COUNT_MAX  100000 /* jobs of one entry */
#define SCENARIO_DAYS_MIN   0.001  /* 86.4 s */
#define SCENARIO_DAYS_MAX   3650
#define SCENARIO_SWEEPS_MAX 4
#define SCENARIO_VALUES_MAX 32

/* A length of time that is drawn each time it is needed. */
enum scenario_shape { SHAPE_FIXED, SHAPE_EXPONENTIAL, SHAPE_LOGNORMAL };
struct scenario_time {
    enum scenario_shape shape;
    int64_t ms;   /* the value, the mean, or the median (lognormal) */
    double sigma; /* lognormal: of the logarithm */
};

struct scenario_checkpoint {
    int64_t every_ms,
        every_steps;  /* one of them is 0; both 0 = the job saves none. every_steps may be JOB_EVERY_AUTO */
    int64_t cost_ms;  /* from its begin until it is durable */
    int64_t stall_ms; /* how long training waits: the cost when blocking, else this */
    bool overlap;
};

struct scenario_job {
    struct job_spec *spec;
    int64_t step_ms; /* of one training step; 0 = the planner's answer */
    struct scenario_time
        work;        /* training time without any trouble; ms 0 = as many steps as the job file says */
    int64_t load_ms; /* from ranks that run to the first step */
    struct scenario_checkpoint checkpoint;
    int64_t count;
    int64_t first_ms, every_ms; /* arrival of the first; then one after the other */
    bool random_gaps;           /* every_ms is the mean of exponential gaps */
};

enum scenario_kind {
    FAULT_GPU_BROKEN,  /* a device fails: its rank dies, the node is drained until repaired */
    FAULT_NODE_CRASH,  /* the machine is gone until repaired */
    FAULT_LINK_CUT,    /* the node cannot be reached; what runs there goes on in vain */
    FAULT_SWITCH_OUT,  /* all nodes of a rack cannot be reached */
    FAULT_STORAGE_OUT, /* nothing can be saved or loaded */
    FAULT_SLOW_NODE,   /* a node computes slower until repaired */
    FAULT_SOFTWARE,    /* a rank dies of itself; nothing to repair */
    SCENARIO_KIND_COUNT
};
const char *scenario_kind_name(
    enum scenario_kind kind); /* "gpu", "node", "link", "switch", "storage", "slow", "software" */

struct scenario_fault {
    double per_day; /* in the whole cluster */
    struct scenario_time repair;
};

struct scenario_sweep {
    char *key;
    char *values[SCENARIO_VALUES_MAX];
    size_t n_values;
};

struct scenario {
    char *name;
    double days;
    int64_t seed;
    struct cluster_spec *cluster;
    struct {
        int64_t detect_ms;  /* until a node that is not heard of counts as down */
        int64_t prepare_ms; /* from the order until a node is ready */
        int64_t launch_ms;  /* from go until its ranks run */
        int64_t stop_ms;    /* from the order to stop until they are gone; killed ranks take a tenth */
    } timing;
    struct scenario_job *jobs;
    size_t n_jobs;
    struct scenario_fault faults[SCENARIO_KIND_COUNT];
    double slow_factor; /* how much longer a step takes on a slow node */
    struct scenario_sweep sweeps[SCENARIO_SWEEPS_MAX];
    size_t n_sweeps;
};

/* Reads a scenario file (at most JOB_FILE_MAX bytes) and the files it names. sets: "key=value" as in the file, `jobs.0.step=2s` for the
 * first job. 0 and *out (scenario_free), or -1 with at least one diagnostic. */
int scenario_load(const char *path, const char *const *sets, size_t n_sets, struct scenario **out,
                  struct job_diagnostics *diagnostics);
/* The same from text; file: its name for messages and whose folder relative names are in. */
int scenario_parse(const char *text, size_t len, const char *file, const char *const *sets, size_t n_sets,
                   struct scenario **out, struct job_diagnostics *diagnostics);
void scenario_free(struct scenario *scenario); /* takes NULL */

#endif
