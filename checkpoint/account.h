/* account: how much of checkpoints this process has read from storage. Files of checkpoints in memory (memfds, which have no name) do not count: a restart
 * from memory shows by this number that it took nothing from storage. */
#ifndef BELAY_CHECKPOINT_ACCOUNT_H
#define BELAY_CHECKPOINT_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Is the open file one on storage? */
bool account_counts(int fd);
/* So many bytes were read from such a file. Any thread. */
void account_read(uint64_t bytes);
/* The same of a file that is not open. */
void account_file(const char *path, uint64_t bytes);
/* All of them so far. */
uint64_t account_total(void);

#endif
