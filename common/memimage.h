/* memimage: what is said of one image, a rank's part of a checkpoint in memory (docs/checkpoints.md), and the memory file that it is. */
#ifndef BELAY_COMMON_MEMIMAGE_H
#define BELAY_COMMON_MEMIMAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define MEMIMAGE_NAME_MAX  63
#define MEMIMAGE_HASH_SIZE 33                 /* 32 hex digits (checkpoint/digest.h) + NUL */
#define MEMIMAGE_BYTES_MAX (INT64_C(1) << 44) /* 16 TiB: more is a mistake */

struct memimage {
    int64_t step, rank, bytes,
        attempt; /* attempt: the one that made it; whoever hands one over need not say it */
    char name[MEMIMAGE_NAME_MAX +
              1]; /* a file of the checkpoint: letters, digits, '.', '_', '-', not '.' first */
    char hash[MEMIMAGE_HASH_SIZE];
};

/* The fields of an image put into obj, and read from it. Reading checks everything; an absent attempt is 0. 0 or -1 with a sentence. */
void memimage_put(json_t *obj, const struct memimage *image);
int memimage_get(const json_t *obj, struct memimage *out, struct err *err);

/* Is it the same content of the same file? (Who made it does not count.) */
bool memimage_same(const struct memimage *a, const struct memimage *b);

/* A fresh memory file of `bytes` zero bytes (at least 1) whose size cannot change any more; its content can. CLOEXEC. fd or -1. */
int memimage_new(const char *name, int64_t bytes, struct err *err);

/* Seals the size of a memory file. 0, or -1 with a sentence (it was made without MFD_ALLOW_SEALING). */
int memimage_seal(int fd, struct err *err);

/* Is fd a memory file of exactly `bytes` bytes whose size is sealed, so that whoever reads it never runs past its end? 0 or -1. */
int memimage_check(int fd, int64_t bytes, struct err *err);

#endif
