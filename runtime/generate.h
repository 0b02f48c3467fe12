/* generate: texts that go on from prompts, several at once. */
#ifndef BELAY_RUNTIME_GENERATE_H
#define BELAY_RUNTIME_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/inference.h"
#include "runtime/text/sampling.h"

struct generate_options {
    size_t max_tokens; /* of each text, at least 1 */
    struct sampling sampling;
    bool stop;  /* at the tokenizer's end of text */
    bool cache; /* false: every token by a pass over the whole text, to compare with */
};

struct generate_text {
    const int32_t *prompt; /* (n_prompt) borrowed, at least one */
    size_t n_prompt;
    uint64_t sample; /* the draws depend on the prompt and this number */
    /* What came of it; the caller frees both arrays. */
    int32_t *tokens;           /* (n), without the end of text */
    double *log_probabilities; /* (n) of the tokens, by the model itself */
    size_t n;
    bool ended; /* by the end of text */
};

/* Called for each token as soon as it is chosen, those of one text in order. */
typedef void generate_each(void *arg, size_t text, int32_t id, double log_probability);

/* Seconds and tokens of prompts, and of what was generated. */
struct generate_times {
    double prompt_s, tokens_s;
    size_t prompt, tokens;
};

/* Fills the texts (count >= 1), which are worked on together, but come out as if alone, up to rounding. Adds to *times. 0, or -1 with a sentence: a
 * prompt and max_tokens are more than the model's context, memory is short, or the logits are no numbers. */
int generate(const struct inference *inference, const struct generate_options *options,
             struct generate_text *texts, size_t count, generate_each *each, void *arg,
             struct generate_times *times, struct err *err);

#endif
