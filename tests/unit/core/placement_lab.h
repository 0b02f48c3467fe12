/* placement_lab: small random clusters and jobs for the tests of the placement engine. */
#ifndef BELAY_TESTS_UNIT_CORE_PLACEMENT_LAB_H
#define BELAY_TESTS_UNIT_CORE_PLACEMENT_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "daemon/core/placement_cost.h"
#include "daemon/core/placement_mesh.h"
#include "daemon/core/placement_private.h"

enum { LAB_NODES = 16, LAB_SLOTS = 8 };
#define LAB_GIB ((int64_t)1 << 30)

struct lab {
    uint64_t random;
    struct placement_node nodes[LAB_NODES];
    size_t n_nodes;
    char names[LAB_NODES][4][16];
    int64_t slots[LAB_NODES][LAB_SLOTS];
    struct cluster_link links[DOMAIN_COUNT];
    struct job_spec spec;
    struct traffic traffic;
};

static inline uint64_t lab_random(struct lab *l)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return l->random;
}

static inline int64_t lab_upto(struct lab *l, int64_t n) /* 1..n */
{
    return 1 + (int64_t)(lab_random(l) >> 11) % n;
}

static inline bool lab_chance(struct lab *l, int percent)
{
    return lab_upto(l, 100) <= percent;
}

static inline void lab_node(struct lab *l, size_t i, int pods, int racks, int percent_free)
{
    struct placement_node *n = &l->nodes[i];
    long long pod = lab_upto(l, pods), rack = lab_upto(l, racks);
    (void)snprintf(l->names[i][0], 16, "node%u", (unsigned)(i % 100000));
    (void)snprintf(l->names[i][1], 16, "rack%lld", rack + 8);
    (void)snprintf(l->names[i][2], 16, "pod%lld", pod + 8);
    (void)snprintf(l->names[i][3], 16, "%s", lab_chance(l, 30) ? "nv1" : "");
    char(*names)[16] = l->names[i];
    *n = (struct placement_node){
        .name = names[0], .rack = names[1], .pod = names[2], .nvlink = names[3], .usable = true};
    n->slots = lab_upto(l, 4) * 2;
    n->free_slots = l->slots[i];
    for (int64_t s = 0; s < n->slots; s++)
        if (lab_chance(l, percent_free))
            l->slots[i][n->n_free++] = s;
}

/* Up to 16 nodes in up to 3 pods of up to 4 racks, with random slots taken. */
static inline void lab_cluster(struct lab *l, size_t most)
{
    int pods = (int)lab_upto(l, 3), racks = (int)lab_upto(l, 4), percent = 20 + (int)lab_upto(l, 80);
    l->n_nodes = (size_t)lab_upto(l, (int64_t)most);
    for (size_t i = 0; i < l->n_nodes; i++)
        lab_node(l, i, pods, racks, percent);
    double bytes_per_s = 1e11;
    for (int d = 0; d < DOMAIN_COUNT; d++) {
        l->links[d] = (struct cluster_link){bytes_per_s, 1e-6 * (double)lab_upto(l, 10)};
        bytes_per_s /=
            lab_chance(l, 40) ? 1 : (double)lab_upto(l, 8); /* often no slower than the level below */
    }
}

static inline void lab_border(struct lab *l, struct job_border *b, int percent_required,
                              int percent_preferred)
{
    *b = (struct job_border){DOMAIN_CLUSTER, false};
    if (lab_chance(l, percent_required))
        *b = (struct job_border){(enum job_domain)(lab_upto(l, DOMAIN_COUNT) - 1), true};
    else if (lab_chance(l, percent_preferred))
        *b = (struct job_border){(enum job_domain)(lab_upto(l, DOMAIN_COUNT) - 1), false};
}

static inline void lab_borders(struct lab *l, int percent_required, int percent_preferred)
{
    lab_border(l, &l->spec.placement.tp, percent_required, percent_preferred);
    lab_border(l, &l->spec.placement.cp, percent_required, percent_preferred);
    lab_border(l, &l->spec.placement.ep, percent_required, percent_preferred);
    lab_border(l, &l->spec.placement.pp, percent_required, percent_preferred);
    lab_border(l, &l->spec.placement.dp, percent_required, percent_preferred);
}

/* A mesh of up to `most` ranks, with experts at times; traffic from nothing to a hundred times as much, by axis. */
static inline void lab_mesh(struct lab *l, int64_t most)
{
    struct job_spec *s = &l->spec;
    do {
        *s = (struct job_spec){
            .tp = lab_upto(l, 4), .pp = lab_upto(l, 4), .cp = 1, .dp = lab_upto(l, 4), .ep = 1};
        s->cp = lab_chance(l, 40) ? lab_upto(l, 4) : 1;
        s->ranks = s->tp * s->pp * s->cp * s->dp;
    } while (s->ranks > most);
    s->virtual_stages = 1;
    s->device = DEVICE_CPU;
    if (lab_chance(l, 40)) {
        int64_t ep = lab_upto(l, s->dp * s->cp);
        bool whole = s->cp % ep == 0 || ep % s->cp == 0;
        s->ep = s->dp * s->cp % ep == 0 && whole ? ep : 1;
    }
    traffic_of(s, &l->traffic); /* for the sizes */
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        if (l->traffic.axis[a].size > 1) {
            l->traffic.axis[a].bytes = 1e6 * (double)lab_upto(l, 1000) * (lab_chance(l, 30) ? 100 : 1);
            l->traffic.axis[a].messages = (double)lab_upto(l, 1000);
        }
}

#endif
