/* rank_log: what a rank prints, in files that are rotated by size.
 *
 * Segment names carry the offset at which they start, counted in bytes ever written: rank-00003.000000000000.log. */
#ifndef BELAY_AGENT_SHIM_RANK_LOG_H
#define BELAY_AGENT_SHIM_RANK_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define RANK_LOG_SEGMENT_BYTES (64u << 20)
#define RANK_LOG_SEGMENTS      4 /* kept, the one being written included */

struct rank_log;

/* Opens the first segment of `rank` in dir (which exists); segment_bytes 0 = the default. NULL with a sentence. */
struct rank_log *rank_log_open(const char *dir, int64_t rank, size_t segment_bytes, struct err *err);
void rank_log_close(struct rank_log *log);

/* Appends. What cannot be written (a full disk) is counted and said in the log itself once writing works again. */
void rank_log_write(struct rank_log *log, const void *data, size_t len);

/* Bytes ever written. */
uint64_t rank_log_size(const struct rank_log *log);

#endif
