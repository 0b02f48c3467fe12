/* generate: see generate.h. A reader takes tokens and gives logits, by keeping keys and values (decode.h), or by reading all of the texts again. */
#include "runtime/generate.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "runtime/model/decode.h"

struct reader {
    struct decode *decode; /* or NULL: */
    struct model *model;
    size_t count, context, vocab; /* B, T */
    int32_t *texts;               /* (B,T); what is not read yet is 0, and nothing looks ahead at it */
    size_t *lengths;              /* (B) */
};

struct work {
    const struct generate_options *options;
    struct generate_text *texts;
    size_t count, vocab, known; /* B; of the model; of these the tokenizer knows */
    int32_t end;                /* id of the end of text, -1: go on */
    uint64_t *streams;          /* (B) */
    bool *done;                 /* (B) */
    size_t *feed;               /* (B) tokens that are read next, of each */
    int32_t *tokens;            /* these */
    real *logits;               /* (B, vocab) */
    generate_each *each;
    void *arg;
};

/* ---- reading ---- */

static int reader_open(struct reader *r, const struct inference *in, bool cache, size_t count, size_t context,
                       struct err *err)
{
    struct model_request request = inference_request(in);
    *r = (struct reader){.count = count, .context = context, .vocab = (size_t)in->config.vocab};
    request.context = context;
    if (cache) {
        request.sequences = count;
        r->decode = decode_new(&request, err);
        return r->decode ? 0 : -1;
    }
    request.batch = count;
    r->model = model_new(&request, err);
    r->texts = mem_zero(count * context, sizeof *r->texts);
    r->lengths = mem_zero(count, sizeof *r->lengths);
    return r->model ? 0 : -1;
}

static void reader_close(struct reader *r)
{
    decode_free(r->decode);
    model_free(r->model);
    free(r->texts);
    free(r->lengths);
}

static int read_whole(const struct reader *r, const int32_t *tokens, const size_t *counts, real *logits)
{
    int32_t *rows = mem_zero(r->count, sizeof *rows);
    real *found = mem_zero(r->count * r->vocab, sizeof *found);
    struct model_batch batch = {.tokens = r->texts};
    size_t n = 0;
    for (size_t b = 0; b < r->count; b++) {
        memcpy(r->texts + b * r->context + r->lengths[b], tokens, counts[b] * sizeof *tokens);
        tokens += counts[b];
        r->lengths[b] += counts[b];
        if (counts[b] > 0)
            rows[n++] = (int32_t)(b * r->context + r->lengths[b] - 1);
    }
    model_logits(r->model, &batch, rows, n, found);
    for (size_t i = 0; i < n; i++)
        memcpy(logits + (size_t)rows[i] / r->context * r->vocab, found + i * r->vocab,
               r->vocab * sizeof *found);
    free(rows);
    free(found);
    return 0;
}

/* As decode_feed. */
static int reader_feed(const struct reader *r, const int32_t *tokens, const size_t *counts, real *logits,
                       struct err *err)
{
    return r->decode ? decode_feed(r->decode, tokens, counts, logits, err)
                     : read_whole(r, tokens, counts, logits);
}

/* ---- choosing ---- */

/* Takes the next token of text b, which is fed next. 0, or -1 with a sentence. */
static int choose(struct work *w, size_t b, struct err *err)
{
    struct generate_text *t = &w->texts[b];
    const real *logits = w->logits + b * w->vocab;
    int32_t id = sampling_pick(&w->options->sampling, logits, w->known, w->streams[b], t->n_prompt + t->n);
    if (id < 0)
        return err_set(err,
                       "the model gives no numbers after %zu tokens; it may come from a run that diverged",
                       t->n_prompt + t->n);
    t->ended = id == w->end;
    w->done[b] = t->ended || t->n + 1 == w->options->max_tokens;
    if (t->ended)
        return 0;
    t->tokens[t->n] = id;
    t->log_probabilities[t->n] = sampling_log_probability(logits, w->vocab, id);
    if (w->each)
        w->each(w->arg, b, id, t->log_probabilities[t->n]);
    t->n++;
    return 0;
}

