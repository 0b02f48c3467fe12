/* images: what a shim holds of the memory tier: memory files by name and step, the newest two of each name.
 *
 * An image that is being sent, or for which somebody waits, is held on to (images_use) although the store has let go of it; its memory is
 * given back when nobody has it any more. */
#ifndef BELAY_AGENT_SHIM_IMAGES_H
#define BELAY_AGENT_SHIM_IMAGES_H

#include <stddef.h>

#include "common/memimage.h"

#define IMAGES_A_NAME 2 /* one is whole while the other is being written */

struct images;

struct held {
    struct memimage is;
    int fd;
    int uses;
};

struct images *images_new(void);
void images_free(struct images *s); /* takes NULL; what is in use stays until images_drop */

/* Takes fd over. A new image of this attempt. Those of its name with the same or a later step are let go (training went back to before them), then
 * the oldest beyond two. When its attempt had held an earlier step of that name, everybody has held that step by now, and whatever is older is
 * let go under any name: what earlier attempts left here, and ranks that are elsewhere now, would stay for ever. */
struct held *images_hold(struct images *s, const struct memimage *image, int fd);

/* Takes fd over. An image that was held elsewhere: the same step of the same attempt is replaced, and of all of its name those two stay that were made
 * last (by attempt, then step); that may be others. Never NULL: what does not stay lives while it is used. The result has one use. */
struct held *images_adopt(struct images *s, const struct memimage *image, int fd);

/* Makes room for an image that is about to come and to be held, so that never more than two of a name take memory: what it will end goes now, then the
 * oldest. */
void images_make_room(struct images *s, const struct memimage *image);

/* The image with that content, or NULL. */
struct held *images_find(const struct images *s, const struct memimage *want);

size_t images_count(const struct images *s);
const struct held *images_at(const struct images *s, size_t i); /* in no order */

struct held *images_use(struct held *h); /* h */
void images_drop(struct held *h);        /* takes NULL */

#endif
