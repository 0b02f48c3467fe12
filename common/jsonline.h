/* jsonline: one JSON object per line over a libevent bufferevent, with a size limit. */
#ifndef BELAY_COMMON_JSONLINE_H
#define BELAY_COMMON_JSONLINE_H

#include <event2/bufferevent.h>
#include <jansson.h>

#include "common/err.h"

#define LINK_LINE_MAX (16u << 20) /* a go order with the map of 3,072 nodes is about 0.5 MiB */

/* Queues msg as one line. The caller keeps its reference. */
void jsonline_send(struct bufferevent *bev, const json_t *msg);

/* Calls fn for each complete line in the input buffer; msg is borrowed. fn returns 0, or -1 to stop (bev is then not
 * touched again, so fn may have freed it). Returns 0, or -1 with a sentence: bad JSON, line too long, or fn's own. */
int jsonline_receive(struct bufferevent *bev, int (*fn)(void *ctx, const json_t *msg, struct err *err),
                     void *ctx, struct err *err);

#endif
