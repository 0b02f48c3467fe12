/* data: the corpora of a run, and which of their sequences is the k-th sample.
 *
 * Each corpus is one row of tokens, cut into sequences of context+1 tokens that overlap by one; the few tokens at its end that fill no
 * sequence are not used (data_unused). The last train.data.holdout of each corpus' sequences are held out: in one block, because a
 * document that goes over a border of sequences would else be learned from one side and tested from the other; no target of theirs is ever
 * trained on.
 *
 * The whole data position of a run is one number, the count of samples used so far. Which sequence a sample is depends only on (seed, weights,
 * sizes, sample index): ranks, meshes and restarts do not enter into it. */
#ifndef BELAY_RUNTIME_DATA_H
#define BELAY_RUNTIME_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "schema/job.h"

struct data;

/* Opens what train.data says for a run: corpora (corpus.h) with their weights, and the part held out, which is the corpus of train.eval.path
 * where there is one. NULL with a sentence: a corpus cannot
 * be read, is shorter than one sequence, has nothing to hold out, or its vocabulary or tokenizer is not the job's. */
struct data *data_open(const struct job_train *train, struct err *err);
void data_close(struct data *data);

uint64_t data_tokens(const struct data *data);    /* of all corpora */
uint64_t data_sequences(const struct data *data); /* to train on: with one corpus, samples of an epoch */
uint64_t data_held(const struct data *data);      /* held out */
uint64_t
data_unused(const struct data
                *data); /* tokens at the ends of corpora that fill no sequence; below context for each */
/* A hash of the corpora, weights and held-out part: tells whether a resumed run sees the same samples. */
uint64_t data_fingerprint(const struct data *data);
/* Of the tokenizer whose tokens they are, 0 when none of the corpora says. */
uint64_t data_tokenizer(const struct data *data);
/* One line for people: what there is. The caller frees. */
char *data_describe(const struct data *data);

struct data_place {
    size_t corpus;
    uint64_t epoch, sequence; /* epoch of this corpus */
};
/* Where sample `sample` of a run comes from. Within an epoch of a corpus each of its sequences is visited exactly once. */
struct data_place data_place(const struct data *data, uint64_t seed, uint64_t sample);

/* Fills tokens and targets (count,T) with training samples first..first+count-1 of the run; targets are the tokens one further on, -1
 * where they are not to be counted. 0, or -1 with a sentence when a token is not below train.model.vocab. */
int data_fill(const struct data *data, uint64_t seed, uint64_t first, size_t count, int32_t *tokens,
              int32_t *targets, struct err *err);
/* The same for sequences first..first+count-1 (below data_held) of the held-out part, in a fixed order: each once, the corpora in turn by
 * their sizes, each corpus' in a shuffled order, so that the first few already are a fair sample. */
int data_fill_held(const struct data *data, uint64_t first, size_t count, int32_t *tokens, int32_t *targets,
                   struct err *err);

#endif
