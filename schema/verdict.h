/* verdict: the answer to "why does it wait" and "could it start": what belayd answers and `belay why` and `belay plan` print.
 *
 * The sentence comes first; the rest are the facts behind it. */
#ifndef BELAY_SCHEMA_VERDICT_H
#define BELAY_SCHEMA_VERDICT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum verdict_kind {
    VERDICT_RUNS,       /* it is starting, running or over: nothing to wait for */
    VERDICT_NOW,        /* could start now */
    VERDICT_CAPACITY,   /* waits for free slots */
    VERDICT_FRAGMENTED, /* waits for a domain: enough is free, but not together */
    VERDICT_OTHER, /* waits for something else: held, a pause, a node that avoids it, the controller's start */
    VERDICT_NEVER, /* can never run here */
    VERDICT_COUNT
};
const char *verdict_kind_name(enum verdict_kind kind); /* "now", "capacity" … */

struct verdict_blocker {
    int64_t job;
    char *name, *user;
    int64_t slots;    /* of those that this job could use */
    int64_t until_ms; /* UTC, by its time limit; 0 = it has none */
};

struct verdict {
    enum verdict_kind kind;
    char *sentence;                              /* one, plain */
    int64_t need_ranks, need_group;              /* ranks in all; that must share a node */
    char *need_borders;                          /* required borders in words, "" = none */
    int64_t free_slots, usable_slots, all_slots; /* of the kinds of device it may use */
    int64_t fits_ranks;                          /* of its ranks that would fit now */
    struct verdict_blocker *blockers;            /* jobs whose end would let it start, soonest end first */
    size_t n_blockers;
    int64_t ahead, ahead_job; /* jobs that wait and go before it; the first, 0 = none */
    char *ahead_name;         /* or NULL */
    int64_t starts_ms;        /* UTC: at the latest then, if all ends known by limits hold; 0 = not known */
    char **changes;           /* sentences: what would change it */
    size_t n_changes;
    int64_t spares_wanted; /* spare nodes that it asks for */
    json_t *spares;        /* names of those it would get now, or NULL */
    json_t *
        placement; /* array of {rank,node,slot,tp,pp,cp,dp} where it would go now, spares with rank -1, or NULL */
    json_t
        *cost; /* {"seconds":…, "top_bytes":…, "axes":[{"axis":"TP","level":"node","seconds":…}]}, or NULL */
};

json_t *verdict_encode(const struct verdict *verdict);
/* Checks what a server sent. -1 with a sentence; *out is then zeroed. */
int verdict_decode(const json_t *obj, struct verdict *out, struct err *err);
void verdict_clear(struct verdict *verdict); /* safe on a zeroed struct */

#endif
