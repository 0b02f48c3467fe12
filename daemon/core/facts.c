/* facts: what the seats of an attempt come to, in one walk over its nodes; and the sentence for what went wrong.
 *
 * A lost node or shim explains failing ranks elsewhere (their peers vanished), so it goes before them. Among failing ranks the one
 * that ended first is named; of equals, the one reported first by node order. */
#include <string.h>

#include "daemon/core/core_private.h"

static bool seat_finished(const struct attempt *a, size_t i)
{
    return a->seats[i].n_ok >= a->seats[i].n_ranks && seat_over(a, i);
}

static enum fault_kind node_fault(const struct attempt *a, size_t i)
{
    const struct attempt_node *n = &a->r.nodes[i];
    if (seat_finished(a, i))
        return FAULT_NONE;
    if (n->reported && n->report.phase == REPORT_REFUSED)
        return FAULT_REFUSED;
    if (n->reported && n->report.phase == REPORT_LOST)
        return FAULT_LOST;
    if (n->reported && n->report.phase == REPORT_GONE)
        return a->seats[i].n_exited < a->seats[i].n_ranks ? FAULT_VANISHED : FAULT_NONE;
    return a->seats[i].node->r.state == NODE_DOWN ? FAULT_DOWN : FAULT_NONE;
}

static void consider(struct attempt_facts *f, enum fault_kind kind, size_t seat, const struct link_rank *rank)
{
    if (!rank || (f->fault_rank && f->fault_rank->ended_ms <= rank->ended_ms))
        return;
    f->fault = kind;
    f->fault_seat = seat;
    f->fault_rank = rank;
}

static void find_failing_rank(const struct attempt *a, struct attempt_facts *f)
{
    bool connected = false;
    for (size_t i = 0; i < f->n; i++)
        connected = connected || a->seats[i].connected;
    for (size_t i = 0; i < f->n; i++) {
        consider(f, FAULT_RANK, i, a->seats[i].bad);
        if (connected)
            consider(f, FAULT_UNFINISHED, i, a->seats[i].unfinished);
    }
}

static void find_node_fault(const struct attempt *a, struct attempt_facts *f)
{
    for (size_t i = 0; i < f->n; i++) {
        enum fault_kind kind = node_fault(a, i);
        if (kind == FAULT_NONE || (kind == FAULT_VANISHED && f->fault != FAULT_NONE))
            continue;
        *f = (struct attempt_facts){.n = f->n, .fault = kind, .fault_seat = i};
        if (kind != FAULT_VANISHED)
            return;
    }
}

static void count(const struct attempt *a, struct attempt_facts *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct attempt_node *n = &a->r.nodes[i];
        enum report_phase phase = n->report.phase;
        f->over += seat_over(a, i);
        f->finished += seat_finished(a, i);
        if (!n->reported)
            continue;
        f->ready += phase == REPORT_READY;
        f->running += phase == REPORT_RUNNING || phase == REPORT_STOPPING || phase == REPORT_GONE;
    }
}

struct attempt_facts attempt_gather(const struct attempt *a)
{
    struct attempt_facts f = {.n = a->r.n_nodes};
    find_failing_rank(a, &f);
    find_node_fault(a, &f);
    count(a, &f);
    return f;
}

bool fault_is_nodes(const struct attempt_facts *f)
{
    return f->fault >= FAULT_REFUSED;
}

static const char *meaning(int code)
{
    switch (code) {
    case 2:
        return " (bad configuration)";
    case JOB_EXIT_STOPPED:
        return " (stopped from outside before its end)";
    case JOB_EXIT_NO_RETRY:
        return " (do not retry)";
    case 94:
        return " (stopped by the guard against loss spikes, or its loss is not finite)";
    case 95:
        return " (superseded by a newer attempt)";
    default:
        return "";
    }
}

/* `why` of the shim only where it says more than the code does, e.g. that the program could not be started. */
static void describe_rank(const struct link_rank *r, const char *node, struct err *out)
{
    const char *name = sigabbrev_np(r->signal);
    bool says_more =
        r->why[0] != '\0' && strncmp(r->why, "exited", 6) != 0 && strncmp(r->why, "killed", 6) != 0;
    if (r->signal != 0)
        err_set(out, "rank %lld on %s was killed by signal %d (SIG%s)", (long long)r->rank, node, r->signal,
                name ? name : "?");
    else
        err_set(out, "rank %lld on %s exited with %d%s%s%s", (long long)r->rank, node, r->code,
                meaning(r->code), says_more ? ": " : "", says_more ? r->why : "");
}

void fault_describe(const struct attempt *a, const struct attempt_facts *f, struct err *out)
{
    const char *node = a->r.nodes[f->fault_seat].node, *why = a->r.nodes[f->fault_seat].report.reason;
    switch (f->fault) {
    case FAULT_NONE:
        err_set(out, "nothing is wrong");
        break;
    case FAULT_RANK:
        describe_rank(f->fault_rank, node, out);
        break;
    case FAULT_UNFINISHED:
        err_set(out, "rank %lld on %s exited with 0 before it finished", (long long)f->fault_rank->rank,
                node);
        break;
    case FAULT_REFUSED:
        err_set(out, "%s could not prepare it: %s", node, why[0] ? why : "it gave no reason");
        break;
    case FAULT_LOST:
        err_set(out, "the shim on %s was lost%s%s", node, why[0] ? ": " : "", why);
        break;
    case FAULT_VANISHED:
        err_set(out, "%s ended its part without being told%s%s", node, why[0] ? ": " : "", why);
        break;
    case FAULT_DOWN:
        err_set(out, "%s went down", node);
        break;
    }
}
