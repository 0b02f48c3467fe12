/* source: the texts that are to become tokens, as a list of files cut into pieces of about a mebibyte that can be worked on apart. Which pieces
 * there are depends on the files alone. */
#ifndef BELAY_RUNTIME_DATA_SOURCE_H
#define BELAY_RUNTIME_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct source;

struct source *source_new(void);
void source_free(struct source *s);

/* Adds a file, or all files of a folder and the folders in it, in the order of their names; hidden ones are left out. Names that end in
 * .jsonl are JSON lines, all others text, a document each. A file that is not text (a zero byte in its beginning) is refused when it
 * was named, and left out when it was found in a folder. 0, or -1 with a sentence. */
int source_add(struct source *s, const char *path, struct err *err);

size_t source_files(const struct source *s);
uint64_t source_bytes(const struct source *s);  /* of all files */
size_t source_left_out(const struct source *s); /* files in folders that are not text */
const char *source_path(const struct source *s, size_t file);

struct piece {
    size_t file;
    uint64_t offset;
    size_t len;
    bool jsonl; /* whole lines */
    bool last;  /* a document of text ends with it */
};

/* Takes the next piece; false at the end, or (err->text not empty, which must begin empty) when a file cannot be read. Text is cut only where
 * `cut` allows, and no tokenizer looks over such a place: behind the end of a line that ends in a visible ASCII character, when the next one
 * begins with an ASCII letter. The pieces of a line of text then are those of the whole (GPT-2, cl100k, Llama 3). */
bool source_next(struct source *s, bool cut, struct piece *out, struct err *err);

/* Begins with the first piece again. */
void source_rewind(struct source *s);

/* The number (from 1) of the line of a file that begins at `offset`. Reads all before it. 0 when the file cannot be read any more. */
uint64_t source_line(const struct source *s, size_t file, uint64_t offset);

#endif
