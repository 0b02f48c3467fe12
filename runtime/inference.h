/* inference: a model to compute with, in one process: its weights from wherever they lie, its tokenizer, and nothing for training. */
#ifndef BELAY_RUNTIME_INFERENCE_H
#define BELAY_RUNTIME_INFERENCE_H

#include <stdint.h>

#include "common/err.h"
#include "runtime/backend.h"
#include "runtime/comm/mesh.h"
#include "runtime/engine/store.h"
#include "runtime/model/model.h"
#include "runtime/text/tokenizer.h"
#include "schema/job.h"

struct inference_request {
    const char *path;      /* checkpoint, checkpoint directory or Hugging Face's layout: weights_open */
    const char *tokenizer; /* tokenizer_open; NULL = what the model was trained with */
    enum kernel_type type;
    enum job_device device;
};

struct inference {
    struct job_model config;
    struct backend backend;
    const struct kernels *kernels;
    struct comm *comm;
    struct mesh mesh; /* of one rank */
    struct layout layout;
    struct store *store;
    struct tokenizer *tokenizer;
    char *path;   /* the folder that was chosen */
    int64_t step; /* -1: not told */
};

/* Reads a checkpoint of any mesh, whose hashes must be right. 0, or -1 with a sentence; inference_close takes what came of it in both cases. */
int inference_open(struct inference *inference, const struct inference_request *request, struct err *err);
void inference_close(struct inference *inference);

/* For model_new and decode_new; batch, context and sequences are left to the caller. */
struct model_request inference_request(const struct inference *inference);

#endif
