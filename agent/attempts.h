/* attempts: all attempts on this node, kept in line with what the controller wants. */
#ifndef BELAY_AGENT_ATTEMPTS_H
#define BELAY_AGENT_ATTEMPTS_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "schema/link.h"

struct attempts;

struct attempts_config {
    struct event_base *base;
    const char *dir;     /* the agent's folder, absolute */
    const char *program; /* belay-shim */
    const char *node;
    void *ctx;
    bool (*report)(void *ctx, const struct link_report *report); /* tells the controller; false: not now */
    void (*progress)(void *ctx, const struct link_progress *progress);
    void (*idle)(void *ctx); /* after attempts_kill_all: nothing is left. Called from the loop */
};

/* Takes up what an earlier agent left in the folder; kills nothing that lives. NULL with a sentence when the folder is unusable. */
struct attempts *attempts_new(const struct attempts_config *config, struct err *err);
void attempts_free(struct attempts *t); /* processes go on */

/* The full set that should run here. Takes the insides of the orders. keep: the jobs whose ended attempts here keep their shims although everything about
 * them is acknowledged, for what they hold in memory, until a newer attempt of the job has taken it over. */
void attempts_desired(struct attempts *t, struct link_order *orders, size_t n, const int64_t *keep,
                      size_t n_keep);

/* The controller has committed this revision. */
void attempts_ack(struct attempts *t, int64_t job, int64_t attempt, int64_t rev);

/* Every attempt's newest report, for hello: an array of REPORT. */
json_t *attempts_reports(const struct attempts *t);

/* Tells every report that is not acknowledged again; for after a login. */
void attempts_report_all(struct attempts *t);

/* Kills every attempt and lets every shim go, then calls idle. Folders stay until the controller has acknowledged. */
void attempts_kill_all(struct attempts *t, const char *reason);

/* Is it here and not over? */
bool attempts_active(const struct attempts *t, int64_t job, int64_t attempt);

/* A child was waited for. */
void attempts_reaped(struct attempts *t, pid_t pid, int wait_status);

#endif
