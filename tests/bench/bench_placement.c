/* bench_placement: how long the placement engine takes at full size, and what its placements are worth.
 *
 * Times: the 24,576 GPUs of tests/topologies/llama3.yaml, wall clock. Worth: a cluster of 3,072
 * nodes half full of random jobs; for a dozen meshes the predicted seconds of communication per step and the bytes per step between
 * pods of four placements: ours; first fit (slots in topology order, TP groups kept in a node); random nodes; and best fit under the
 * lowest switch as Slurm's topology/tree plugin does it: the lowest switch with enough free slots, of several the one with fewest,
 * and under it leaf by leaf the smallest that suffices for what is left, else the largest. Exits with 1 when another one takes
 * fewer seconds, or no more seconds and fewer bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "daemon/core/placement.h"
#include "planner/planner.h"

enum { REPEATS = 9, MOST_SLOTS = 8 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* ---- the cluster ---- */

struct site {
    struct cluster_spec *cluster;
    struct placement_node *nodes; /* in topology order, as in the file */
    int64_t *slots;               /* free ones, MOST_SLOTS for each node */
    size_t n;
};

static void site_load(struct site *s, const char *yaml, const char *path)
{
    static struct job_diagnostics d;
    int bad = path ? cluster_spec_load(path, &s->cluster, &d)
                   : cluster_spec_parse(yaml, strlen(yaml), "cluster.yaml", &s->cluster, &d);
    if (bad != 0) {
        fprintf(stderr, "bench_placement: %s\n", d.text[0]);
        exit(1);
    }
    s->n = s->cluster->n_nodes;
    s->nodes = mem_zero(s->n, sizeof(*s->nodes));
    s->slots = mem_zero(s->n * MOST_SLOTS, sizeof(int64_t));
    for (size_t i = 0; i < s->n; i++) {
        const struct cluster_node *c = &s->cluster->nodes[i];
        struct placement_node *node = &s->nodes[i];
        *node = (struct placement_node){.name = c->name, .rack = c->rack, .pod = c->pod, .nvlink = c->nvlink};
        node->gpu = node->usable = true;
        node->slots = c->slots;
        node->free_slots = &s->slots[i * MOST_SLOTS];
        for (int64_t k = 0; k < c->slots; k++)
            s->slots[i * MOST_SLOTS + node->n_free++] = k;
    }
}

static void site_free(struct site *s)
{
    free(s->nodes);
    free(s->slots);
    cluster_spec_free(s->cluster);
}

/* ---- jobs ---- */

struct mesh_row {
    const char *model, *parallel;
};

static const struct mesh_row meshes[] = {
    {"{preset: llama3-8b}", "{tp: 1, dp: 512, zero: 3}"},
    {"{preset: llama3-8b}", "{tp: 2, dp: 256, zero: 1}"},
    {"{preset: llama3-70b}", "{tp: 8, dp: 64, zero: 1}"},
    {"{preset: llama3-70b}", "{tp: 8, pp: 4, dp: 32}"},
    {"{preset: llama3-70b}", "{tp: 4, pp: 8, dp: 64}"},
    {"{preset: llama3-405b}", "{tp: 8, pp: 16, dp: 8}"},
    {"{preset: llama3-405b}", "{tp: 8, pp: 16, dp: 64}"},
    {"{preset: llama3-405b}", "{tp: 8, pp: 32, dp: 16}"},
    {"{preset: llama3-405b, context: 131072}", "{tp: 8, cp: 16, pp: 16, dp: 4}"},
    {"{preset: llama3-70b, context: 32768}", "{tp: 8, cp: 4, pp: 4, dp: 8}"},
    {"{preset: llama3-8b, experts: 64}", "{tp: 1, pp: 4, dp: 256, ep: 64}"},
    {"{preset: llama3-8b, experts: 16}", "{tp: 4, pp: 2, dp: 64, ep: 16}"},
    {"{preset: llama3-8b, experts: 64}", "{tp: 2, cp: 2, pp: 8, dp: 32, ep: 32}"},
};
enum { MESHES = sizeof(meshes) / sizeof(meshes[0]) };

