/* weights: the parameters of a model wherever they lie: in a checkpoint, or in a folder of Hugging Face's layout. */
#ifndef BELAY_RUNTIME_WEIGHTS_H
#define BELAY_RUNTIME_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "common/err.h"
#include "runtime/text/tokenizer.h"
#include "schema/job.h"

struct weights;

/* `path` is a checkpoint (step-00000100, with a manifest.json), a checkpoint directory (then the newest good one in it), or a folder with
 * Hugging Face's config.json and safetensors. What is opened has been checked up to sizes; weights_verify reads it all. NULL with a sentence. */
struct weights *weights_open(const char *path, struct err *err);
void weights_close(struct weights *weights);

const struct manifest_model *weights_model(const struct weights *weights);
/* The folder that was chosen. */
const char *weights_path(const struct weights *weights);
/* What a checkpoint says of its run; NULL for Hugging Face's layout, which says nothing. */
const struct manifest_state *weights_state(const struct weights *weights);

/* What tokenizer_open takes for the tokenizer of the model: a file of that name in the folder, else what the model says; NULL when it says nothing. The
 * caller frees. */
char *weights_tokenizer(const struct weights *weights);
/* Opens it, or the one called `name` when that is not NULL. NULL with a sentence, also when the model is known to have been trained with other tokens. */
struct tokenizer *weights_open_tokenizer(const struct weights *weights, const char *name, struct err *err);

/* Checks the hashes of files part, part+parts, … of a checkpoint (0, 1: of all); the other layout has none. 0, or -1 with a sentence. */
int weights_verify(const struct weights *weights, int part, int parts, struct err *err);

/* Can a run of model `now` start with them? The context may be another, of GPT-2 only a shorter one. 0, or -1 with a sentence. */
int weights_suit(const struct weights *weights, const struct manifest_model *now, struct err *err);

/* From now on weights_load asks this first, and fails with a sentence when a stop was asked for: what is made of them may be large, and somebody
 * has to remove it. */
void weights_stop_when(struct weights *weights, bool (*asked)(void));

/* Fills pieces of parameters (checkpoint_array); reads no others. position.weight may have fewer rows than there. 0, or -1 with a sentence. */
int weights_load(const struct weights *weights, const struct checkpoint_array *arrays, size_t count,
                 struct err *err);

/* The model of a job, for a manifest; a tokenizer's file or folder by its absolute path where that can be found. */
void weights_model_of_job(const struct job_train *train, struct manifest_model *out);

#endif
