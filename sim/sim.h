/* sim: weeks of a cluster in seconds: the real core (daemon/core) in virtual time, with virtual agents that carry out its orders, jobs
 * that arrive and train, and failures that strike, all drawn from one seed. Same scenario and seed, same result to the last bit.
 *
 * docs/simulation.md says what is modelled and how. */
#ifndef BELAY_SIM_SIM_H
#define BELAY_SIM_SIM_H

#include "common/err.h"
#include "daemon/core/records.h"
#include "schema/scenario.h"

struct sim_options {
    uint64_t seed;
    double days;
    size_t points; /* of the time series; 0 = none */
};

/* Where the time of a job went, from its first start on, in ms. The parts add up to wall_ms. */
struct sim_time {
    int64_t useful;          /* new steps, at their undisturbed length */
    struct lost_time lost;   /* as the core books it */
    int64_t stalled, slowed; /* new steps: waiting for checkpoints; and longer because of slow nodes */
    int64_t other;           /* the first load, and what was not booked yet when the simulation ended */
};

struct sim_job {
    int64_t id;
    size_t entry; /* index in scenario->jobs */
    char name[JOB_NAME_MAX + 1];
    enum job_state state;
    char *reason;
    int64_t ranks, attempts,
        interrupted; /* ranks: of its largest size; interrupted: failures that struck it while it had slots */
    int64_t submitted_ms, started_ms, ended_ms; /* since the beginning; started and ended -1 = not yet */
    bool never_fits; /* it waits for what this cluster does not have; reason says what */
    int64_t spares;  /* slots held for a repair by its newest attempt */
    int64_t step, steps;
    int64_t wall_ms; /* from first start to end (or the end of the simulation) */
    struct sim_time time;
    double ettr; /* useful / wall; NaN when it never started */
};

struct sim_fault_count {
    int64_t happened, struck; /* struck: a job was on it */
};

struct sim_point {
    double held, useful,
        down; /* mean shares of all devices in this part of the time: held by jobs; doing new steps; out for repair */
    double torn_nodes,
        torn_racks; /* at its end: shares of the free devices that are on partly used nodes; in partly used racks */
};

struct sim_result {
    int64_t span_ms, devices, nodes;
    struct sim_job *jobs; /* in order of arrival */
    size_t n_jobs;
    struct sim_fault_count faults[SCENARIO_KIND_COUNT];
    struct sim_point *points;
    size_t n_points;
    double utilisation, goodput, down,
        spare; /* shares of all device time: held, spares included; useful; out for repair; held as spares */
    double ettr; /* of all jobs, weighted by ranks */
    double
        yield; /* useful / device time that jobs took from their first start on, spares included: ETTR after paying for spares */
    size_t never_fit;          /* jobs that can never start here */
    struct sim_time device_ms; /* as of jobs, each times its ranks, added up */
    int64_t wall_device_ms;
    struct {
        size_t n; /* jobs that started */
        double mean_ms, p50_ms, p95_ms, max_ms;
        size_t still; /* that never started */
    } wait;
    double torn_nodes, torn_racks; /* means over the points */
    int64_t events;                /* handled: how much work the simulation was */
    int64_t
        mttf_ms; /* of the largest job, mean time between interruptions while it had slots; 0 = none happened */
    int64_t recovery_ms; /* of the largest job: mean detect + stop + place + load of an interruption */
};

/* Runs it. -1 with a sentence when it cannot be run: a job's step time is not known, or a job is refused. */
int sim_run(const struct scenario *scenario, const struct sim_options *options, struct sim_result *out,
            struct err *err);
void sim_result_clear(struct sim_result *result); /* safe on a zeroed struct */

#endif