static struct job_spec *job(const struct mesh_row *row)
{
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    char *yaml = str_printf("name: p\ntrain:\n  model: %s\n  data: {path: x}\n  steps: 1\n"
                            "  batch: {global: 2048, micro: 1}\n  precision: bf16\nparallel: %s\n"
                            "resources: {device: gpu}\ncheckpoint: {directory: c}\n",
                            row->model, row->parallel);
    if (job_spec_parse_plan(yaml, strlen(yaml), "p.yaml", NULL, 0, &spec, &d) != 0) {
        fprintf(stderr, "bench_placement: %s\n%s", d.text[0], yaml);
        exit(1);
    }
    free(yaml);
    return spec;
}

/* ---- times ---- */

struct span {
    double ms[REPEATS];
    size_t n;
};

static void add_time(struct span *s, double ms)
{
    size_t i = s->n++;
    for (; i > 0 && s->ms[i - 1] > ms; i--)
        s->ms[i] = s->ms[i - 1];
    s->ms[i] = ms;
}

static void print_times(const char *what, const struct span *s)
{
    printf("  %-36s %8.3f %8.3f %8.3f\n", what, s->ms[0], s->ms[s->n / 2], s->ms[s->n - 1]);
}

static void must(enum placement_result result, const struct err *why)
{
    if (result == PLACEMENT_OK)
        return;
    fprintf(stderr, "bench_placement: %s\n", why->text);
    exit(1);
}

/* One node of the placement fails: with and without building the view. */
static void time_repair(struct site *site, const struct job_spec *spec, const struct placed_rank *ranks,
                        struct placed_rank *moved, size_t lost, struct span *repair, struct span *whole)
{
    struct err why;
    for (size_t i = 0; i < site->n; i++)
        site->nodes[i].usable = strcmp(site->nodes[i].name, ranks[lost].node) != 0;
    double begin = now_ms();
    struct placement_view *view = placement_view_new(site->nodes, site->n, site->cluster->links);
    double built = now_ms();
    must(placement_repair(view, spec, ranks, NULL, 0, moved, &why), &why);
    double end = now_ms();
    add_time(repair, end - built);
    add_time(whole, end - begin);
    placement_view_free(view);
}

static void times(void)
{
    struct site site = {.n = 0};
    struct mesh_row row = {"{preset: llama3-405b}", "{tp: 8, pp: 16, dp: 128}"};
    struct job_spec *spec = job(&row);
    struct placed_rank *ranks = mem_zero((size_t)spec->ranks, sizeof(*ranks)),
                       *moved = mem_zero((size_t)spec->ranks, sizeof(*moved));
    struct span view_ms = {.n = 0}, find = view_ms, repair = view_ms, whole = view_ms, cost_ms = view_ms;
    struct placement_cost cost;
    struct err why;
    site_load(&site, NULL, "tests/topologies/llama3.yaml");
    for (int i = 0; i < REPEATS; i++) {
        double begin = now_ms();
        struct placement_view *view = placement_view_new(site.nodes, site.n, site.cluster->links);
        double built = now_ms();
        must(placement_find(view, spec, ranks, &why), &why);
        double found = now_ms();
        placement_cost(view, spec, ranks, &cost);
        add_time(&cost_ms, now_ms() - found);
        add_time(&view_ms, built - begin);
        add_time(&find, found - built);
        placement_view_free(view);
    }
    for (size_t i = 0; i < REPEATS; i++)
        time_repair(&site, spec, ranks, moved, i * 1700, &repair, &whole);
    printf(
        "24,576 devices, 16,384 ranks (TP 8 x PP 16 x DP 128), milliseconds, least, median and most of %d:\n",
        REPEATS);
    print_times("view of 3,072 nodes", &view_ms);
    print_times("placement", &find);
    print_times("repair after one node", &repair);
    print_times("the same with building the view", &whole);
    print_times("cost of a given placement", &cost_ms);
    free(ranks);
    free(moved);
    job_spec_free(spec);
    site_free(&site);
}

