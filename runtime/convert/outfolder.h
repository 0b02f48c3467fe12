/* outfolder: a folder that is there whole or not at all: filled under another name beside its place, then renamed. */
#ifndef BELAY_RUNTIME_OUTFOLDER_H
#define BELAY_RUNTIME_OUTFOLDER_H

#include "common/err.h"

/* Makes the folder to be filled; `path` must not be there, or be an empty folder. The caller frees; NULL with a sentence. */
char *outfolder_begin(const char *path, struct err *err);
/* Gives it its name, durably. 0, or -1 with a sentence. */
int outfolder_commit(const char *folder, const char *path, struct err *err);
/* The same for a file; one that has the name by now is left alone, and what was to get it removed. */
int outfolder_commit_file(const char *file, const char *path, struct err *err);
/* Makes the folders above a path. 0, or -1 with a sentence. */
int outfolder_above(const char *path, struct err *err);
/* Removes what is not to be had. */
void outfolder_drop(const char *folder);

#endif
