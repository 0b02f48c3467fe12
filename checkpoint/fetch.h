/* fetch: a list of parts of tensors, in files of one folder, that are to be read into memory; file by file, each opened once. */
#ifndef BELAY_CHECKPOINT_FETCH_H
#define BELAY_CHECKPOINT_FETCH_H

#include <stddef.h>

#include "checkpoint/box.h"
#include "common/err.h"

/* Element (i,j) of the box of the file's tensor goes to out[(i-from[0])*step[0] + (j-from[1])*step[1]]. */
struct fetch {
    const char *file, *tensor; /* borrowed: name of the file in its folder, of the tensor in the file */
    struct box box;
    float *out;
    size_t step[2];                                            /* one of them is 1 */
    void (*from_host)(void *out, const void *x, size_t bytes); /* puts it there; NULL: out is the host's */
};

struct fetch_list {
    struct fetch *items;
    size_t count, room;
};

void fetch_add(struct fetch_list *list, const struct fetch *item);
/* Reads all, in the order of files. 0, or -1 with a sentence. */
int fetch_run(struct fetch_list *list, const char *folder, struct err *err);
void fetch_free(struct fetch_list *list);

#endif
