/* audit: all that is wrong with a checkpoint, file by file. The files may be looked at by several threads at once. */
#ifndef BELAY_CHECKPOINT_AUDIT_H
#define BELAY_CHECKPOINT_AUDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "checkpoint/manifest.h"
#include "common/err.h"

struct audit;

/* Reads the manifest of a checkpoint folder, which is checked by that (manifest.h), and compares its step with the folder's name. NULL with a
 * sentence that names the file. */
struct audit *audit_open(const char *folder, struct err *err);
void audit_close(struct audit *audit);

/* Borrowed, until audit_close. */
const struct manifest *audit_manifest(const struct audit *audit);
const char *audit_folder(const struct audit *audit);
/* Bytes of all files by the manifest. */
uint64_t audit_bytes(const struct audit *audit);

/* Is file i of the manifest there with its size? In full: has it its hash, and does it hold the tensors that the manifest says are in it, in their
 * shapes? watch (may be NULL) hears of what is read. 0, or -1 with a sentence that names the file. */
int audit_file(const struct audit *audit, size_t i, bool full, const struct digest_watch *watch,
               struct err *err);

#endif
