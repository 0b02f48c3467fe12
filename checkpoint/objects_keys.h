/* objects_keys: the keys that requests are signed with, where the tools of AWS look for them, too. */
#ifndef BELAY_CHECKPOINT_OBJECTS_KEYS_H
#define BELAY_CHECKPOINT_OBJECTS_KEYS_H

#include "common/err.h"

#define OBJECTS_KEY_MAX   255
#define OBJECTS_TOKEN_MAX 4095

/* Secrets: they go into a signature, never into a sentence. Clear them after use. */
struct objects_keys {
    char id[OBJECTS_KEY_MAX + 1], secret[OBJECTS_KEY_MAX + 1];
    char token[OBJECTS_TOKEN_MAX + 1]; /* "" = none */
};

/* From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN when the first two are set; else from the profile AWS_PROFILE (or "default") of
 * AWS_SHARED_CREDENTIALS_FILE (or ~/.aws/credentials). Reads the file each time, since keys that expire are replaced there. 0, or -1 with a
 * sentence that holds no part of a key. */
int objects_keys_load(struct objects_keys *out, struct err *err);
void objects_keys_clear(struct objects_keys *keys);

/* The same from the text of such a file. */
int objects_keys_parse(const char *text, const char *file, const char *profile, struct objects_keys *out,
                       struct err *err);

#endif
