/* shim_private: what shim.c (life and orders) and shim_actions.c (what each step does) share. */
#ifndef BELAY_AGENT_SHIM_SHIM_PRIVATE_H
#define BELAY_AGENT_SHIM_SHIM_PRIVATE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/shim/agent_link.h"
#include "agent/shim/notify.h"
#include "agent/shim/prepare.h"
#include "agent/shim/ranks.h"
#include "agent/shim/shim_table.h"
#include "agent/shim/state.h"
#include "agent/shim/tier.h"
#include "agent/shim/wireup.h"
#include "schema/link.h"

/* Requests for a checkpoint, of one rank. */
struct asked {
    bool wants_signal; /* it has announced CHECKPOINT_ON=SIGUSR1 */
    int64_t counter;   /* the order's counter that it was last told, or that stood when the attempt began */
};

struct shim {
    const char *dir;
    struct event_base *base;
    struct link_order order;
    struct prepared prepared;
    struct state *state;
    struct agent_link *agent;
    struct wireup *wireup;
    struct notify *notify;
    struct tier *tier; /* NULL when the job has no memory tier */
    struct ranks *ranks;
    enum shim_state at;
    struct event *grace, *sweep, *signals[3];
    int64_t stop_since_ms, grace_ends_ms;
    int64_t sweep_since_ms, sweep_wait_ms;
    struct asked *asked; /* (n_ranks) */
    bool worried, exit_when_gone;
};

/* Looks the event up in the table, goes to the next state and does what the rule says. */
void shim_fire(struct shim *s, enum shim_event event);

/* Does one action of the table. */
void shim_act(struct shim *s, enum shim_action action);

/* One round of killing and looking; fires SHIM_EV_SWEPT or arms the next round. */
void shim_sweep_once(struct shim *s);

/* Sets the report's reason. */
void shim_set_reason(struct shim *s, const char *text);

#endif
