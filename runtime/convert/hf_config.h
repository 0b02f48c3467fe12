/* hf_config: Hugging Face's config.json of GPT-2, Llama and Mixtral, and the model that it speaks of. */
#ifndef BELAY_RUNTIME_HF_CONFIG_H
#define BELAY_RUNTIME_HF_CONFIG_H

#include <jansson.h>
#include <stdint.h>

#include "checkpoint/dtype.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "common/err.h"

/* Reads it; the tokenizer is left "". A model that the runtime computes otherwise (scaled rotary positions, another activation, biases, sliding
 * windows, …) is refused by name of the field: 0, or -1 with a sentence. */
int hf_config_read(const json_t *config, struct manifest_model *out, struct err *err);

/* As transformers would write it. The ids of special tokens are null when < 0. */
json_t *hf_config_make(const struct manifest_model *model, enum dtype type, int32_t bos, int32_t eos);

/* The layout of the tensors of such a model. */
enum names_layout hf_layout(const struct manifest_model *model);

#endif
