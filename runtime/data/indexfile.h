/* indexfile: index.json of a folder that belay-train prepare has filled (docs/data.md). It is written last: where there is one, the folder
 * is whole. */
#ifndef BELAY_RUNTIME_DATA_INDEXFILE_H
#define BELAY_RUNTIME_DATA_INDEXFILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define INDEXFILE_NAME       "index.json"
#define INDEXFILE_SHARDS_MAX 32768 /* each is a mapping of its own, and Linux allows a process 65530 */

struct indexfile_shard {
    char *file; /* a name in the index's folder */
    uint64_t tokens;
};

struct indexfile {
    char *tokenizer;                                /* "bytes", or the name of a file in the folder */
    uint64_t fingerprint;                           /* of the tokenizer */
    int64_t vocab, end;                             /* end: id of the end of text, -1 = none */
    uint64_t documents, text_bytes, tokens, masked; /* masked: tokens that do not count as targets */
    struct indexfile_shard *shards;
    size_t n_shards;
};

/* Reads and checks an index; *out is filled for indexfile_clear. 0 or -1 with a sentence. */
int indexfile_read(const char *path, struct indexfile *out, struct err *err);
/* Writes it durably. */
int indexfile_write(const char *path, const struct indexfile *x, struct err *err);
void indexfile_clear(struct indexfile *x);

#endif
