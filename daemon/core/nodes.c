/* nodes: who is there, since when, and what runs there.
 *
 * A node is up while it is heard from; quiet for suspect_after_ms (or its link closed) it is suspect, after down_after_ms down, and
 * only then its attempts have lost it. What is still found on a node although nobody wants it any more is "stale": it is absent from
 * the node's orders, so the agent kills it, and until that is reported the node gets no new work. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "daemon/core/layout.h"

#define DETAIL_MARK " -- " /* between the admin's words and ours in a node's reason */

static struct event_of of_node(const struct node *node, const char *kind)
{
    return (struct event_of){.kind = kind, .rank = -1, .node = node->r.name};
}

static void text_copy(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

struct node *node_find(const struct core *core, const char *name)
{
    return idmap_get(core->node_by_name, name);
}

static void insert_by_name(struct core *core, struct node *node)
{
    list_add(&core->nodes, node);
    struct node **nodes = (struct node **)core->nodes.items;
    size_t i = core->nodes.count - 1;
    for (; i > 0 && cluster_name_compare(nodes[i - 1]->r.name, node->r.name) > 0; i--)
        nodes[i] = nodes[i - 1];
    nodes[i] = node;
}

struct node *node_get(struct core *core, const char *name)
{
    struct node *node = node_find(core, name);
    if (node)
        return node;
    node = mem_zero(1, sizeof(*node));
    text_copy(node->r.name, sizeof(node->r.name), name);
    node->r.state = NODE_UNKNOWN;
    node->r.reason = str_dup("");
    node->r.since_ms = core->t.now_ms;
    node->timer = (struct timer){.owner = node, .fire = node_due};
    idmap_put(core->node_by_name, node->r.name, node);
    insert_by_name(core, node);
    return node;
}

static void cut_detail(char *reason)
{
    char *last = NULL;
    for (char *at = strstr(reason, DETAIL_MARK); at; at = strstr(at + 1, DETAIL_MARK))
        last = at;
    if (last)
        *last = '\0';
}

/* Nothing is known of it until it says hello; but one that was down stays down. */
void node_load(struct core *core, struct node_record *record)
{
    struct node *node = node_get(core, record->name);
    free(node->r.reason);
    node->r = *record;
    node->r.connected = false;
    node->r.heartbeat_ms = 0;
    if (record->drain_requested) {
        node->drain_reason = str_dup(record->reason);
        cut_detail(node->drain_reason);
    }
    if (record->state == NODE_DOWN)
        return;
    if (record->state == NODE_UP && record->reason[0])
        node->differs = str_dup(record->reason); /* told already */
    node->r.state = NODE_UNKNOWN;
    node_set_reason(core, node, "has not reported since the controller started");
}

void node_free(struct node *node)
{
    link_inventory_clear(&node->r.inventory);
    free(node->r.reason);
    free(node->drain_reason);
    free(node->differs);
    free(node->hosted);
    free(node->stale);
    free(node->owners);
    free(node);
}

void node_set_reason(struct core *core, struct node *node, const char *text)
{
    if (!text[0] && node->differs)
        text = node->differs;
    bool both = node->drain_reason && text[0];
    char *reason = node->drain_reason
                       ? str_printf("%s%s%s", node->drain_reason, both ? DETAIL_MARK : "", text)
                       : str_dup(text);
    if (strcmp(reason, node->r.reason) == 0) {
        free(reason);
        return;
    }
    free(node->r.reason);
    node->r.reason = reason;
    mark_node(core, node);
}

/* ---- slots ---- */

void node_own(struct node *node, int64_t slot, struct attempt *from, struct attempt *to, int64_t memory)
{
    if (slot < 0)
        return;
    size_t at = (size_t)slot;
    if (at >= node->n_owners) {
        node->owners = mem_grow(node->owners, at + 1, sizeof(void *));
        while (node->n_owners <= at)
            node->owners[node->n_owners++] = NULL;
    }
    if (node->owners[at] != from)
        return;
    node->n_owned += (to != NULL) - (from != NULL);
    node->held_memory += to ? memory : -memory;
    node->owners[at] = to;
}

void node_host(struct core *core, struct node *node, struct attempt *a, size_t seat)
{
    node->hosted = mem_one_more(node->hosted, node->n_hosted, &node->hosted_room, sizeof(*node->hosted));
    node->hosted[node->n_hosted++] = (struct hosted){.attempt = a, .seat = seat};
    mark_orders(core, node);
}

/* ---- stale attempts ---- */

static void stale_add(struct node *node, int64_t job, int64_t attempt)
{
    for (size_t i = 0; i < node->n_stale; i++)
        if (node->stale[i].job == job && node->stale[i].attempt == attempt)
            return;
    node->stale = mem_grow(node->stale, node->n_stale + 1, sizeof(*node->stale));
    node->stale[node->n_stale++] = (struct stale){.job = job, .attempt = attempt};
}

static void stale_remove(struct core *core, struct node *node, int64_t job, int64_t attempt)
{
    for (size_t i = 0; i < node->n_stale; i++) {
        if (node->stale[i].job != job || node->stale[i].attempt != attempt)
            continue;
        node->stale[i] = node->stale[--node->n_stale];
        if (node->n_stale == 0) {
            capacity_grew(core);
            node_examine_later(core, node);
        }
        return;
    }
}

static bool report_final(const struct link_report *r)
{
    return r->phase == REPORT_GONE || r->phase == REPORT_REFUSED || r->phase == REPORT_LOST;
}

static void stale_note(struct core *core, struct node *node, const struct link_report *report)
{
    if (report_final(report))
        stale_remove(core, node, report->job, report->attempt);
    else
        stale_add(node, report->job, report->attempt);
    mark_orders(core, node);
}

void node_unhost(struct core *core, struct node *node, struct attempt *a, size_t seat)
{
    size_t i = 0;
    while (i < node->n_hosted && node->hosted[i].attempt != a)
        i++;
    if (i == node->n_hosted)
        return;
    node->hosted[i] = node->hosted[--node->n_hosted];
    if (!a->r.nodes[seat].reported || !report_final(&a->r.nodes[seat].report))
        stale_add(node, a->r.job, a->r.number); /* the node is down, but its processes may live on */
    mark_orders(core, node);
    node_examine_later(core, node);
}

/* ---- states ---- */

bool node_usable(const struct node *node)
{
    return node->r.state == NODE_UP && node->n_stale == 0 && !node->leaving;
}

static void examine_hosted(struct core *core, struct node *node)
{
    for (size_t i = 0; i < node->n_hosted; i++)
        attempt_examine_later(core, node->hosted[i].attempt);
    node_examine_later(core, node);
}

static void tell(struct core *core, struct node *node)
{
    static const char *const kinds[NODE_STATE_COUNT] = {
        [NODE_UP] = "node_up",     [NODE_SUSPECT] = "node_suspect", [NODE_DOWN] = "node_down",
        [NODE_DRAINING] = "drain", [NODE_DRAINED] = "drained",      [NODE_UNKNOWN] = "node_unknown",
    };
    const char *reason = node->r.reason;
    event_note(core, of_node(node, kinds[node->r.state]), "%s is %s%s%s", node->r.name,
               node_state_name(node->r.state), reason[0] ? ": " : "", reason);
}

static void rearm(struct core *core, struct node *node)
{
    int64_t due = INT64_MAX;
    if (node->r.state == NODE_SUSPECT)
        due = node->seen_mono_ms + core->config.down_after_ms;
    else if (node->r.state != NODE_DOWN && node->r.state != NODE_UNKNOWN)
        due = node->seen_mono_ms + core->config.suspect_after_ms;
    timers_set(core->timers, &node->timer, due);
}

void node_event(struct core *core, struct node *node, enum node_event event, const char *reason)
{
    struct node_row row = machine_node(node->r.state, event);
    if (row.action <= NODE_IGNORE)
        return;
    bool changed = node->r.state != row.next;
    node->r.state = row.next;
    if (changed)
        node->r.since_ms = core->t.now_ms;
    mark_node(core, node);
    node_set_reason(core, node, reason);
    if (changed)
        tell(core, node);
    if (row.action == NODE_JOIN)
        capacity_grew(core);
    if (row.action == NODE_LOSE || row.action == NODE_VACATE)
        capacity_shrank(core);
    examine_hosted(core, node);
    rearm(core, node);
}

static void alive(struct core *core, struct node *node)
{
    node->seen_mono_ms = core->t.mono_ms;
    node->r.heartbeat_ms = core->t.now_ms;
    node_event(core, node, node->r.drain_requested ? NODE_ALIVE_DRAINING : NODE_ALIVE, "");
}

void node_excuse(const struct core *core, struct node *node, int64_t ms)
{
    node->seen_mono_ms += ms;
    if (node->seen_mono_ms > core->t.mono_ms)
        node->seen_mono_ms = core->t.mono_ms;
}

void node_due(void *ctx, void *owner)
{
    struct core *core = ctx;
    struct node *node = owner;
    int64_t quiet_ms = core->t.mono_ms - node->seen_mono_ms;
    struct err why;
    err_set(&why, "not heard from for %lld.%lld s", (long long)(quiet_ms / 1000),
            (long long)(quiet_ms % 1000 / 100));
    if (quiet_ms >= core->config.down_after_ms)
        node_event(core, node, NODE_DEAD, why.text);
    else if (quiet_ms >= core->config.suspect_after_ms)
        node_event(core, node, NODE_QUIET, why.text);
    rearm(core, node);
}

void node_examine_later(struct core *core, struct node *node)
{
    if (node->examine)
        return;
    node->examine = true;
    list_add(&core->examine_nodes, node);
}

void node_examine(struct core *core, struct node *node)
{
    if (!node->r.drain_requested)
        return;
    if (node->n_hosted == 0 && node->n_stale == 0)
        node_event(core, node, NODE_EMPTY, "");
    else if (node->r.state == NODE_DRAINING)
        drain_explain(core, node);
}

void nodes_settle(void *ctx, void *owner)
{
    (void)owner;
    struct core *core = ctx;
    core->settled = core->schedule_dirty = true;
    for (size_t i = 0; i < core->nodes.count; i++) {
        struct node *node = core->nodes.items[i];
        if (node->r.state == NODE_UNKNOWN)
            node_event(core, node, NODE_DEAD, "did not report after the controller started");
    }
}

void nodes_settle_check(struct core *core)
{
    if (core->settled)
        return;
    for (size_t i = 0; i < core->nodes.count; i++)
        if (((struct node *)core->nodes.items[i])->r.state == NODE_UNKNOWN)
            return;
    core->settled = core->schedule_dirty = true;
    timers_set(core->timers, &core->settle_timer, INT64_MAX);
}

/* ---- what nodes say ---- */

static void take_inventory(struct node *node, const struct link_inventory *from)
{
    struct link_inventory *to = &node->r.inventory;
    if (to == from)
        return;
    struct link_gpu *gpus = mem_zero(from->n_gpus + 1, sizeof(*gpus));
    if (from->n_gpus > 0)
        memcpy(gpus, from->gpus, from->n_gpus * sizeof(*gpus));
    link_inventory_clear(to);
    *to = *from;
    to->gpus = gpus;
}

/* Keeps what is to be said about the node, and says it once. */
static void note_difference(struct core *core, struct node *node, const struct layout_finding *found)
{
    if (strcmp(found->text.text, node->differs ? node->differs : "") == 0)
        return;
    free(node->differs);
    node->differs = found->kind ? str_dup(found->text.text) : NULL;
    if (node->r.state == NODE_UP) /* other states get their reason anew */
        node_set_reason(core, node, "");
    event_note(core, of_node(node, found->kind ? found->kind : "node_mismatch"), "%s %s", node->r.name,
               found->kind ? found->text.text : "is now what the cluster file says");
}

static void lay_out(struct core *core, struct node *node)
{
    struct layout_finding found;
    if (core->config.cluster) {
        layout_apply(core->config.cluster, core->config.played, node->r.name, &node->r.inventory, &found);
        note_difference(core, node, &found);
    } else {
        free(node->differs);
        node->differs = NULL;
    }
}

static const struct link_report *report_in(const struct core_hello *hello, const struct attempt *a)
{
    for (size_t i = 0; i < hello->n_reports; i++)
        if (hello->reports[i].job == a->r.job && hello->reports[i].attempt == a->r.number)
            return &hello->reports[i];
    return NULL;
}

/* The hello lists everything there is: what is absent does not run there. An order to prepare that never arrived is sent again. */
static void settle_absent(struct core *core, struct node *node, const struct hosted *h)
{
    const struct attempt_node *n = &h->attempt->r.nodes[h->seat];
    if (n->reported && report_final(&n->report))
        return;
    if (h->attempt->r.state == ATTEMPT_PREPARING && !n->reported)
        return;
    struct err why;
    err_set(&why, "%s came back without it", node->r.name);
    bool stopping = h->attempt->r.state == ATTEMPT_STOPPING;
    seat_set_phase(core, h->attempt, h->seat, stopping ? REPORT_GONE : REPORT_LOST, stopping ? "" : why.text);
}

static const struct hosted *hosted_find(const struct node *node, int64_t job, int64_t attempt)
{
    for (size_t i = 0; i < node->n_hosted; i++)
        if (node->hosted[i].attempt->r.job == job && node->hosted[i].attempt->r.number == attempt)
            return &node->hosted[i];
    return NULL;
}

static void take_report(struct core *core, struct node *node, const struct link_report *report)
{
    const struct hosted *h = hosted_find(node, report->job, report->attempt);
    if (h)
        seat_take_report(core, h->attempt, h->seat, report);
    else
        stale_note(core, node, report);
}

static void reconcile(struct core *core, struct node *node, const struct core_hello *hello)
{
    node->n_stale = 0;
    for (size_t i = 0; i < hello->n_reports; i++)
        take_report(core, node, &hello->reports[i]);
    for (size_t i = 0; i < node->n_hosted; i++)
        if (!report_in(hello, node->hosted[i].attempt))
            settle_absent(core, node, &node->hosted[i]);
}

static struct node *greet(struct core *core, const char *name)
{
    struct node *node = node_find(core, name);
    if (node)
        return node;
    node = node_get(core, name);
    event_note(core, of_node(node, "node_joined"), "%s joined the cluster", name);
    return node;
}

void core_node_hello(struct core *core, struct core_time t, const struct core_hello *hello)
{
    core->t = t;
    struct node *node = greet(core, hello->node);
    take_inventory(node, hello->inventory);
    lay_out(core, node);
    text_copy(node->r.boot, sizeof(node->r.boot), hello->boot);
    node->r.connected = node->heard = true;
    node->leaving = false;
    reconcile(core, node, hello);
    alive(core, node);
    mark_node(core, node);
    mark_orders(core, node);
    examine_hosted(core, node);
    capacity_grew(core);
    rearm(core, node);
    nodes_settle_check(core);
}

/* A node counts as alive only through a link that began with a hello. */
static struct node *speaking(struct core *core, struct core_time t, const char *name)
{
    core->t = t;
    struct node *node = node_find(core, name);
    if (!node || !node->r.connected)
        return NULL;
    alive(core, node);
    return node;
}

void core_node_heartbeat(struct core *core, struct core_time t, const char *name)
{
    speaking(core, t, name);
}

void core_node_link_lost(struct core *core, struct core_time t, const char *name)
{
    core->t = t;
    struct node *node = node_find(core, name);
    if (!node || !node->r.connected)
        return;
    node->r.connected = false;
    node->seen_mono_ms = t.mono_ms;
    mark_node(core, node);
    node_event(core, node, NODE_QUIET, "its link closed");
    rearm(core, node);
}

void core_node_leaving(struct core *core, struct core_time t, const char *name, const char *reason)
{
    struct node *node = speaking(core, t, name);
    if (!node || node->leaving)
        return;
    node->leaving = true;
    event_note(core, of_node(node, "node_leaving"), "%s leaves: %s", name, reason);
    examine_hosted(core, node);
}

void core_node_report(struct core *core, struct core_time t, const char *name,
                      const struct link_report *report)
{
    struct node *node = speaking(core, t, name);
    if (node)
        take_report(core, node, report);
}
