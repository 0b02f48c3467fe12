/* attempt: one attempt on this node, from its order to its forgotten folder. */
#ifndef BELAY_AGENT_ATTEMPT_H
#define BELAY_AGENT_ATTEMPT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/folder.h"
#include "schema/link.h"

struct attempt;

/* What all attempts of an agent share. The functions are called from the loop or from within attempt_* calls; the attempt may be
 * freed in none of them. */
struct attempt_env {
    struct event_base *base;
    const char *dir;     /* the agent's folder, absolute */
    const char *program; /* belay-shim */
    const char *node;    /* this node's name */
    void *ctx;
    void (*reported)(void *ctx, struct attempt *a); /* attempt_report changed */
    void (*progress)(void *ctx, const struct link_progress *progress);
    void (*ended)(void *ctx,
                  struct attempt *a); /* nothing of it runs, its shim included; also when it is removed */
    bool (*is_shim)(void *ctx, pid_t pid);
};

/* Begins an attempt: folder, order.json, shim. Never fails: what goes wrong becomes a `refused` report. Takes the order's insides. */
struct attempt *attempt_start(const struct attempt_env *env, struct link_order *order);

/* An order for an attempt of which nothing is here: answers it with a `lost` report. */
struct attempt *attempt_unknown(const struct attempt_env *env, struct link_order *order);

/* Takes up the attempt whose folder an earlier agent left: finds its shim, or ends what a dead shim left. NULL when nothing was ever
 * started in it (the folder is removed). Kills no living shim. */
struct attempt *attempt_load(const struct attempt_env *env, struct folder_id id);

/* Lets go of it; processes and folder stay as they are. */
void attempt_free(struct attempt *a);

/* A newer order; one that goes back in phase or says nothing new is ignored. Takes the order's insides. */
void attempt_order(struct attempt *a, struct link_order *order);

/* The controller does not want it: SIGKILL to all its ranks. */
void attempt_unwanted(struct attempt *a, const char *reason);

/* Its final report has been taken note of: the shim may go, then the folder unless `keep`. Only when attempt_final. */
void attempt_forget(struct attempt *a, bool keep);

struct folder_id attempt_id(const struct attempt *a);
const char *attempt_token(const struct attempt *a); /* "" when its order was lost */
const struct link_report *
attempt_report(const struct attempt *a);                 /* before the first one: preparing, rev 0 */
bool attempt_final(const struct attempt *a);             /* gone, refused or lost */
bool attempt_removed(const struct attempt *a);           /* forgotten to the end; to be freed */
pid_t attempt_shim_pid(const struct attempt *a);         /* 0 = none */
void attempt_reaped(struct attempt *a, int wait_status); /* its shim, a child, was waited for */

#endif
