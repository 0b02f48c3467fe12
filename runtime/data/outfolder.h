/* outfolder: the folder that belay-train prepare fills. It is its own while it works, and what an interrupted one left there is removed by the
 * next; a folder with anything else in it is left alone. */
#ifndef BELAY_RUNTIME_DATA_OUTFOLDER_H
#define BELAY_RUNTIME_DATA_OUTFOLDER_H

#include <stdbool.h>

#include "common/err.h"

struct outfolder;

/* Makes the folder, or takes an empty one, or one that an interrupted run has left. NULL with a sentence. */
struct outfolder *outfolder_take(const char *path, struct err *err);
/* With the content in place: makes it durable. 0 or -1 with a sentence. */
int outfolder_finish(struct outfolder *f, struct err *err);
/* Lets go of it. Without outfolder_finish, what is in it counts as left by an interrupted run. */
void outfolder_close(struct outfolder *f);

/* Is the folder one that prepare has filled, or has begun to, and nobody else has put anything into? What is in it is no text. */
bool outfolder_made(const char *path);

#endif
