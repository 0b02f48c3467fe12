/* suggest: the nearest known word for a mistyped one. */
#ifndef BELAY_SCHEMA_SUGGEST_H
#define BELAY_SCHEMA_SUGGEST_H

#include <stddef.h>

/* The word with the least Damerau-Levenshtein distance, when that is at most about a third of its length; else NULL. Of two that are as
 * near the one with the same first letter, else the first, is taken. */
const char *suggest_nearest(const char *word, const char *const *words, size_t count);

#endif
