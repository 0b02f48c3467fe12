/* objects_private: what the halves of objects share. */
#ifndef BELAY_CHECKPOINT_OBJECTS_PRIVATE_H
#define BELAY_CHECKPOINT_OBJECTS_PRIVATE_H

#include "checkpoint/objects.h"
#include "checkpoint/objects_xml.h"

/* objects_put of what is larger than one part. */
enum objects_result objects_put_parts(struct objects *o, const char *key, const struct objects_source *source,
                                      uint64_t part, const char *hash, struct err *err);

/* Uploads under way of keys that begin with prefix: their keys and ids. objects_answer_clear frees. A server that cannot list them has none. */
enum objects_result objects_uploads(struct objects *o, const char *prefix, struct objects_answer *out,
                                    struct err *err);
/* Gives an upload up. It may be gone already. */
enum objects_result objects_abort(struct objects *o, const char *key, const char *id, struct err *err);

/* Moves the entries of `from` behind those of `to`, and what follows them. */
void objects_answer_join(struct objects_answer *to, struct objects_answer *from);

#endif
