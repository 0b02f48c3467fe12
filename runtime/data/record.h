/* record: one line of a JSONL file as the text to learn. */
#ifndef BELAY_RUNTIME_DATA_RECORD_H
#define BELAY_RUNTIME_DATA_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#define RECORD_LINE_MAX                                                                                      \
    (64u << 20) /* bytes of a line: longer ones are another format that lost its line ends */

struct record {
    bool empty;                  /* a blank line: nothing below is set */
    const char *prompt;          /* not to be counted as a target; NULL when there is none */
    const char *text;            /* to be learned */
    size_t prompt_len, text_len; /* they may hold zero bytes */
    json_t *owner;               /* of both strings */
};

/* Reads a line: an object whose member `field` is the text. With field NULL it is "text", else "prompt" and "completion", of which
 * the first is context only. 0 and *out for record_clear, or -1 with a sentence that says what the line lacks. */
int record_parse(const char *line, size_t len, const char *field, struct record *out, struct err *err);
void record_clear(struct record *r);

#endif
