/* placement_spares: which nodes stand by for a job.
 *
 * Each pod of the job gets its share of the spares by its ranks. In a pod, nodes that hold none of the job's ranks come first (one failure
 * takes a rank or a spare, not both), then those in racks of the job, then those in racks that are in use anyway, then the tightest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/placement_view.h"

#define COVERED 0.99 /* of repair times in which the spares suffice */

struct candidate {
    uint32_t node, pod;
    bool job_here, job_in_rack, rack_whole;
    int64_t free_slots;
};

struct standby {
    const struct placement_view *view;
    const struct job_spec *spec;
    int64_t *on_node, *in_rack, *in_pod; /* ranks of the job */
    int64_t *rack_free, *rack_slots;
    int64_t *quota; /* spares that each pod is to have */
    int64_t seat;   /* slots that a spare must offer */
    int rack, pod;  /* levels */
    enum view_kind kind;
    struct candidate *candidates;
    size_t n;
};

static void count_ranks(struct standby *s, const struct placed_rank *ranks)
{
    const struct placement_view *v = s->view;
    int32_t *node_of = mem_zero((size_t)s->spec->ranks, sizeof(*node_of));
    view_find_all(v, ranks, s->spec->ranks, node_of);
    for (int64_t r = 0; r < s->spec->ranks; r++) {
        if (node_of[r] < 0)
            continue;
        size_t i = (size_t)node_of[r];
        s->seat = ++s->on_node[i] > s->seat ? s->on_node[i] : s->seat;
        s->in_rack[v->domain[i][s->rack]]++;
        s->in_pod[v->domain[i][s->pod]]++;
        s->kind = s->spec->device == DEVICE_CPU ? KIND_ANY : v->nodes[i].gpu ? KIND_GPU : KIND_CPU;
    }
    free(node_of);
}

static void count_racks(struct standby *s)
{
    for (size_t i = 0; i < s->view->n_nodes; i++) {
        s->rack_free[s->view->domain[i][s->rack]] += s->view->nodes[i].usable ? s->view->n_free[i] : 0;
        s->rack_slots[s->view->domain[i][s->rack]] += s->view->nodes[i].slots;
    }
}

/* Shares in proportion to ranks, rounded by the largest remainder (cumulated: the pods' shares add up to `wanted`). */
static void share_out(struct standby *s, int64_t wanted)
{
    int64_t seen = 0, given = 0;
    for (size_t p = 0; p < s->view->level[s->pod].count; p++) {
        seen += s->in_pod[p];
        int64_t due = (int64_t)((double)wanted * (double)seen / (double)s->spec->ranks + 0.5);
        s->quota[p] = due - given;
        given = due;
    }
}

static int nearer(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;
    if (a->job_here != b->job_here)
        return a->job_here ? 1 : -1;
    if (a->job_in_rack != b->job_in_rack)
        return a->job_in_rack ? -1 : 1;
    if (a->rack_whole != b->rack_whole)
        return a->rack_whole ? 1 : -1;
    if (a->free_slots != b->free_slots)
        return a->free_slots < b->free_slots ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static void list_candidates(struct standby *s)
{
    for (size_t i = 0; i < s->view->n_nodes; i++) {
        uint32_t rack = s->view->domain[i][s->rack], pod = s->view->domain[i][s->pod];
        if (!view_counts(&s->view->nodes[i], s->kind) || s->in_pod[pod] == 0 ||
            view_capacity(s->view, i, s->spec->memory, EXTENT_FREE) < s->seat)
            continue;
        s->candidates[s->n++] = (struct candidate){(uint32_t)i,
                                                   pod,
                                                   s->on_node[i] > 0,
                                                   s->in_rack[rack] > 0,
                                                   s->rack_free[rack] == s->rack_slots[rack],
                                                   s->view->n_free[i]};
    }
    qsort(s->candidates, s->n, sizeof(*s->candidates), nearer);
}

static void add_seat(const struct standby *s, uint32_t node, struct placed_rank *out)
{
    int64_t slot = -1;
    for (int64_t k = 0; k < s->seat; k++) {
        slot = view_next_free(s->view, node, slot + 1);
        out[k] = (struct placed_rank){.rank = -1, .slot = slot};
        view_name_copy(&out[k], s->view->nodes[node].name);
    }
}

/* First each pod its share, then whatever is left from anywhere among them. */
static int64_t choose_seats(struct standby *s, int64_t wanted, struct placed_rank *out)
{
    int64_t chosen = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < s->n && chosen < wanted; i++) {
            struct candidate *c = &s->candidates[i];
            if (c->node == UINT32_MAX || (pass == 0 && s->quota[c->pod] == 0))
                continue;
            s->quota[c->pod]--;
            add_seat(s, c->node, out + chosen++ * s->seat);
            c->node = UINT32_MAX;
        }
    return chosen;
}

static void standby_begin(struct standby *s)
{
    const struct placement_view *v = s->view;
    s->rack = v->level_of[DOMAIN_RACK];
    s->pod = v->level_of[DOMAIN_POD];
    s->on_node = mem_zero(v->n_nodes, sizeof(int64_t));
    s->in_rack = mem_zero(v->level[s->rack].count, sizeof(int64_t));
    s->in_pod = mem_zero(v->level[s->pod].count, sizeof(int64_t));
    s->rack_free = mem_zero(v->level[s->rack].count, sizeof(int64_t));
    s->rack_slots = mem_zero(v->level[s->rack].count, sizeof(int64_t));
    s->quota = mem_zero(v->level[s->pod].count, sizeof(int64_t));
    s->candidates = mem_zero(v->n_nodes, sizeof(*s->candidates));
}

static void standby_end(struct standby *s)
{
    free(s->on_node);
    free(s->in_rack);
    free(s->in_pod);
    free(s->rack_free);
    free(s->rack_slots);
    free(s->quota);
    free(s->candidates);
}

struct placed_rank *placement_spares(const struct placement_view *view, const struct job_spec *spec,
                                     const struct placed_rank *ranks, int64_t wanted, size_t *n)
{
    *n = 0;
    if (wanted <= 0 || view->n_nodes == 0)
        return NULL;
    struct standby s = {.view = view, .spec = spec};
    struct placed_rank *out = NULL;
    standby_begin(&s);
    count_ranks(&s, ranks);
    count_racks(&s);
    share_out(&s, wanted);
    list_candidates(&s);
    int64_t most = wanted < (int64_t)s.n ? wanted : (int64_t)s.n;
    if (s.seat > 0 && most > 0) {
        out = mem_zero((size_t)(most * s.seat), sizeof(*out));
        *n = (size_t)(choose_seats(&s, most, out) * s.seat);
    }
    standby_end(&s);
    return out;
}

/* P(X = k + 1) from P(X = k) for X ~ Binomial(n, p); logarithms, since P(X = 0) of a large cluster is below the least double. */
int64_t placement_spares_auto(int64_t nodes, double failures_per_node_day, double repair_days)
{
    double p = -expm1(-failures_per_node_day * repair_days), sum = 0;
    if (nodes <= 0 || !(p > 0))
        return 0;
    if (p >= 1)
        return nodes;
    double log_term = (double)nodes * log1p(-p), log_odds = log(p) - log1p(-p);
    for (int64_t k = 0; k < nodes; k++) {
        sum += exp(log_term);
        if (sum >= COVERED)
            return k;
        log_term += log((double)(nodes - k) / (double)(k + 1)) + log_odds;
    }
    return nodes;
}