/* ---- other ways to place ---- */

struct rivals {
    const struct site *site;
    const struct job_spec *spec;
    const size_t *order; /* nodes, in the order to fill */
    size_t n;
};

static int64_t room(const struct site *s, size_t node, const struct job_spec *spec)
{
    return (int64_t)s->nodes[node].n_free / spec->tp * spec->tp; /* a TP group stays in a node */
}

/* Fills nodes in that order, ranks in their own; false when they do not fit. */
static bool fill(const struct rivals *r, struct placed_rank *ranks)
{
    int64_t rank = 0;
    for (size_t i = 0; i < r->n && rank < r->spec->ranks; i++) {
        const struct placement_node *node = &r->site->nodes[r->order[i]];
        int64_t n = room(r->site, r->order[i], r->spec);
        for (int64_t k = 0; k < n && rank < r->spec->ranks; k++, rank++) {
            placement_coordinates(r->spec, rank, &ranks[rank]);
            memset(ranks[rank].node, 0, sizeof(ranks[rank].node));
            memcpy(ranks[rank].node, node->name, strlen(node->name));
            ranks[rank].slot = node->free_slots[k];
        }
    }
    return rank == r->spec->ranks;
}

static bool first_fit(const struct site *site, const struct job_spec *spec, struct placed_rank *ranks)
{
    size_t *order = mem_zero(site->n, sizeof(*order));
    for (size_t i = 0; i < site->n; i++)
        order[i] = i;
    struct rivals r = {site, spec, order, site->n};
    bool ok = fill(&r, ranks);
    free(order);
    return ok;
}

