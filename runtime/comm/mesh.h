/* mesh: the place of a rank in DP x PP x CP x TP, TP fastest, and the groups that follow from it.
 *
 * rank = ((dp * PP + pp) * CP + cp) * TP + tp. A replica's ranks are those of one dp. Dense parameters have one copy for each (dp, cp):
 * DP x CP replicas, numbered dp * CP + cp. Experts are spread over EP consecutive of these, and have DP x CP / EP copies. */
#ifndef BELAY_RUNTIME_MESH_H
#define BELAY_RUNTIME_MESH_H

#include "common/err.h"
#include "runtime/comm/comm.h"

struct mesh_sizes {
    int tp, pp, cp, dp, ep;
};

struct mesh {
    struct mesh_sizes size;
    struct comm *comm;
    int rank;           /* in the world */
    int tp, pp, cp, dp; /* coordinates */
    int replica;        /* dp * CP + cp: which copy of the dense parameters this rank holds */
    int ep;             /* replica % EP: which part of the experts */
    /* Groups of this rank; those of one rank alone are there, too. Their ranks are in the order of the coordinate. */
    struct comm_group *world;
    struct comm_group *tp_group;
    struct comm_group *pp_group;
    struct comm_group *cp_group;
    struct comm_group *dp_group;        /* DP x CP: all copies of the same dense parameters, by replica */
    struct comm_group *ep_group;        /* EP: together they hold all experts */
    struct comm_group *expert_dp_group; /* DP x CP / EP: all copies of the same experts */
    struct comm_group *
        ends_group; /* first and last stage, for embeddings tied across the pipeline; NULL on other stages and when PP is 1 */
};

/* The coordinates of a rank, without groups. Pure. */
struct mesh mesh_at(const struct mesh_sizes *size, int rank);
/* Collective over the world: makes the groups. 0, or -1 with a sentence when the world has not TP x PP x CP x DP ranks or EP does not divide
 * DP x CP. With spare_ok the world may be larger (tests): ranks that are not needed get size.tp = 0 and no groups. */
int mesh_open(struct mesh *mesh, struct comm *comm, const struct mesh_sizes *size, bool spare_ok,
              struct err *err);

#endif
