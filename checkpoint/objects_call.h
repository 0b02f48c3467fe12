/* objects_call: one request to object storage, signed, and tried again while that may help. Used only by objects*.c. */
#ifndef BELAY_CHECKPOINT_OBJECTS_CALL_H
#define BELAY_CHECKPOINT_OBJECTS_CALL_H

#include "checkpoint/objects.h"
#include "checkpoint/objects_xml.h"

#define OBJECTS_ETAG_MAX 127

/* Hashes of what is sent, made while it is read once. */
struct objects_sums {
    char sha256[65]; /* hex */
    char md5[33];    /* hex: the ETag of a part, as most servers make it */
    char md5_base64[25];
};
/* Adds the same bytes to `whole`, which may be NULL. 0, or -1 with a sentence when fd cannot be read. */
int objects_sum(const struct objects_source *source, struct objects_sums *out, struct digest *whole,
                struct err *err);

struct objects_call {
    const char *what;                  /* for sentences: "upload part 3 of" */
    const char *method;                /* GET, HEAD, PUT, POST, DELETE */
    const char *key;                   /* "" = the bucket itself */
    const char *query;                 /* from objects_query, or NULL */
    const struct objects_source *body; /* NULL: none */
    const struct objects_sums *sums;   /* of the body */
    const char *hash;                  /* to be kept with the object, or NULL */
    bool patient;                      /* the server may compute for minutes before it answers */
    bool once;                         /* no second try */
    const char *
        expect; /* root of the answer, which is read into `answer`; NULL: there is none, or it does not matter */
    int fd;     /* with range: where the content goes, from byte `at` on */
    bool range;
    uint64_t from, bytes, at;

    /* filled in */
    long status;
    struct objects_answer answer; /* objects_answer_clear */
    char etag[OBJECTS_ETAG_MAX + 1];
    struct objects_info info; /* of a HEAD */
};

/* OBJECTS_ABSENT when what the key or an upload's id names is not there. */
enum objects_result objects_call(struct objects *o, struct objects_call *call, struct err *err);

/* Never NULL. */
struct objects_watch *objects_watch_of(struct objects *o);

/* Is this the <Code> of the answer? */
bool objects_said(const struct objects_call *call, const char *code);

#endif
