/* manifest_private: what the two halves of manifest share. */
#ifndef BELAY_CHECKPOINT_MANIFEST_PRIVATE_H
#define BELAY_CHECKPOINT_MANIFEST_PRIVATE_H

#include <jansson.h>

#include "checkpoint/manifest.h"

/* The manifest's "model". */
json_t *manifest_model_encode(const struct manifest_model *model);
int manifest_model_decode(const json_t *obj, struct manifest_model *model, struct err *err);
/* Format 1 told only the heads; the rest shows in the tensors, or was the same for all. */
void manifest_model_guess(const struct manifest *manifest, struct manifest_model *model);

#endif
