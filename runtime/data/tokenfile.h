/* tokenfile: how a file of tokens is laid out: our own format, that of llm.c, and bare tokens of 16 bits (docs/data.md).
 *
 * Everything here is a function of bytes in memory that nobody vouches for: what is returned has been checked against the size. */
#ifndef BELAY_RUNTIME_DATA_TOKENFILE_H
#define BELAY_RUNTIME_DATA_TOKENFILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum token_type { TOKEN_U8, TOKEN_I8, TOKEN_U16, TOKEN_I16, TOKEN_U32, TOKEN_I32, TOKEN_I64 };
size_t token_type_bytes(enum token_type type);

struct token_layout {
    enum token_type type;
    uint64_t offset, count; /* bytes before the first token; tokens */
    uint64_t mask; /* where the mask begins, 0 = none: bit i%8 of byte i/8 set = token i counts as a target */
    uint64_t vocab;       /* tokens are below this, 0 = not said */
    uint64_t fingerprint; /* of the tokenizer, 0 = not said */
    int64_t end;          /* id of the end of text, -1 = none or not said */
};

#define TOKENFILE_HEADER 64 /* bytes of the header of version 2, which prepare writes */

/* Finds the layout of a .bin file from its first bytes and its size: BELAYTOK (versions 1 and 2), llm.c (GPT-2: magic 20240520, version
 * 1, 16 bits; Llama 3: 20240801, version 7, 32 bits; both with 256 int32 of header; source: llm.c, dev/data/data_common.py), else
 * tokens of 16 bits from the first byte on. `path` is for the sentence. 0 or -1. */
int tokenfile_layout(const unsigned char *bytes, size_t size, const char *path, struct token_layout *out,
                     struct err *err);

/* The header of version 2 for this layout (type U16 or U32; offset is taken as TOKENFILE_HEADER, mask as "directly after the tokens" when
 * it is not 0). */
void tokenfile_header(const struct token_layout *layout, unsigned char out[TOKENFILE_HEADER]);

#endif