/* Chooses for all texts that go on. How many tokens there are to read, or -1 with a sentence. */
static int choose_all(struct work *w, struct err *err)
{
    int n = 0;
    for (size_t b = 0; b < w->count; b++) {
        w->feed[b] = 0;
        if (!w->done[b] && choose(w, b, err) != 0)
            return -1;
        if (w->done[b])
            continue;
        w->feed[b] = 1;
        w->tokens[n++] = w->texts[b].tokens[w->texts[b].n - 1];
    }
    return n;
}

static int run(struct work *w, const struct reader *reader, struct generate_times *times, struct err *err)
{
    double begin = clock_monotonic_s();
    if (reader_feed(reader, w->tokens, w->feed, w->logits, err) != 0)
        return -1;
    double read = clock_monotonic_s();
    times->prompt_s += read - begin;
    int n;
    while ((n = choose_all(w, err)) > 0)
        if (reader_feed(reader, w->tokens, w->feed, w->logits, err) != 0)
            return -1;
    times->tokens_s += clock_monotonic_s() - read;
    for (size_t b = 0; b < w->count; b++) {
        times->prompt += w->texts[b].n_prompt;
        times->tokens += w->texts[b].n;
    }
    return n;
}

/* ---- around it ---- */

/* Tokens that the longest text may come to. */
static size_t longest(const struct generate_options *o, const struct generate_text *texts, size_t count)
{
    size_t most = 0;
    for (size_t b = 0; b < count; b++)
        most = texts[b].n_prompt > most ? texts[b].n_prompt : most;
    return most + o->max_tokens;
}

static int check(const struct inference *in, const struct generate_options *o,
                 const struct generate_text *texts, size_t count, struct err *err)
{
    size_t context = (size_t)in->config.context;
    for (size_t b = 0; b < count; b++)
        if (texts[b].n_prompt > context || o->max_tokens > context - texts[b].n_prompt)
            return err_set(
                err,
                "a prompt of %zu tokens and %zu more do not fit the model's context of %zu; ask for "
                "fewer by --max-tokens, or shorten the prompt",
                texts[b].n_prompt, o->max_tokens, context);
    return 0;
}

static void begin(struct work *w)
{
    size_t sum = 0;
    for (size_t b = 0; b < w->count; b++)
        sum += w->texts[b].n_prompt;
    w->streams = mem_zero(w->count, sizeof *w->streams);
    w->done = mem_zero(w->count, sizeof *w->done);
    w->feed = mem_zero(w->count, sizeof *w->feed);
    w->tokens = mem_zero(sum, sizeof *w->tokens); /* the prompts, and later one of each */
    w->logits = mem_zero(w->count * w->vocab, sizeof *w->logits);
    sum = 0;
    for (size_t b = 0; b < w->count; b++) {
        struct generate_text *t = &w->texts[b];
        w->streams[b] = sampling_stream(t->prompt, t->n_prompt, t->sample);
        w->feed[b] = t->n_prompt;
        memcpy(w->tokens + sum, t->prompt, t->n_prompt * sizeof *t->prompt);
        sum += t->n_prompt;
        t->tokens = mem_zero(w->options->max_tokens, sizeof *t->tokens);
        t->log_probabilities = mem_zero(w->options->max_tokens, sizeof *t->log_probabilities);
        t->n = 0;
        t->ended = false;
    }
}

static void end(struct work *w)
{
    free(w->streams);
    free(w->done);
    free(w->feed);
    free(w->tokens);
    free(w->logits);
}

int generate(const struct inference *inference, const struct generate_options *options,
             struct generate_text *texts, size_t count, generate_each *each, void *arg,
             struct generate_times *times, struct err *err)
{
    struct reader reader;
    struct work w = {.options = options,
                     .texts = texts,
                     .count = count,
                     .vocab = (size_t)inference->config.vocab,
                     .known = tokenizer_vocab(inference->tokenizer),
                     .end = options->stop ? tokenizer_end(inference->tokenizer) : -1,
                     .each = each,
                     .arg = arg};
    if (check(inference, options, texts, count, err) != 0)
        return -1;
    int rc = reader_open(&reader, inference, options->cache, count, longest(options, texts, count), err);
    begin(&w);
    if (rc == 0)
        rc = run(&w, &reader, times, err);
    end(&w);
    reader_close(&reader);
    return rc;
}
