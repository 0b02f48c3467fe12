/* saves: how often a checkpoint is worth its cost. The closed forms, the time between interruptions, and the two together in steps and in words;
 * for the trainer, `belay plan`, the simulator and the controller. docs/planning.md, "Checkpoints", has the reasoning. */
#ifndef BELAY_PLANNER_SAVES_H
#define BELAY_PLANNER_SAVES_H

#include <stddef.h>
#include <stdint.h>

/* Failures of one node in a day, all causes: RSC-1 in Kokolis et al. 2024, arXiv 2410.21680. */
#define SAVES_FAILURES_PER_NODE_DAY 6.5e-3

/* The best training time between two saves. cost: training time that one takes away; mttf: mean time between interruptions; any one unit.
 * Young (1974), first order: sqrt(2 cost mttf). Daly (2006, eq. 37), where cost is not small beside mttf; mttf when cost >= 2 mttf. */
double saves_young(double cost, double mttf);
double saves_daly(double cost, double mttf);

/* Mean time between interruptions of a job, seconds: what `nodes` nodes are expected to come to, weighed as one interruption that was seen,
 * with the `count` interruptions of its own in `run_s` seconds of running (the mean of a gamma posterior). A rate of 0 expects none ever: INFINITY
 * until one is seen. */
double saves_mttf(double nodes, double failures_per_node_day, double count, double run_s);

struct saves_facts {
    double cost_s;    /* training waits so long for one */
    double durable_s; /* until it is safe, in the background; 0 = not known */
    double step_s, mttf_s;
};

/* Steps between two saves, 1 to SAVES_STEPS_MAX: Daly's interval, but no save is due before the last one can be safe. */
enum { SAVES_STEPS_MAX = 1000000000 };
int64_t saves_every(const struct saves_facts *facts);

/* "every 40 steps (44.0s): a save costs 800ms, an interruption is expected each 6h12m, a step takes 1.1s". */
#define SAVES_WORDS 192
void saves_explain(const struct saves_facts *facts, char out[SAVES_WORDS]);

#endif
