/* commit: rank 0's last part of a save: from shards that all ranks have written to a checkpoint that can be seen. Communicates with nobody. */
#ifndef BELAY_RUNTIME_COMMIT_H
#define BELAY_RUNTIME_COMMIT_H

#include "runtime/run.h"

/* What rank 0 knows of all shards of a save. */
struct commit {
    const char *folder;                      /* hidden, of shelf_begin */
    const struct checkpoint_record *records; /* (n_files) which pieces each has */
    const struct manifest_file *files;       /* (n_files) */
    size_t n_files;
    const struct manifest_state *state;
};

/* Rows of metrics.csv to the disk, manifest, claim check, rename, `latest`. 0; EXIT_ERROR with a sentence (nothing changed on the shelf); EXIT_SUPERSEDED
 * with one. May run in a thread of its own while the main one trains. */
int commit_checkpoint(struct run *run, const struct commit *c, struct err *err);

/* Removes what retention lets go, but for the checkpoint of step `spare`, which is being uploaded (0 = none). It may read the newest one back in full, so it
 * comes after those who wait have heard of that. As above for threads. */
void commit_purge(struct run *run, int64_t spare);

/* After a failure, here or elsewhere: clears the folder ("" = there is none) away. EXIT_SUPERSEDED, with a sentence, when a newer attempt owns the directory, else EXIT_ERROR. */
int commit_abandon(struct run *run, const char *folder, struct err *err);

#endif
