/* layout: which tensors a model has, which part of each this rank holds, and where that part lies. Pure.
 *
 * Names and whole shapes depend on the configuration alone; matrices are stored (out, in) whatever the architecture. A rank's tensors lie in
 * units: what is gathered and reduced as one. A unit is one layer's dense tensors, one layer's experts, or a table; its tensors follow each
 * other, and its size is padded so that the ranks that replicate it can each own an equal part of it (ZeRO).
 *
 * Tensor parallelism (Shoeybi et al., arXiv 1909.08053) cuts queries, keys, values, gate and up by rows, the two projections back by
 * columns, and the tables by rows of the vocabulary; everything else is the same on every rank of a TP group. Experts are dealt out in
 * order to the ranks of an EP group. */
#ifndef BELAY_RUNTIME_LAYOUT_H
#define BELAY_RUNTIME_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/comm/mesh.h"
#include "schema/job.h"

#define LAYOUT_NONE       SIZE_MAX
#define LAYOUT_NAME_BYTES 64

enum layout_fill { FILL_NORMAL, FILL_RESIDUAL, FILL_ONE, FILL_ZERO };

/* What a unit holds. Each layer has a dense unit and, with experts, an expert unit. */
enum layout_unit_kind { UNIT_EMBED, UNIT_POSITION, UNIT_LAYER, UNIT_EXPERTS, UNIT_NORM, UNIT_HEAD };

struct layout_tensor {
    char name[LAYOUT_NAME_BYTES]; /* "layers.3.attn.q.weight" */
    size_t shape[2], dims;        /* of the whole tensor; shape[1] is 1 for vectors */
    size_t from[2],
        to[2];            /* the box of it that lies here; empty (from == to) where a rank has only padding */
    size_t rows, columns; /* of what is stored: the box, then rows of padding, which are 0 for ever */
    size_t unit, offset;  /* elements from the beginning of the unit */
    enum layout_fill fill;
    bool decay;      /* weight decay applies: matrices, but not position tables */
    bool everywhere; /* the same on every rank of the TP group, hence counted only by the first */
    bool partial;    /* its gradients are partial sums that the TP group still has to add up */
};

struct layout_unit {
    enum layout_unit_kind kind;
    size_t layer;        /* of the whole model; LAYOUT_NONE for tables and the last norm */
    size_t first, count; /* tensors */
    size_t elements;     /* with padding: a multiple of 16 x copies */
    size_t offset;       /* of the unit when all units of a rank follow each other */
    int copies;          /* ranks that hold the same unit: DP x CP, for experts DP x CP / EP */
    bool
        shared_by_ends; /* the tied table: first and last stage have a copy each and add up their gradients */
};

/* One piece of the pipeline that this rank holds: layers [first, first+count) of the model. */
struct layout_chunk {
    size_t first, count;
    bool begins, ends; /* holds the embedding; holds the last norm and the head */
};

struct layout {
    struct layout_tensor *tensors;
    size_t n_tensors;
    struct layout_unit *units;
    size_t n_units;
    struct layout_chunk *chunks;
    size_t n_chunks;
    size_t elements;             /* of all units */
    size_t vocab;                /* rows of the tables stored here, padding included */
    size_t vocab_from, vocab_to; /* the real ones: tokens [from, to) */
};

struct layout_request {
    const struct job_model *model;
    struct mesh_sizes size;
    int tp, pp, replica;         /* coordinates; the expert part is replica % ep */
    const int64_t *piece_layers; /* pp * virtual_stages numbers that add up to the model's layers */
    int virtual_stages;
    bool sequence; /* sequence parallelism: norms, biases and positions see a part of the tokens only */
};

/* For a checked configuration; never fails. */
void layout_make(struct layout *layout, const struct layout_request *request);
void layout_free(struct layout *layout);

/* The unit of this kind and layer, LAYOUT_NONE when it is not here. */
size_t layout_unit_of(const struct layout *layout, enum layout_unit_kind kind, size_t layer);
/* The tensor of a unit whose name ends in ".SUFFIX" or is SUFFIX; LAYOUT_NONE when there is none. */
size_t layout_tensor_of(const struct layout *layout, size_t unit, const char *suffix);
/* Whole parameters of the model, each once. */
uint64_t layout_parameters(const struct job_model *model);

#endif
