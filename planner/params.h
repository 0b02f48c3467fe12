/* params: how many numbers a transformer has, by part, and how many of them one device of a mesh holds.
 *
 * Formulas and sources: docs/planning.md, "Parameters". */
#ifndef BELAY_PLANNER_PARAMS_H
#define BELAY_PLANNER_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/job.h"

struct params {
    int64_t embedding, positions, attention, ffn, norms, router, head, total; /* of the whole model */
    int64_t attention_block, ffn_block, norms_block, router_block;            /* of one block */
    int64_t active; /* that one token meets: top_k of the experts; = total without experts */
};

/* head is 0 where the output shares the table of embeddings (m->tied). The total is job_model_parameters. */
void params_count(const struct job_model *m, struct params *out);

/* Columns of the key (or value) projection: hidden / heads * kv_heads. */
int64_t params_kv_width(const struct job_model *m);

/* Blocks of the pipeline ranks, each the sum of its pieces (job_stage_layers): as even as can be, and when it does not come out even the last
 * one and then the first one, which have the head and the embedding besides, get one less (Llama 3: 126 blocks on 16 ranks, arXiv
 * 2407.21783 section 3.3.2). */
struct params_stages {
    int64_t first, mid, last; /* mid: the most that any between them has; first when there is none */
    int64_t most;             /* of any */
    int64_t piece;            /* the most that any piece has: with one virtual stage the same as most */
};
struct params_stages params_stages(const struct job_spec *spec);

/* What one device holds: dense (the same on all of DP x CP) and in experts (the same on DP x CP / EP). */
struct params_share {
    double dense, expert;
    int64_t layers;       /* blocks of its stage */
    bool embedding, head; /* its stage has them */
};
/* The shares of a device of the first, of a middle and of the last pipeline rank; with PP 1 all three are the same. Matrices are cut
 * over TP, experts over EP too; norms, positions and router are on every rank. */
enum params_place { PLACE_FIRST, PLACE_MID, PLACE_LAST, PLACE_COUNT };
struct params_share params_share(const struct job_spec *spec, enum params_place place);
/* The largest of the three by dense + expert. */
struct params_share params_largest_share(const struct job_spec *spec);

/* A perceptron with biases: widths[0] inputs … widths[n-1] outputs; 784-16-16-10 has 13,002. */
int64_t params_perceptron(const int64_t *widths, size_t n);

#endif
