/* bpe_trainer: trains a byte-level BPE tokenizer on documents, one after the other, of any number and size.
 *
 * Documents are cut into pieces, which are counted by several threads; then merges are learned (bpe_learn.h). The result depends on the
 * documents and their order only, not on the number of threads. Memory is bounded: of more than 4 million different pieces, or 64 MiB of them,
 * the rarest so far are forgotten. A piece longer than 256 bytes counts as several. */
#ifndef BELAY_RUNTIME_BPE_TRAINER_H
#define BELAY_RUNTIME_BPE_TRAINER_H

#include <stddef.h>

#include "common/err.h"
#include "runtime/text/bpe_learn.h"
#include "runtime/text/presplit.h"
#include "runtime/text/tokenizer.h"

struct bpe_trainer;

/* `split` says how text is cut, now and later when it is encoded; `threads` >= 1 count. */
struct bpe_trainer *bpe_trainer_new(enum presplit split, unsigned threads);
void bpe_trainer_free(struct bpe_trainer *tr);

/* Takes in a document of any bytes. */
void bpe_trainer_add(struct bpe_trainer *tr, const char *text, size_t len);

/* A tokenizer of `vocab` tokens: the 256 bytes (an id is the byte's value), those learned, and last <|endoftext|>. It has fewer when no
 * pair of tokens is left that occurs twice (tokenizer_vocab says how many). `progress` (may be NULL) is called after each merge. NULL with
 * a sentence when vocab is not within 257..VOCAB_MAX or there was no text. The trainer cannot be used again. */
struct tokenizer *bpe_trainer_finish(struct bpe_trainer *tr, size_t vocab, bpe_learn_progress *progress,
                                     void *arg, struct err *err);

#endif
