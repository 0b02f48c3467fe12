/* drain: empties a node. Each attempt on it is asked for a checkpoint and moves once that is durable, or the time for it is over.
 * A node whose agent leaves is emptied too, at once: nothing lives there to save anything.
 *
 * What has not begun to run, or must go `now`, moves at once; the others wait for a checkpoint (saving.c). Nothing here
 * is charged to a job. Whether an attempt must move is looked up in its nodes each time, so nothing depends on the order of events. */
#include <stdlib.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"

/* The leaving or draining node that presses most, or NULL. */
static const struct node *pressing(const struct attempt *a)
{
    const struct node *found = NULL;
    for (size_t i = 0; i < a->r.n_nodes; i++) {
        const struct node *node = a->seats[i].node;
        if (node->leaving)
            return node;
        if (node->r.drain_requested &&
            (!found || node->r.drain_now || (node->r.drain_deadline_ms && !found->r.drain_now)))
            found = node;
    }
    return found;
}

static bool active(const struct attempt *a)
{
    return a->r.state == ATTEMPT_PREPARING || a->r.state == ATTEMPT_LAUNCHING ||
           a->r.state == ATTEMPT_RUNNING;
}

int64_t drain_deadline(const struct core *core, const struct attempt *a)
{
    const struct node *node = pressing(a);
    if (!node)
        return INT64_MAX;
    if (node->r.drain_deadline_ms > 0)
        return core_mono_of(core, node->r.drain_deadline_ms);
    return a->asked_mono_ms + saving_patience(a->job, core->config.checkpoint_wait_ms);
}

static void explain_move(const struct node *node, struct err *why)
{
    err_set(why, "moves off %s, which %s", node->r.name, node->leaving ? "leaves" : "drains");
}

static void move(struct core *core, struct attempt *a, const struct node *node)
{
    struct err why;
    explain_move(node, &why);
    attempt_stop(core, a, OUTCOME_DRAINED, why.text);
}

static void plan_move(struct core *core, struct attempt *a, const struct node *node)
{
    struct err why, cause;
    explain_move(node, &why);
    err_set(&cause, "%s drains", node->r.name);
    struct planned_stop stop = {OUTCOME_DRAINED, cause.text, why.text, node->r.name};
    saving_stop(core, a, &stop);
}

bool drain_leaves(struct core *core, struct attempt *a)
{
    const struct node *node = active(a) ? pressing(a) : NULL;
    if (!node || !node->leaving)
        return false;
    move(core, a, node);
    return true;
}

/* Another stop that waits for a checkpoint (a requeue, say) takes the attempt off the node as well. */
void drain_examine(struct core *core, struct attempt *a)
{
    const struct node *node = active(a) ? pressing(a) : NULL;
    if (!node)
        saving_take_back(core, a, OUTCOME_DRAINED);
    else if (a->r.state != ATTEMPT_RUNNING || node->leaving || node->r.drain_now)
        move(core, a, node);
    else if (a->r.save.then == OUTCOME_NONE)
        plan_move(core, a, node);
}

void drain_explain(struct core *core, struct node *node)
{
    struct err why;
    if (node->n_hosted == 0) {
        err_set(&why, "waits for what is left of job %lld to end", (long long)node->stale[0].job);
    } else {
        const struct attempt *a = node->hosted[0].attempt;
        err_set(&why, "waits for job %lld to %s%s", (long long)a->r.job,
                a->r.state == ATTEMPT_STOPPING ? "stop" : "save a checkpoint",
                node->n_hosted > 1 ? " and others" : "");
    }
    node_set_reason(core, node, why.text);
}

static void examine_hosted(struct core *core, struct node *node)
{
    for (size_t i = 0; i < node->n_hosted; i++)
        attempt_examine_later(core, node->hosted[i].attempt);
    node_examine_later(core, node);
}

static struct node *find(struct core *core, const char *name, enum core_refusal *why, struct err *err)
{
    struct node *node = node_find(core, name);
    *why = node ? CORE_OK : CORE_NO_SUCH;
    if (!node)
        err_set(err, "there is no node %s: `belay nodes` lists them", name);
    return node;
}

int core_drain(struct core *core, struct core_time t, const char *name, const char *reason,
               int64_t deadline_ms, bool now, enum core_refusal *why, struct err *err)
{
    core->t = t;
    struct node *node = find(core, name, why, err);
    if (!node)
        return -1;
    free(node->drain_reason);
    node->drain_reason = str_dup(reason && reason[0] ? reason : "drained by an admin");
    node->r.drain_requested = true;
    node->r.drain_now = now;
    node->r.drain_deadline_ms = deadline_ms;
    struct event_of of = {.kind = "drain_asked", .rank = -1, .node = name};
    event_note(core, of, "drain of %s asked for: %s", name, node->drain_reason);
    mark_node(core, node);
    mark_orders(core, node); /* nothing is kept in memory there any more */
    node_event(core, node, NODE_DRAIN, "");
    examine_hosted(core, node);
    return 0;
}

int core_undrain(struct core *core, struct core_time t, const char *name, enum core_refusal *why,
                 struct err *err)
{
    core->t = t;
    struct node *node = find(core, name, why, err);
    if (!node)
        return -1;
    if (!node->r.drain_requested) {
        *why = CORE_REFUSED;
        return err_set(err, "node %s is not draining: it is %s", name, node_state_name(node->r.state));
    }
    free(node->drain_reason);
    node->drain_reason = NULL;
    node->r.drain_requested = node->r.drain_now = false;
    node->r.drain_deadline_ms = 0;
    struct event_of of = {.kind = "undrain", .rank = -1, .node = name};
    event_note(core, of, "%s may be used again", name);
    mark_node(core, node);
    node_event(core, node, NODE_UNDRAIN, "");
    examine_hosted(core, node);
    return 0;
}
