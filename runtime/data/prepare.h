/* prepare: texts to a folder of token files (belay-train prepare; docs/data.md). */
#ifndef BELAY_RUNTIME_DATA_PREPARE_H
#define BELAY_RUNTIME_DATA_PREPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/text/presplit.h"

struct prepare_options {
    const char *const *inputs; /* files and folders */
    size_t n_inputs;
    const char *tokenizer; /* as tokenizer_open takes it */
    int64_t train_vocab;   /* > 0: train a tokenizer of so many tokens on the inputs instead, */
    enum presplit split;   /* which cuts text like this */
    const char *out;       /* the folder to fill */
    const char *field;     /* member of JSON lines, or NULL (record.h) */
    uint64_t shard_tokens; /* tokens of a shard, at least 1 */
    int jobs;              /* threads that encode, at least 1 */
    bool skip_bad_lines;   /* go on behind a JSON line that is no record */
};

/* What has been done so far. */
struct prepare_progress {
    const char *phase, *unit; /* "tokenizing", "B": what is going on, and what is counted */
    uint64_t done, all;       /* of the phase */
    uint64_t bytes;           /* of all inputs */
    uint64_t tokens, documents, text_bytes, masked;
    uint64_t bad_lines;
    size_t files, left_out, shards;
    int64_t vocab;
    struct err bad; /* the first bad line, when any were skipped */
};

/* Fills the folder. The bytes of the output depend on inputs and options alone, not on `jobs`. `tell` (may be NULL) is called now and then from
 * this thread. *done is what has been made. 0, or -1 with a sentence (a bad line: with its file and number); then the folder is not finished,
 * and the next run with it begins anew. */
int prepare(const struct prepare_options *options, void (*tell)(void *arg, const struct prepare_progress *p),
            void *arg, struct prepare_progress *done, struct err *err);

#endif
