/* prompts: what texts begin with, from the command line, a file or standard input, as tokens. */
#ifndef BELAY_RUNTIME_PROMPTS_H
#define BELAY_RUNTIME_PROMPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/text/tokenizer.h"

/* One of the first three; none: standard input. */
struct prompts_request {
    const char *text;
    const char *file; /* "-" = standard input; the newline at its end is left out */
    const char *ids;  /* "1,2,3" */
    bool lines;       /* each line is a prompt */
    bool begin;       /* the begin of text is put before each: <|begin_of_text|> or <s> */
};

struct prompt {
    int32_t *ids;
    size_t n; /* at least 1 */
};

struct prompts {
    struct prompt *list;
    size_t n;
};

/* An empty prompt becomes the end of text that comes before each document in training. 0, or -1 with a sentence; prompts_clear in both cases. */
int prompts_load(const struct prompts_request *request, const struct tokenizer *tokenizer,
                 struct prompts *prompts, struct err *err);
void prompts_clear(struct prompts *prompts);

#endif
