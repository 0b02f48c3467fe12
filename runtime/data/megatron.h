/* megatron: the index (.idx) beside a token file (.bin) of Megatron-LM's IndexedDataset.
 *
 * Layout, little endian (source: Megatron-LM, megatron/core/datasets/indexed_dataset.py): "MMIDIDX\0\0", version 1 (u64), code of the
 * number type (u8), number of sequences S (u64), of document borders D (u64), lengths of the sequences (S x i32), their places in the .bin in
 * bytes (S x i64), document borders as numbers of sequences (D x i64; the first is 0, the last S). */
#ifndef BELAY_RUNTIME_DATA_MEGATRON_H
#define BELAY_RUNTIME_DATA_MEGATRON_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/data/tokenfile.h"

/* Reads an index of `size` bytes against a .bin of bin_size bytes. Walks over all of it once: the sequences must lie one after the other and
 * fill the .bin, so that the .bin is one array of tokens. *documents may be NULL. `path` (of the index) is for the sentence. 0 or -1. */
int megatron_layout(const unsigned char *idx, size_t size, uint64_t bin_size, const char *path,
                    struct token_layout *out, uint64_t *documents, struct err *err);

#endif
