/* state: the REPORT of this attempt on this node, kept in state.json before anybody hears of it. */
#ifndef BELAY_AGENT_SHIM_STATE_H
#define BELAY_AGENT_SHIM_STATE_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "schema/link.h"

struct state;

/* rev 0, phase preparing, every rank of the order waiting. */
struct state *state_new(const char *attempt_dir, const struct link_order *order);
void state_free(struct state *s);

/* To be changed in place; then call state_changed. Its rank array stays where it is. */
struct link_report *state_report(struct state *s);
void state_changed(struct state *s);

/* Where an agent that finds the shim dead has to clean up; goes into state.json. */
void state_set_leftovers(struct state *s, const char *scratch, const char *cgroup);

/* If something changed since the last call: raises rev, writes state.json durably and returns true: now it may be sent.
 * A state.json that cannot be written is logged; the report is sent all the same, because a silent shim helps nobody. */
bool state_flush(struct state *s);

/* The report as a message of type "report"; a new reference. */
json_t *state_message(const struct state *s);

#endif
