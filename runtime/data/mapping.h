/* mapping: a whole file in memory, read-only and shared; it costs address space, not memory. */
#ifndef BELAY_RUNTIME_DATA_MAPPING_H
#define BELAY_RUNTIME_DATA_MAPPING_H

#include <stddef.h>

#include "common/err.h"

struct mapping {
    const unsigned char *bytes; /* NULL for an empty file */
    size_t size;
};

/* 0, or -1 with a sentence: cannot be opened, or is no regular file. An empty file is mapped as size 0. */
int mapping_open(const char *path, struct mapping *out, struct err *err);
/* What mapping_open gave, or all zeros. */
void mapping_close(struct mapping *m);

#endif
