/* export: a model as others read it: a folder of Hugging Face's layout, or a GGUF file for llama.cpp. */
#ifndef BELAY_RUNTIME_EXPORT_H
#define BELAY_RUNTIME_EXPORT_H

#include <stdint.h>

#include "checkpoint/dtype.h"
#include "common/err.h"
#include "runtime/convert/weights.h"
#include "runtime/text/tokenizer.h"

struct export_request {
    const struct weights *weights;
    const struct tokenizer *tokenizer;
    const char *name; /* of the model, for metadata */
    enum dtype type;  /* F32, BF16 or F16 */
    uint64_t shard;   /* most bytes of one safetensors file; a tensor that is larger has a file of its own */
};

/* Does the other side compute the same model, and does the tokenizer fit? 0, or -1 with a sentence. */
int export_check(const struct export_request *request, struct err *err);

/* Writes the files of Hugging Face's layout into an empty folder: model*.safetensors, config.json, generation_config.json, tokenizer.json,
 * tokenizer_config.json. *bytes: of the safetensors. 0, or -1 with a sentence; what was written then stays. */
int export_hf(const struct export_request *request, const char *folder, uint64_t *bytes, struct err *err);

/* Writes a GGUF file, which must not be there. 0, or -1 with a sentence and no file. */
int export_gguf(const struct export_request *request, const char *path, uint64_t *bytes, struct err *err);

/* The ids that begin and end a text: <|begin_of_text|> or the end of text; -1 when there is none. */
int32_t export_bos(const struct tokenizer *t);

#endif
