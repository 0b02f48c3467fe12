/* objects_xml: the answers of object storage, which are XML and come from outside. Pure.
 *
 * All kinds of them in one struct: what an answer does not have stays empty. */
#ifndef BELAY_CHECKPOINT_OBJECTS_XML_H
#define BELAY_CHECKPOINT_OBJECTS_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define OBJECTS_XML_MAX  (8u << 20) /* bytes of an answer; a page of a list has a thousand entries */
#define OBJECTS_TEXT_MAX 2047       /* of one element */

/* An object, a folder, a part, or an upload that is under way. */
struct objects_item {
    char *key;  /* of a folder: its prefix. NULL for a part */
    char *id;   /* of an upload, else NULL */
    char *etag; /* of a part or an object, as it came; else NULL */
    uint64_t bytes;
    int part; /* 1 to OBJECTS_PARTS_MAX, 0 = none */
    bool folder;
};

struct objects_answer {
    char *root;                    /* "Error", "ListBucketResult", … */
    char *code, *message, *region; /* of an error */
    char *upload_id, *etag;        /* of an upload that begins or is complete */
    bool truncated;                /* more follows, behind these: */
    char *next_token, *next_key, *next_id, *next_part;
    struct objects_item *items;
    size_t n_items;
};

/* Reads an answer; objects_answer_clear frees what it holds. Documents with a DOCTYPE, deep ones, and numbers that are none are refused. 0, or -1 with a
 * sentence and an empty answer. */
int objects_answer_read(const char *text, size_t len, struct objects_answer *out, struct err *err);
void objects_answer_clear(struct objects_answer *answer);

#endif
