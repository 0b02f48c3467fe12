/* seats: one node's part of an attempt, and what its newest report comes to.
 *
 * A seat's report only moves forward: by revision, and once it says gone, refused or lost it is final. So repeated, reordered and
 * late reports change nothing. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"

static bool phase_final(enum report_phase phase)
{
    return phase == REPORT_GONE || phase == REPORT_REFUSED || phase == REPORT_LOST;
}

static void text_copy(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

static size_t seat_of_node(struct attempt *a, struct node *node, size_t *n_seats)
{
    if (node->mark == a)
        return node->mark_seat;
    node->mark = a;
    node->mark_seat = (*n_seats)++;
    a->seats[node->mark_seat].node = node;
    return node->mark_seat;
}

/* A stored attempt brings its reports; they are put in the order of the seats. */
static void match_nodes(struct attempt *a, size_t n_seats)
{
    struct attempt_node *old = a->r.nodes;
    size_t n_old = a->r.n_nodes;
    a->r.nodes = mem_zero(n_seats + 1, sizeof(*a->r.nodes));
    a->r.n_nodes = n_seats;
    for (size_t i = 0; i < n_seats; i++)
        text_copy(a->r.nodes[i].node, sizeof(a->r.nodes[i].node), a->seats[i].node->r.name);
    for (size_t i = 0; i < n_old; i++) {
        size_t k = 0;
        while (k < n_seats && strcmp(a->r.nodes[k].node, old[i].node) != 0)
            k++;
        if (k < n_seats)
            a->r.nodes[k] = old[i];
        else
            link_report_clear(&old[i].report);
    }
    free(old);
}

static void group_ranks(struct attempt *a, const size_t *seat_of, size_t n_seats)
{
    size_t first = 0;
    for (size_t i = 0; i < n_seats; i++) {
        a->seats[i].first = first;
        first += a->seats[i].n_ranks;
        a->seats[i].n_ranks = 0;
    }
    for (size_t r = 0; r < a->r.world; r++) {
        struct seat *s = &a->seats[seat_of[r]];
        a->by_seat[s->first + s->n_ranks++] = (int64_t)r;
    }
}

void attempt_seats(struct core *core, struct attempt *a)
{
    size_t n_seats = 0, *seat_of = mem_zero(a->r.world + 1, sizeof(size_t));
    a->seats = mem_zero(a->r.world + 1, sizeof(*a->seats));
    a->by_seat = mem_zero(a->r.world + 1, sizeof(*a->by_seat));
    for (size_t r = 0; r < a->r.world; r++) {
        seat_of[r] = seat_of_node(a, node_get(core, a->r.placement[r].node), &n_seats);
        a->seats[seat_of[r]].n_ranks++;
    }
    for (size_t i = 0; i < n_seats; i++)
        a->seats[i].node->mark = NULL;
    group_ranks(a, seat_of, n_seats);
    free(seat_of);
    match_nodes(a, n_seats);
    for (size_t i = 0; i < n_seats; i++)
        seat_summarise(a, i);
}

static const struct link_rank *earlier(const struct link_rank *a, const struct link_rank *b)
{
    return a && a->ended_ms <= b->ended_ms ? a : b;
}

/* A report speaks only for ranks that were placed there. */
static bool belongs(const struct attempt *a, size_t seat, int64_t rank)
{
    return rank >= 0 && (size_t)rank < a->r.world &&
           strcmp(a->r.placement[rank].node, a->seats[seat].node->r.name) == 0;
}

void seat_summarise(struct attempt *a, size_t seat)
{
    struct seat *s = &a->seats[seat];
    const struct link_report *report = &a->r.nodes[seat].report;
    s->n_ok = s->n_exited = 0;
    s->connected = false;
    s->bad = s->unfinished = NULL;
    for (size_t i = 0; i < report->n_ranks; i++) {
        const struct link_rank *rank = &report->ranks[i];
        if (!belongs(a, seat, rank->rank))
            continue;
        s->connected = s->connected || rank->connected;
        if (rank->state != RANK_EXITED)
            continue;
        s->n_exited++;
        if (rank->code != 0 || rank->signal != 0)
            s->bad = earlier(s->bad, rank);
        else
            s->n_ok++;
        if (rank->code == 0 && rank->signal == 0 && !rank->finalized)
            s->unfinished = earlier(s->unfinished, rank);
    }
}

void seat_take_report(struct core *core, struct attempt *a, size_t seat, const struct link_report *report)
{
    struct attempt_node *n = &a->r.nodes[seat];
    if (n->reported && phase_final(n->report.phase))
        return;
    if (n->reported && report->rev <= n->report.rev && !phase_final(report->phase))
        return;
    link_report_clear(&n->report);
    link_report_copy(&n->report, report);
    n->reported = true;
    seat_summarise(a, seat);
    mark_attempt(core, a);
    attempt_examine_later(core, a);
}

void seat_set_phase(struct core *core, struct attempt *a, size_t seat, enum report_phase phase,
                    const char *reason)
{
    struct attempt_node *n = &a->r.nodes[seat];
    n->reported = true;
    n->report.job = a->r.job;
    n->report.attempt = a->r.number;
    n->report.phase = phase;
    text_copy(n->report.reason, sizeof(n->report.reason), reason);
    mark_attempt(core, a);
    attempt_examine_later(core, a);
}

bool seat_over(const struct attempt *a, size_t seat)
{
    const struct attempt_node *n = &a->r.nodes[seat];
    return (n->reported && phase_final(n->report.phase)) || a->seats[seat].node->r.state == NODE_DOWN;
}
