/* data: see data.h. Of a corpus' sequences, the first `train` are trained on and the `held` after them are held out. A corpus for evaluation
 * alone comes behind those of the training, all of it held out. */
#include "runtime/data/data.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/mem.h"
#include "runtime/data/corpus.h"
#include "runtime/data/order.h"
#include "runtime/text/tokenizer.h"

#define HELD_SEED 0 /* the order of evaluation is the same for every run */

struct data {
    struct corpus **corpora;
    uint64_t *train, *held; /* sequences of each corpus */
    uint64_t *units;        /* their weights */
    size_t n;               /* corpora, that of train.eval.path, too */
    size_t learnt;          /* those of train.data: the first ones */
    uint64_t all_train, all_held, unused, tokens;
    int64_t vocab;
    size_t context;
};

/* ---- opening ---- */

/* Are its tokens those of the job? */
static int check_tokens(const struct corpus *c, const struct job_train *train, struct err *err)
{
    int64_t vocab = train->model.vocab;
    if (corpus_is_text(c) && train->tokenizer && strcmp(train->tokenizer, "bytes") != 0)
        return err_set(err,
                       "%s is text, which is read as bytes only, but train.data.tokenizer is %s; make "
                       "token files with: belay-train prepare --tokenizer %s --out FOLDER %s",
                       corpus_path(c), train->tokenizer, train->tokenizer, corpus_path(c));
    if (corpus_vocab(c) <= (uint64_t)vocab)
        return 0;
    return err_set(err,
                   "%s has a vocabulary of %" PRIu64 " tokens, train.model.vocab is %" PRId64
                   "; set vocab to at least %" PRIu64,
                   corpus_path(c), corpus_vocab(c), vocab, corpus_vocab(c));
}

/* "No such file" is no help to whoever sees it in another folder. */
static int cannot_open(const char *path, struct err *err)
{
    struct err why = *err;
    char *cwd = path[0] != '/' && access(path, F_OK) != 0 ? realpath(".", NULL) : NULL;
    if (cwd)
        err_set(err, "%s; relative paths start at the folder of the submit (by hand: the working folder), %s",
                why.text, cwd);
    free(cwd);
    return -1;
}

/* Prepared files say which tokenizer made them: is it the job's? */
static int check_tokenizer(const struct corpus *c, const struct job_train *train, struct err *err)
{
    if (corpus_tokenizer(c) == 0 || !train->tokenizer)
        return 0;
    struct tokenizer *t = tokenizer_open(train->tokenizer, err);
    if (!t) {
        (void)cannot_open(train->tokenizer, err);
        return err_prefix(err, "train.data.tokenizer");
    }
    bool same = tokenizer_fingerprint(t) == corpus_tokenizer(c);
    tokenizer_free(t);
    if (same)
        return 0;
    return err_set(err,
                   "%s was made with another tokenizer than train.data.tokenizer, %s; name the one "
                   "it was made with (a folder of belay-train prepare is one: tokenizer: %s)",
                   corpus_path(c), train->tokenizer, corpus_path(c));
}

/* One more corpus, whose tokens are the job's; *sequences of it. */
static int add_corpus(struct data *d, const char *path, const struct job_train *train, uint64_t *sequences,
                      struct err *err)
{
    struct corpus *c = corpus_open(path, err);
    if (!c)
        return cannot_open(path, err);
    d->corpora[d->n++] = c;
    if (check_tokens(c, train, err) != 0 || check_tokenizer(c, train, err) != 0)
        return -1;
    uint64_t tokens = corpus_tokens(c);
    *sequences = tokens == 0 ? 0 : (tokens - 1) / d->context;
    if (*sequences > 0)
        return 0;
    return err_set(err,
                   "%s has %" PRIu64 " tokens, fewer than one sequence of %zu+1 "
                   "(train.model.context); give more text or a shorter context",
                   corpus_path(c), tokens, d->context);
}

/* The newest corpus, which has `all` sequences. */
static int split(struct data *d, uint64_t all, double holdout, struct err *err)
{
    size_t i = d->n - 1;
    uint64_t tokens = corpus_tokens(d->corpora[i]);
    const char *path = corpus_path(d->corpora[i]);
    uint64_t held = holdout > 0 ? (uint64_t)llround(holdout * (double)all) : 0;
    if (holdout > 0 && all == 1)
        return err_set(err,
                       "%s is one sequence of train.model.context; nothing can be held out of "
                       "it (train.data.holdout): give more text or a shorter context",
                       path);
    if (holdout > 0 && held == 0)
        held = 1;
    d->held[i] = held < all ? held : all - 1;
    d->train[i] = all - d->held[i];
    d->all_held += d->held[i];
    d->all_train += d->train[i];
    d->tokens += tokens;
    d->unused += (tokens - 1) % d->context;
    return 0;
}

/* What is not learned from: all of it is held out. */
static int open_eval(struct data *d, const struct job_train *train, struct err *err)
{
    if (!train->eval_path)
        return 0;
    if (add_corpus(d, train->eval_path, train, &d->held[d->n], err) != 0)
        return err_prefix(err, "train.eval.path");
    d->all_held += d->held[d->n - 1];
    return 0;
}

