/* hf_folder: the weights of a folder in Hugging Face's layout: config.json, and model.safetensors or several files with an index. */
#ifndef BELAY_RUNTIME_HF_FOLDER_H
#define BELAY_RUNTIME_HF_FOLDER_H

#include "checkpoint/checkpoint.h"
#include "common/err.h"

struct hf_folder;

/* Reads config.json, the index and the header of every file; checks that all tensors of the model are there in the right shape. What else
 * there is (masks, rotary frequencies) is passed over. NULL with a sentence. */
struct hf_folder *hf_folder_open(const char *path, struct err *err);
void hf_folder_close(struct hf_folder *folder);

/* The tokenizer is "" when the folder has none. */
const struct manifest_model *hf_folder_model(const struct hf_folder *folder);

/* Fills the pieces of parameters under the runtime's names, whatever type they have in the files. position.weight may have fewer rows than
 * there. 0, or -1 with a sentence. */
int hf_folder_load(const struct hf_folder *folder, const struct checkpoint_array *arrays, size_t count,
                   struct err *err);

#endif
