/* codepoint: what kind of character begins at a place of a text of any bytes.
 *
 * The kinds are those that the pre-split patterns of GPT-2, cl100k and Llama 3 tell apart: \p{L}, \p{N}, [\r\n], the rest of \s, and
 * everything else. Categories are Unicode's as utf8proc has them (version 15.0 in Debian 12); \s is the property White_Space, as in
 * the libraries these tokenizers were made with (tiktoken and tokenizers, in Rust; regex, in Python). JavaScript's \s differs in two
 * characters: it lacks U+0085 and has U+FEFF. A byte that is not part of well-formed UTF-8 is a symbol of its own. */
#ifndef BELAY_RUNTIME_CODEPOINT_H
#define BELAY_RUNTIME_CODEPOINT_H

#include <stddef.h>
#include <stdint.h>

enum codepoint_kind {
    CODEPOINT_SYMBOL,  /* [^\s\p{L}\p{N}] */
    CODEPOINT_LETTER,  /* \p{L} */
    CODEPOINT_NUMBER,  /* \p{N} */
    CODEPOINT_SPACE,   /* \s but not [\r\n] */
    CODEPOINT_NEWLINE, /* [\r\n] */
};

/* The kind of the character that begins at text[0], of `len` >= 1 bytes; *bytes (1..4) is how many it has. */
enum codepoint_kind codepoint_at(const char *text, size_t len, size_t *bytes);

/* The kind of a code point 0..0x10ffff. */
enum codepoint_kind codepoint_kind(int32_t value);

#endif
