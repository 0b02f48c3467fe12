/* import: weights from elsewhere as a checkpoint of step 0, which has parameters but no moments. */
#ifndef BELAY_RUNTIME_IMPORT_H
#define BELAY_RUNTIME_IMPORT_H

#include <stdint.h>

#include "common/err.h"
#include "runtime/convert/weights.h"

/* Writes a checkpoint into an empty folder, with the tokenizer as tokenizer.json beside it when there is one. 0, or -1 with a sentence; what was
 * written then stays. *bytes: of the parameters' file. err must not be NULL. */
int import_write(const struct weights *weights, const char *folder, uint64_t *bytes, struct err *err);

/* The train.model of a job file that is of this model, in one line; the caller frees. */
char *import_job_model(const struct manifest_model *model);

#endif