static int open_corpora(struct data *d, const struct job_train *train, struct err *err)
{
    double *weights = mem_zero(train->n_corpora, sizeof *weights);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < train->n_corpora; i++) {
        uint64_t all;
        weights[i] = train->corpora[i].weight;
        rc = add_corpus(d, train->corpora[i].path, train, &all, err);
        if (rc == 0)
            rc = split(d, all, train->holdout, err);
    }
    d->learnt = d->n;
    if (rc == 0)
        order_units(weights, d->learnt, d->units);
    free(weights);
    return rc == 0 ? open_eval(d, train, err) : err_prefix(err, "train.data");
}

struct data *data_open(const struct job_train *train, struct err *err)
{
    struct data *d = mem_zero(1, sizeof *d);
    size_t n = train->n_corpora + (train->eval_path != NULL);
    d->vocab = train->model.vocab;
    d->context = (size_t)train->model.context;
    d->corpora = mem_zero(n, sizeof(struct corpus *));
    d->train = mem_zero(n, sizeof *d->train);
    d->held = mem_zero(n, sizeof *d->held);
    d->units = mem_zero(n, sizeof *d->units);
    if (open_corpora(d, train, err) == 0)
        return d;
    data_close(d);
    return NULL;
}

void data_close(struct data *data)
{
    if (!data)
        return;
    for (size_t i = 0; i < data->n; i++)
        corpus_close(data->corpora[i]);
    free(data->corpora);
    free(data->train);
    free(data->held);
    free(data->units);
    free(data);
}

/* ---- what there is ---- */

uint64_t data_tokens(const struct data *data)
{
    return data->tokens;
}

uint64_t data_sequences(const struct data *data)
{
    return data->all_train;
}

uint64_t data_held(const struct data *data)
{
    return data->all_held;
}

uint64_t data_unused(const struct data *data)
{
    return data->unused;
}

uint64_t data_fingerprint(const struct data *data)
{
    uint64_t hash = data->learnt;
    for (size_t i = 0; i < data->learnt; i++) {
        uint64_t of_corpus[] = {corpus_fingerprint(data->corpora[i]), data->units[i], data->held[i]};
        hash = XXH3_64bits_withSeed(of_corpus, sizeof of_corpus, hash);
    }
    return hash;
}

uint64_t data_tokenizer(const struct data *data)
{
    uint64_t found = 0;
    for (size_t i = 0; i < data->n && found == 0; i++)
        found = corpus_tokenizer(data->corpora[i]);
    return found;
}

char *data_describe(const struct data *data)
{
    char *what =
        data->learnt == 1 ? str_dup(corpus_path(data->corpora[0])) : str_printf("%zu corpora", data->learnt);
    char *held = data->n > data->learnt ? str_printf(", evaluated on %" PRIu64 " of %s", data->all_held,
                                                     corpus_path(data->corpora[data->learnt]))
                 : data->all_held > 0   ? str_printf(", %" PRIu64 " held out", data->all_held)
                                        : str_dup("");
    char *unused =
        data->unused > 0 ? str_printf(", %" PRIu64 " tokens at the end unused", data->unused) : str_dup("");
    char *line = str_printf("%s, %" PRIu64 " tokens, %" PRIu64 " sequences%s%s", what, data->tokens,
                            data->all_train, held, unused);
    free(what);
    free(held);
    free(unused);
    return line;
}

/* ---- samples ---- */

struct data_place data_place(const struct data *data, uint64_t seed, uint64_t sample)
{
    struct order_place place = order_mix(data->units, data->learnt, sample);
    uint64_t n = data->train[place.corpus];
    return (struct data_place){.corpus = place.corpus,
                               .epoch = place.index / n,
                               .sequence = order_pick(n, order_seed(seed, place.corpus), place.index)};
}

static struct data_place held_place(const struct data *data, uint64_t i)
{
    struct order_place place = order_mix(data->held, data->n, i);
    uint64_t pick = order_pick(data->held[place.corpus], order_seed(HELD_SEED, place.corpus), place.index);
    return (struct data_place){.corpus = place.corpus, .sequence = data->train[place.corpus] + pick};
}

/* tokens, targets (T) */
static int read_sequence(const struct data *d, struct data_place place, int32_t *tokens, int32_t *targets,
                         struct err *err)
{
    const struct corpus *c = d->corpora[place.corpus];
    uint64_t at = place.sequence * d->context;
    if (corpus_read(c, at, d->context, d->vocab, false, tokens, err) != 0)
        return -1;
    return corpus_read(c, at + 1, d->context, d->vocab, true, targets, err);
}

int data_fill(const struct data *data, uint64_t seed, uint64_t first, size_t count, int32_t *tokens,
              int32_t *targets, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t to = i * data->context;
        if (read_sequence(data, data_place(data, seed, first + i), tokens + to, targets + to, err) != 0)
            return -1;
    }
    return 0;
}

int data_fill_held(const struct data *data, uint64_t first, size_t count, int32_t *tokens, int32_t *targets,
                   struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t to = i * data->context;
        if (read_sequence(data, held_place(data, first + i), tokens + to, targets + to, err) != 0)
            return -1;
    }
    return 0;
}
