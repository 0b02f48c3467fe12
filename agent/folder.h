/* folder: attempt folders <agent dir>/attempts/<job>.<attempt>/ as docs/protocols.md section 2 lays them out. */
#ifndef BELAY_AGENT_FOLDER_H
#define BELAY_AGENT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/procid.h"
#include "schema/link.h"

struct folder_id {
    int64_t job, attempt;
};

/* What state.json and shim.pid say. */
struct folder_state {
    bool has_report, has_shim;
    struct link_report report;
    struct procid shim;
    char *scratch, *cgroup, *token; /* or NULL */
};

/* The path of an attempt's folder; the caller frees. */
char *folder_path(const char *agent_dir, int64_t job, int64_t attempt);

/* "7.2" → {7, 2}; -1 for every other name. */
int folder_parse(const char *name, struct folder_id *id);

/* The attempts that have a folder; *ids is fresh. What is no attempt folder is logged and left alone. 0 or -1. */
int folder_scan(const char *agent_dir, struct folder_id **ids, size_t *n, struct err *err);

/* Removes a folder as one step: after a crash it is there whole or is finished off by folder_clean. */
int folder_remove(const char *path, struct err *err);
/* Finishes removals that a crash cut short. */
void folder_clean(const char *agent_dir);

/* Makes the folder durably (mode 0700: the order and the state hold the job's environment and token). A folder that exists
 * already is an error: an attempt is never started twice. */
int folder_make(const char *path, struct err *err);

/* order.json, durably; and back, *order to be cleared with link_order_clear. 0, or -1 with a sentence. */
int folder_write_order(const char *path, const struct link_order *order, struct err *err);
int folder_read_order(const char *path, struct link_order *order, struct err *err);

/* Reads state.json and shim.pid; either may be missing. 0, or -1 when state.json is there and cannot be used (then what shim.pid
 * says is still filled in). folder_state_clear in both cases. */
int folder_read_state(const char *path, struct folder_state *state, struct err *err);
void folder_state_clear(struct folder_state *state);

/* The agent's last word on an attempt whose shim is gone: state.json without a shim. */
int folder_write_report(const char *path, const struct link_report *report, struct err *err);

/* The last line or lines of shim.log that fit, joined by "; ". out is "" when there is nothing. */
void folder_log_tail(const char *path, char *out, size_t size);

/* Is this a scratch folder that a shim of this attempt would have made? (It is about to be removed with all that is in it.) */
bool folder_is_scratch(const char *scratch, struct folder_id id);

#endif
