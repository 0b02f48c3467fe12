/* objects_hint: what to do about an answer of object storage that is an error. Pure. */
#ifndef BELAY_CHECKPOINT_OBJECTS_HINT_H
#define BELAY_CHECKPOINT_OBJECTS_HINT_H

#include <stddef.h>

/* Writes "; make the bucket, or …" or "" to out. region: where the server says that the bucket is, or NULL. Returns out. */
const char *objects_hint(const char *code, const char *region, char *out, size_t size);

#endif
