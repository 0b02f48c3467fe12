/* printer: generated texts on standard output: as they come, one after the other, or as JSON lines. */
#ifndef BELAY_RUNTIME_PRINTER_H
#define BELAY_RUNTIME_PRINTER_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/generate.h"
#include "runtime/text/utf8out.h"

struct printer {
    const struct tokenizer *tokenizer;
    bool json; /* an object a line for each text */
    bool
        log_probabilities; /* with JSON a list; else a line for each token: id, logarithm, the token in quotes */
    bool echo;             /* the prompt, too */
    bool alone;            /* there is one text only: it is printed as it comes, and has no heading */
    struct utf8out utf8;
};

/* For generate(): prints a token of the only text at once; arg is the printer. */
void printer_token(void *arg, size_t text, int32_t id, double log_probability);
/* Before the tokens of the only text. */
void printer_begin(struct printer *p, const struct generate_text *text);
/* A finished text; what printer_token has printed of it is not repeated. Numbers from 0. */
void printer_text(struct printer *p, const struct generate_text *text, size_t prompt, size_t sample);

#endif