static bool random_nodes(const struct site *site, const struct job_spec *spec, struct placed_rank *ranks)
{
    uint64_t state = 20261129;
    size_t *order = mem_zero(site->n, sizeof(*order));
    for (size_t i = 0; i < site->n; i++) {
        size_t k = draw(&state) % (i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    struct rivals r = {site, spec, order, site->n};
    bool ok = fill(&r, ranks);
    free(order);
    return ok;
}

/* Switches are racks (leaves), pods and the cluster: runs of nodes. */
struct leaf {
    size_t first, n;
    int64_t room;
    bool used;
};

static bool same_switch(const struct site *s, size_t a, size_t b, int level)
{
    bool pod = strcmp(s->nodes[a].pod, s->nodes[b].pod) == 0;
    return level == 2 || (pod && (level == 1 || strcmp(s->nodes[a].rack, s->nodes[b].rack) == 0));
}

/* The switches of a level under nodes first..first+n-1. Fresh array. */
static struct leaf *switches(const struct site *s, const struct job_spec *spec, size_t first, size_t n,
                             int level, size_t *count)
{
    struct leaf *all = mem_zero(n, sizeof(*all));
    *count = 0;
    for (size_t i = first; i < first + n; i++) {
        if (*count == 0 || !same_switch(s, i - 1, i, level))
            all[(*count)++].first = i;
        all[*count - 1].n++;
        all[*count - 1].room += room(s, i, spec);
    }
    return all;
}

/* The smallest with that much room; NULL = none. */
static struct leaf *smallest(struct leaf *all, size_t n, int64_t need)
{
    struct leaf *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (!all[i].used && all[i].room >= need && (!best || all[i].room < best->room))
            best = &all[i];
    return best;
}

static struct leaf *largest(struct leaf *all, size_t n)
{
    struct leaf *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (!all[i].used && (!best || all[i].room > best->room))
            best = &all[i];
    return best;
}

static int by_number(const void *x, const void *y)
{
    size_t a = *(const size_t *)x, b = *(const size_t *)y;
    return a < b ? -1 : a > b;
}

static bool under(const struct site *site, const struct job_spec *spec, const struct leaf *top,
                  struct placed_rank *ranks)
{
    size_t n_leaves, n = 0;
    int64_t need = spec->ranks;
    struct leaf *leaves = switches(site, spec, top->first, top->n, 0, &n_leaves);
    size_t *order = mem_zero(site->n, sizeof(*order));
    while (need > 0) {
        struct leaf *l = smallest(leaves, n_leaves, need);
        l = l ? l : largest(leaves, n_leaves);
        l->used = true;
        need -= l->room;
        for (size_t i = 0; i < l->n; i++)
            order[n++] = l->first + i;
    }
    qsort(order, n, sizeof(*order), by_number);
    struct rivals r = {site, spec, order, n};
    bool ok = fill(&r, ranks);
    free(order);
    free(leaves);
    return ok;
}

static bool lowest_switch(const struct site *site, const struct job_spec *spec, struct placed_rank *ranks)
{
    bool ok = false;
    for (int level = 0; level <= 2 && !ok; level++) {
        size_t n;
        struct leaf *all = switches(site, spec, 0, site->n, level, &n);
        struct leaf *top = smallest(all, n, spec->ranks);
        ok = top && under(site, spec, top, ranks);
        free(all);
    }
    return ok;
}

/* ---- worth ---- */

/* Takes `n` slots from a node on. */
static size_t take_run(struct site *s, size_t node, int64_t slots, int owner, int *owners)
{
    for (; node < s->n && slots > 0; node++)
        for (int k = 0; k < MOST_SLOTS && slots > 0; k++)
            if (owners[node * MOST_SLOTS + (size_t)k] == 0) {
                owners[node * MOST_SLOTS + (size_t)k] = owner;
                slots--;
            }
    return node;
}

/* Jobs of 1 to 1,024 slots (most of them small) fill the cluster in order; then random ones end until half of it is free. */
static void half_fill(struct site *s, uint64_t seed)
{
    size_t all = s->n * MOST_SLOTS, held = all, at = 0;
    int *owners = mem_zero(all, sizeof(int)), jobs = 0;
    while (at < s->n) {
        int64_t slots = 1 + (int64_t)(draw(&seed) % ((uint64_t)1 << (draw(&seed) % 11)));
        at = take_run(s, at > 0 ? at - 1 : 0, slots >= MOST_SLOTS ? slots / MOST_SLOTS * MOST_SLOTS : slots,
                      ++jobs, owners);
    }
    while (held > all / 2) {
        int ended = 1 + (int)(draw(&seed) % (uint64_t)jobs);
        for (size_t i = 0; i < all; i++)
            if (owners[i] == ended) {
                owners[i] = 0;
                held--;
            }
    }
    for (size_t i = 0; i < s->n; i++) {
        s->nodes[i].n_free = 0;
        for (int k = 0; k < MOST_SLOTS; k++)
            if (owners[i * MOST_SLOTS + (size_t)k] == 0)
                s->slots[i * MOST_SLOTS + s->nodes[i].n_free++] = k;
    }
    free(owners);
}

enum way { OURS, FIRST, RANDOM, SWITCH, WAYS };

static bool place(enum way way, const struct placement_view *view, const struct site *site,
                  const struct job_spec *spec, struct placed_rank *ranks)
{
    struct err why;
    switch (way) {
    case OURS:
        return placement_find(view, spec, ranks, &why) == PLACEMENT_OK;
    case FIRST:
        return first_fit(site, spec, ranks);
    case RANDOM:
        return random_nodes(site, spec, ranks);
    case SWITCH:
    case WAYS:
        break;
    }
    return lowest_switch(site, spec, ranks);
}

static bool is_worse(double ours, double theirs)
{
    return ours > theirs * (1 + 1e-9);
}

/* How often a rival was below ours. */
struct tally {
    int seconds, steps, bytes, bytes_at_equal, of;
};

/* The planner's step on H100s with the levels that the placement has; NaN for a mesh that it refuses. */
static double step_seconds(const struct site *site, const struct job_spec *spec,
                           const struct placement_cost *cost)
{
    struct err err;
    struct plan plan;
    struct plan_request request;
    const struct plan_device *device = plan_device_find("h100", &err);
    plan_request_init(spec, device, &request);
    memcpy(request.links, site->cluster->links, sizeof(request.links));
    memcpy(request.level, cost->level, sizeof(request.level));
    if (plan_make(&request, &plan, &err) != 0)
        return (double)NAN;
    return plan.step.total;
}

static void compare_one(const struct placement_view *view, const struct site *site,
                        const struct mesh_row *row, struct tally *t)
{
    struct job_spec *spec = job(row);
    struct placed_rank *ranks = mem_zero((size_t)spec->ranks, sizeof(*ranks));
    struct placement_cost cost[WAYS];
    double step[WAYS];
    int seconds = 0, bytes = 0, steps = 0;
    printf("  %-40s %5lld", row->parallel, (long long)spec->ranks);
    for (enum way way = OURS; way < WAYS; way++) {
        if (!place(way, view, site, spec, ranks)) {
            printf(" | %16s", "does not fit");
            cost[way] = cost[OURS];
            step[way] = step[OURS];
            continue;
        }
        placement_cost(view, spec, ranks, &cost[way]);
        step[way] = step_seconds(site, spec, &cost[way]);
        printf(" | %6.2f s %7.2f TB, step %6.2f s", cost[way].seconds, cost[way].top_bytes / 1e12, step[way]);
        if (way != OURS)
            printf(" (x%.2f)", step[way] / step[OURS]);
        seconds += is_worse(cost[OURS].seconds, cost[way].seconds);
        bytes += is_worse(cost[OURS].top_bytes, cost[way].top_bytes);
        steps += is_worse(step[OURS], step[way]);
        t->bytes_at_equal += is_worse(cost[OURS].top_bytes, cost[way].top_bytes) &&
                             !is_worse(cost[way].seconds, cost[OURS].seconds);
        t->of += way != OURS;
    }
    printf("%s%s\n", seconds + steps > 0 ? "  <- slower" : "", bytes > 0 ? "  <- more bytes" : "");
    t->seconds += seconds;
    t->steps += steps;
    t->bytes += bytes;
    free(ranks);
    job_spec_free(spec);
}

static void compare(const char *what, const char *yaml, uint64_t seed, struct tally *t)
{
    struct site site = {.n = 0};
    site_load(&site, yaml, NULL);
    half_fill(&site, seed);
    struct placement_view *view = placement_view_new(site.nodes, site.n, site.cluster->links);
    printf("\n%s, half full (seed %llu): per step seconds of communication, bytes between pods, and the "
           "predicted "
           "step on H100s (as a multiple of ours)\n",
           what, (unsigned long long)seed);
    printf("  %-40s %5s | %-32s | %-40s | %-40s | %s\n", "mesh", "ranks", "ours", "first fit", "random",
           "lowest switch");
    for (size_t i = 0; i < MESHES; i++)
        compare_one(view, &site, &meshes[i], t);
    placement_view_free(view);
    site_free(&site);
}

#define NODES "devices: {type: h100, per_node: 8}\n"

int main(void)
{
    static const char tapered[] =
        "name: tapered\n" NODES "links:\n  rack: {bandwidth: 50GB/s}\n  pod: {bandwidth: 25GB/s}\n"
        "  cluster: {bandwidth: 7.143GB/s}\n"
        "pods:\n  - {name: 'pod[1-8]', racks: 'rack[1-192]', nodes: 'gpu[0001-3072]'}\n";
    times();
    struct tally t = {0};
    for (uint64_t seed = 1; seed <= 3; seed++)
        compare("3,072 nodes in 8 pods of 192 racks, 50 GB/s in a rack, 25 in a pod, 7.1 between pods",
                tapered, seed, &t);
    printf("\nof %d comparisons, another way took fewer seconds of communication in %d, a shorter step in "
           "%d, sent "
           "fewer bytes between pods in %d, and fewer bytes in no more seconds in %d\n",
           t.of, t.seconds, t.steps, t.bytes, t.bytes_at_equal);
    return t.seconds > 0 || t.bytes_at_equal > 0;
}
