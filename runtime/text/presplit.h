/* presplit: cuts a text into the pieces within which byte pairs are merged, exactly as the published patterns do.
 *
 * GPT-2 (github.com/openai/gpt-2, src/encoder.py):
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * cl100k (tiktoken) and Llama 3 (the same pattern):
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * No pattern is run: what each alternative would match is found by walking over the kinds of characters, in time that grows with the
 * text and without a limit on its length. What is cut next depends only on the text from there on. */
#ifndef BELAY_RUNTIME_PRESPLIT_H
#define BELAY_RUNTIME_PRESPLIT_H

#include <stddef.h>

enum presplit { PRESPLIT_NONE, PRESPLIT_GPT2, PRESPLIT_LLAMA3, PRESPLIT_COUNT };

/* "none", "gpt2" or "llama3". */
const char *presplit_name(enum presplit kind);
/* The pattern as text, as Hugging Face's files have it; NULL for PRESPLIT_NONE. */
const char *presplit_pattern(enum presplit kind);

/* The end (at < end <= len) of the piece that begins at text[at]. PRESPLIT_NONE: one piece. */
size_t presplit_next(enum presplit kind, const char *text, size_t len, size_t at);

#endif
