/* encode: a piece of the sources (source.h) as tokens. */
#ifndef BELAY_RUNTIME_DATA_ENCODE_H
#define BELAY_RUNTIME_DATA_ENCODE_H

#include <stdint.h>

#include "common/err.h"
#include "runtime/data/source.h"
#include "runtime/text/tokenizer.h"

struct encoded {
    int32_t *ids;
    size_t n, room;
    unsigned char *counts; /* (n) 0 = is no target; NULL = all are */
    uint64_t documents, text_bytes;
    uint64_t bad_lines,
        bad_at;     /* lines that are no records, and where in the file the first of them begins */
    struct err err; /* what is wrong with that one, or with the file (then bad_lines is 0) */
};

/* Encodes a piece; each document is followed by the end of text, if the tokenizer has one. `field`: see record_parse. What is wrong is in
 * out->err; bad lines give no tokens. *out is filled for encoded_clear. */
void encode_piece(const struct source *source, const struct piece *piece, const struct tokenizer *tokenizer,
                  struct tokenizer_scratch *scratch, const char *field, struct encoded *out);
void encoded_clear(struct encoded *e);

/* May text be cut before it is encoded (source_next)? */
bool encode_may_cut(const struct tokenizer *tokenizer);

/* The texts of a piece, one after the other, as `each` gets them: for the training of a tokenizer. Bad lines are left out. 0, or -1 with a
 * sentence when the file cannot be read. */
int encode_texts(const struct source *source, const struct piece *piece, const char *field,
                 void (*each)(void *arg, const char *text, size_t len), void *arg, struct err *err);

#endif
