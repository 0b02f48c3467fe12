/* mesh: see mesh.h. Each kind of group is a set of coordinates that its ranks share; as ranks are numbered by their coordinates, the members in
 * ascending order are in the order of the coordinate along which the group runs. */
#include "runtime/comm/mesh.h"

#include <stdint.h>
#include <stdlib.h>

#include "common/mem.h"

struct mesh mesh_at(const struct mesh_sizes *size, int rank)
{
    struct mesh m = {.size = *size, .rank = rank};
    m.tp = rank % size->tp;
    m.cp = rank / size->tp % size->cp;
    m.pp = rank / size->tp / size->cp % size->pp;
    m.dp = rank / size->tp / size->cp / size->pp;
    m.replica = m.dp * size->cp + m.cp;
    m.ep = m.replica % size->ep;
    return m;
}

static bool same_stage(const struct mesh *a, const struct mesh *b)
{
    return a->tp == b->tp && a->pp == b->pp;
}

static bool in_tp(const struct mesh *a, const struct mesh *b)
{
    return a->pp == b->pp && a->replica == b->replica;
}

static bool in_pp(const struct mesh *a, const struct mesh *b)
{
    return a->tp == b->tp && a->replica == b->replica;
}

static bool in_cp(const struct mesh *a, const struct mesh *b)
{
    return same_stage(a, b) && a->dp == b->dp;
}

static bool in_dp(const struct mesh *a, const struct mesh *b)
{
    return same_stage(a, b);
}

static bool in_ep(const struct mesh *a, const struct mesh *b)
{
    return same_stage(a, b) && a->replica / a->size.ep == b->replica / b->size.ep;
}

static bool in_expert_dp(const struct mesh *a, const struct mesh *b)
{
    return same_stage(a, b) && a->ep == b->ep;
}

static bool at_end(const struct mesh *m)
{
    return m->size.pp > 1 && (m->pp == 0 || m->pp == m->size.pp - 1);
}

static bool at_ends(const struct mesh *a, const struct mesh *b)
{
    return at_end(a) && at_end(b) && in_pp(a, b);
}

static bool in_mesh(const struct mesh *a, const struct mesh *b)
{
    (void)a;
    (void)b;
    return true;
}

/* The ranks of the mesh that are together with `me`, in ascending order; NULL as `me` has none. Collective. */
static struct comm_group *group_of(struct comm *comm, const struct mesh *me, const char *name,
                                   bool (*together)(const struct mesh *, const struct mesh *), int ranks)
{
    size_t n = 0;
    int *list = mem_grow(NULL, (size_t)ranks, sizeof *list);
    for (int r = 0; me && r < ranks; r++) {
        struct mesh other = mesh_at(&me->size, r);
        if (together(me, &other))
            list[n++] = r;
    }
    struct comm_group *group = comm_group_new(comm, name, list, n);
    free(list);
    return group;
}

static int check_sizes(const struct mesh_sizes *s, int world, bool spare_ok, struct err *err)
{
    const int sizes[] = {s->tp, s->pp, s->cp, s->dp, s->ep};
    int64_t ranks = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 1)
            return err_set(err,
                           "the mesh has an axis of size %d; parallel.tp, pp, cp, dp and ep are 1 or more",
                           sizes[i]);
        ranks = i < 4 && ranks <= world ? ranks * sizes[i] : ranks; /* stays below 2^62 */
    }
    if (ranks > world || (ranks < world && !spare_ok))
        return err_set(
            err,
            "the mesh tp %d x pp %d x cp %d x dp %d does not fit the %d rank(s) of this run; start "
            "as many ranks as "
            "the product, or change parallel in the job file",
            s->tp, s->pp, s->cp, s->dp, world);
    if ((int64_t)s->dp * s->cp % s->ep != 0)
        return err_set(err,
                       "parallel.ep %d does not divide dp %d x cp %d, over whose ranks the experts are "
                       "spread; choose an ep that does",
                       s->ep, s->dp, s->cp);
    return 0;
}

int mesh_open(struct mesh *mesh, struct comm *comm, const struct mesh_sizes *size, bool spare_ok,
              struct err *err)
{
    struct comm_group *world = comm_world(comm);
    int rank = comm_rank(world), spread = comm_size(world);
    if (check_sizes(size, spread, spare_ok, err) != 0)
        return -1;
    int ranks = size->tp * size->pp * size->cp * size->dp;
    *mesh = rank < ranks ? mesh_at(size, rank) : (struct mesh){.rank = rank};
    mesh->comm = comm;
    const struct mesh *me = rank < ranks ? mesh : NULL;
    mesh->tp_group = group_of(comm, me, "tp", in_tp, ranks);
    mesh->pp_group = group_of(comm, me, "pp", in_pp, ranks);
    mesh->cp_group = group_of(comm, me, "cp", in_cp, ranks);
    mesh->dp_group = group_of(comm, me, "dp", in_dp, ranks);
    mesh->ep_group = group_of(comm, me, "ep", in_ep, ranks);
    mesh->expert_dp_group = group_of(comm, me, "expert_dp", in_expert_dp, ranks);
    mesh->ends_group = group_of(comm, me, "ends", at_ends, ranks);
    mesh->world = ranks < spread ? group_of(comm, me, "mesh", in_mesh, ranks) : world;
    return 0;
}
