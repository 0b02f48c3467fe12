/* meshes: which models mesh_check trains on which meshes, and which of them must come to the same bits. */
#ifndef BELAY_TESTS_MESH_MESHES_H
#define BELAY_TESTS_MESH_MESHES_H

#include "tests/mesh/lab.h"

struct test {
    const char *name;
    int model;
    int tp, pp, cp, dp, ep, zero;
    int micro;
    bool sequence;
    enum job_pipeline schedule;
    int virtual_stages;
    enum job_recompute recompute;
    bool brief; /* one step only */
};

#define PLAIN PIPELINE_1F1B, 1, RECOMPUTE_NONE, false
#define FULL  PIPELINE_1F1B, 1, RECOMPUTE_FULL, false
#define SOME  PIPELINE_1F1B, 1, RECOMPUTE_SELECTIVE, false
#define WAVE  PIPELINE_INTERLEAVED, 2, RECOMPUTE_NONE, false
#define ZB    PIPELINE_ZERO_BUBBLE, 1, RECOMPUTE_NONE, false

static const struct test single[] = {
    /* name, model, tp pp cp dp ep zero, micro, sequence, schedule */
    {"one rank", LAB_GPT2, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, llama", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, experts", LAB_MOE, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, capacity", LAB_CAPACITY, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, dropout", LAB_DROPOUT, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, 7 layers", LAB_SEVEN, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"accumulation 4 x 4", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, PLAIN},
    {"accumulation 2 x 8", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 2, false, PLAIN},
    {"recompute full", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, FULL},
    {"recompute selective", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, SOME},
    {"recompute full, llama", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 16, false, FULL},
    {"recompute selective, llama", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 16, false, SOME},
    {"recompute full, experts", LAB_MOE, 1, 1, 1, 1, 1, 0, 8, false, FULL},
    {"recompute selective, experts", LAB_MOE, 1, 1, 1, 1, 1, 0, 8, false, SOME},
    {"recompute full, dropout", LAB_DROPOUT, 1, 1, 1, 1, 1, 0, 8, false, FULL},
    {"dp2", LAB_GPT2, 1, 1, 1, 2, 1, 0, 8, false, PLAIN},
    {"dp4", LAB_LLAMA, 1, 1, 1, 4, 1, 0, 2, false, PLAIN},
    {"dp4 zero1", LAB_GPT2, 1, 1, 1, 4, 1, 1, 4, false, PLAIN},
    {"dp4 zero2", LAB_GPT2, 1, 1, 1, 4, 1, 2, 2, false, PLAIN},
    {"dp4 zero3", LAB_GPT2, 1, 1, 1, 4, 1, 3, 2, false, PLAIN},
    {"dp2 zero1, accumulation", LAB_LLAMA, 1, 1, 1, 2, 1, 1, 2, false, PLAIN},
    {"dp2 zero2, accumulation", LAB_LLAMA, 1, 1, 1, 2, 1, 2, 2, false, PLAIN},
    {"dp2 zero3, accumulation", LAB_LLAMA, 1, 1, 1, 2, 1, 3, 2, false, PLAIN},
    {"dp4 zero3 recompute full", LAB_LLAMA, 1, 1, 1, 4, 1, 3, 4, false, FULL},
    {"dp4 zero3 experts", LAB_MOE, 1, 1, 1, 4, 1, 3, 4, false, PLAIN},
    {"tp2", LAB_GPT2, 2, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp4", LAB_GPT2, 4, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp2 llama", LAB_LLAMA, 2, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp4 llama", LAB_LLAMA, 4, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp2 sp", LAB_GPT2, 2, 1, 1, 1, 1, 0, 16, true, PLAIN},
    {"tp4 sp", LAB_GPT2, 4, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"tp4 sp llama", LAB_LLAMA, 4, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"tp2 dropout", LAB_DROPOUT, 2, 1, 1, 1, 1, 0, 8, false, PLAIN},
    {"tp4 sp dropout", LAB_DROPOUT, 4, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"tp2 sp recompute full", LAB_GPT2, 2, 1, 1, 1, 1, 0, 8, true, FULL},
    {"tp2 sp recompute selective", LAB_LLAMA, 2, 1, 1, 1, 1, 0, 8, true, SOME},
    {"pp2 1f1b", LAB_GPT2, 1, 2, 1, 1, 1, 0, 4, false, PLAIN},
    {"pp4 1f1b", LAB_GPT2, 1, 4, 1, 1, 1, 0, 2, false, PLAIN},
    {"pp2 interleaved", LAB_GPT2, 1, 2, 1, 1, 1, 0, 4, false, WAVE},
    {"pp2 interleaved, llama", LAB_LLAMA, 1, 2, 1, 1, 1, 0, 2, false, WAVE},
    {"pp2 zero-bubble", LAB_GPT2, 1, 2, 1, 1, 1, 0, 2, false, ZB},
    {"pp4 zero-bubble", LAB_GPT2, 1, 4, 1, 1, 1, 0, 2, false, ZB},
    {"pp4 zero-bubble, llama", LAB_LLAMA, 1, 4, 1, 1, 1, 0, 4, false, ZB},
    {"pp4 of 7 layers", LAB_SEVEN, 1, 4, 1, 1, 1, 0, 4, false, PLAIN},
    {"pp4 recompute full", LAB_GPT2, 1, 4, 1, 1, 1, 0, 2, false, FULL},
    {"pp4 one micro-batch", LAB_LLAMA, 1, 4, 1, 1, 1, 0, 16, false, PLAIN},
    {"pp2 dropout", LAB_DROPOUT, 1, 2, 1, 1, 1, 0, 4, false, PLAIN},
    {"cp2", LAB_GPT2, 1, 1, 2, 1, 1, 0, 16, false, PLAIN},
    {"cp4", LAB_GPT2, 1, 1, 4, 1, 1, 0, 8, false, PLAIN},
    {"cp2 llama", LAB_LLAMA, 1, 1, 2, 1, 1, 0, 4, false, PLAIN},
    {"cp4 llama", LAB_LLAMA, 1, 1, 4, 1, 1, 0, 16, false, PLAIN},
    {"cp8 llama", LAB_LLAMA, 1, 1, 8, 1, 1, 0, 16, false, PLAIN},
    {"cp4 dropout", LAB_DROPOUT, 1, 1, 4, 1, 1, 0, 8, false, PLAIN},
    {"cp2 capacity", LAB_CAPACITY, 1, 1, 2, 1, 1, 0, 8, false, PLAIN},
    {"cp4 recompute full", LAB_LLAMA, 1, 1, 4, 1, 1, 0, 8, false, FULL},
    {"ep2", LAB_MOE, 1, 1, 1, 2, 2, 0, 8, false, PLAIN},
    {"ep4", LAB_MOE, 1, 1, 1, 4, 4, 0, 4, false, PLAIN},
    {"ep2 of dp4", LAB_MOE, 1, 1, 1, 4, 2, 0, 4, false, PLAIN},
    {"ep4 capacity", LAB_CAPACITY, 1, 1, 1, 4, 4, 0, 2, false, PLAIN},
    {"ep2 zero1", LAB_MOE, 1, 1, 1, 4, 2, 1, 4, false, PLAIN},
    {"ep2 zero3", LAB_MOE, 1, 1, 1, 4, 2, 3, 2, false, PLAIN},
    {"tp2 experts", LAB_MOE, 2, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp2 sp experts", LAB_MOE, 2, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"ep2 recompute full", LAB_MOE, 1, 1, 1, 2, 2, 0, 4, false, FULL},
    /* eight ranks, mixed */
    {"tp2 pp2 dp2", LAB_GPT2, 2, 2, 1, 2, 1, 0, 2, false, PLAIN},
    {"tp2 sp pp2 dp2 zero1", LAB_GPT2, 2, 2, 1, 2, 1, 1, 2, true, PLAIN},
    {"tp2 sp pp2 dp2 zero2", LAB_LLAMA, 2, 2, 1, 2, 1, 2, 2, true, PLAIN},
    {"tp2 sp pp2 dp2 zero3", LAB_GPT2, 2, 2, 1, 2, 1, 3, 4, true, PLAIN},
    {"tp2 cp2 dp2", LAB_LLAMA, 2, 1, 2, 2, 1, 0, 4, false, PLAIN},
    {"tp2 sp cp2 dp2 zero3", LAB_GPT2, 2, 1, 2, 2, 1, 3, 4, true, PLAIN},
    {"pp2 ep2 dp2 cp2", LAB_MOE, 1, 2, 2, 2, 2, 0, 4, false, PLAIN},
    {"pp2 ep4 dp4", LAB_MOE, 1, 2, 1, 4, 4, 0, 2, false, PLAIN},
    {"tp2 pp2 cp2", LAB_LLAMA, 2, 2, 2, 1, 1, 0, 4, true, PLAIN},
    {"tp2 pp2 cp2 interleaved", LAB_GPT2, 2, 2, 2, 1, 1, 0, 4, true, WAVE},
    {"tp4 sp dp2 zero1", LAB_LLAMA, 4, 1, 1, 2, 1, 1, 4, true, PLAIN},
    {"pp4 dp2 zero-bubble zero2", LAB_LLAMA, 1, 4, 1, 2, 1, 2, 2, false, ZB},
    {"pp2 dp4 interleaved zero3", LAB_GPT2, 1, 2, 1, 4, 1, 3, 2, false, WAVE},
    {"tp2 ep2 dp4 zero1", LAB_MOE, 2, 1, 1, 4, 2, 1, 4, true, PLAIN},
    {"tp2 pp2 ep2 zero-bubble", LAB_MOE, 2, 2, 1, 2, 2, 0, 2, true, ZB},
    {"cp2 ep4 dp4", LAB_CAPACITY, 1, 1, 2, 4, 4, 0, 4, false, PLAIN},
    {"cp4 dp2 zero2", LAB_LLAMA, 1, 1, 4, 2, 1, 2, 4, false, PLAIN},
    {"tp2 pp2 dp2 dropout", LAB_DROPOUT, 2, 2, 1, 2, 1, 1, 4, true, PLAIN},
    {"dp8 zero3", LAB_SEVEN, 1, 1, 1, 8, 1, 3, 2, false, PLAIN},
};

/* What is tried on an emulated GPU of `single`, on two ranks. */
static const char *const gpu_single[] = {"one rank, experts",
                                         "recompute selective",
                                         "dp2 zero1, accumulation",
                                         "dp2 zero3, accumulation",
                                         "tp2 sp",
                                         "pp2 interleaved",
                                         "pp2 zero-bubble",
                                         "cp2",
                                         "ep2",
                                         NULL};

/* The same 16 samples as 1, 4 and 8 micro-batches, with every ZeRO stage and with and without a pipeline: one gradient norm. */
#define DEALT_MAX 24
static size_t dealt(struct test *out, char names[DEALT_MAX][64])
{
    static const int micro[] = {8, 2, 1}; /* on each of two replicas */
    size_t n = 0;
    for (int pp = 1; pp <= 2; pp++)
        for (int zero = 0; zero <= 3; zero++)
            for (size_t i = 0; i < 3; i++) {
                snprintf(names[n], sizeof names[n], "%d at once, zero%d pp%d", 2 * micro[i], zero, pp);
                out[n] = (struct test){names[n], LAB_GPT2, 1, pp, 1, 2, 1, zero, micro[i], false, PLAIN};
                out[n].brief = true;
                n++;
            }
    return n;
}

static const struct test rounded[] = {
    {"one rank", LAB_GPT2, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, llama", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, experts", LAB_MOE, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, 4 at once", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, PLAIN},
    {"llama, 4 at once", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 4, false, PLAIN},
    {"recompute full", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, FULL},
    {"recompute selective", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, SOME},
    {"dp4", LAB_GPT2, 1, 1, 1, 4, 1, 0, 4, false, PLAIN},
    {"dp4 zero1", LAB_GPT2, 1, 1, 1, 4, 1, 1, 4, false, PLAIN},
    {"dp4 zero2", LAB_GPT2, 1, 1, 1, 4, 1, 2, 4, false, PLAIN},
    {"dp4 zero3", LAB_GPT2, 1, 1, 1, 4, 1, 3, 4, false, PLAIN},
    {"tp2", LAB_GPT2, 2, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp4 sp", LAB_LLAMA, 4, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"pp2", LAB_GPT2, 1, 2, 1, 1, 1, 0, 4, false, PLAIN},
    {"pp4 zero-bubble, llama", LAB_LLAMA, 1, 4, 1, 1, 1, 0, 4, false, ZB},
    {"pp2 interleaved, llama", LAB_LLAMA, 1, 2, 1, 1, 1, 0, 4, false, WAVE},
    {"cp4", LAB_LLAMA, 1, 1, 4, 1, 1, 0, 8, false, PLAIN},
    {"ep2 of dp4 zero1", LAB_MOE, 1, 1, 1, 4, 2, 1, 4, false, PLAIN},
    {"tp2 sp pp2 dp2 zero1", LAB_GPT2, 2, 2, 1, 2, 1, 1, 2, true, PLAIN},
    {"tp2 sp cp2 dp2 zero3", LAB_LLAMA, 2, 1, 2, 2, 1, 3, 4, true, PLAIN},
    {"tp2 pp2 ep2 dp2 zero-bubble", LAB_MOE, 2, 2, 1, 2, 2, 2, 2, true, ZB},
};
static const char *const gpu_rounded[] = {"one rank, llama", "tp2", "pp2", NULL};

/* Meshes whose ten losses are equal bit by bit, as they add the same numbers in the same order. (A pipeline adds up the gradients of tied tables in
 * two parts, so only untied ones are as on one rank.) */
struct pair {
    const char *one, *other;
};
static const struct pair single_pairs[] = {
    {"dp4 zero2", "dp4 zero3"},
    {"accumulation 4 x 4", "recompute full"},
    {"accumulation 4 x 4", "recompute selective"},
    {"accumulation 2 x 8", "pp2 interleaved, llama"},
    {"pp4 1f1b", "pp2 zero-bubble"},
    {"pp4 1f1b", "pp4 zero-bubble"},
    {"pp4 1f1b", "pp4 recompute full"},
    {"dp2 zero2, accumulation", "dp2 zero3, accumulation"},
};
static const struct pair rounded_pairs[] = {
    {"one rank, 4 at once", "recompute full"},
    {"one rank, 4 at once", "recompute selective"},
    {"dp4", "dp4 zero1"},
    {"dp4", "dp4 zero2"},
    {"dp4", "dp4 zero3"},
    {"llama, 4 at once", "pp2 interleaved, llama"},
    {"llama, 4 at once", "pp4 zero-bubble, llama"},
};

#endif
