/* ckptfind: from a word on the command line to checkpoints on storage: a directory of them, the folder of one, or the directory of a job. */
#ifndef BELAY_LAUNCHER_CKPTFIND_H
#define BELAY_LAUNCHER_CKPTFIND_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/args.h"

struct ckptfind {
    char *directory; /* of the checkpoints */
    char *folder;    /* of the one that the word names, else NULL */
};

/* CLI_DONE with *out (ckptfind_clear); else prints a sentence and returns the exit code. Only for a job the server is asked. */
int ckptfind(const struct args *args, const char *word, struct ckptfind *out);
/* The same for what cannot be one checkpoint only. */
int ckptfind_directory(const struct args *args, const char *word, struct ckptfind *out);
void ckptfind_clear(struct ckptfind *found);

/* The one checkpoint that is meant: the word's own, that of `step`, or, step -1, the newest: by its name or, `complete`, of those that have all
 * their files. CLI_DONE with *folder (free), or as above. */
int ckptfind_one(const struct ckptfind *found, int64_t step, bool complete, char **folder);

/* Does the word name object storage (s3://BUCKET/PREFIX) and no file? */
bool ckptfind_is_remote(const char *word);

/* May the directory be changed: has no run that goes on claimed it? CLI_DONE when not, or with force; else says so. */
int ckptfind_unclaimed(const char *directory, bool force);

#endif
