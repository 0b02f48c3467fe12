/* mesh: coordinates of every rank, and that its groups of experts are those that placement keeps close together. */
#include "tests/unit/scratch.h"

#include "runtime/comm/mesh.h"

/* Both sides have a struct of this name, of which this file needs both. */
#define mesh placement_mesh
#include "daemon/core/placement_mesh.h"
#undef mesh

static const struct mesh_sizes meshes[] = {
    {1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}, {1, 3, 1, 2, 1}, {2, 2, 2, 2, 1}, {2, 2, 2, 2, 2}, {2, 2, 2, 2, 4},
    {1, 2, 4, 3, 2}, {3, 1, 2, 6, 6}, {4, 2, 6, 2, 3}, {1, 1, 1, 8, 4}, {2, 3, 5, 7, 7}, {8, 4, 2, 16, 8},
};
enum { N_MESHES = sizeof meshes / sizeof *meshes };

static void test_rank_of_coordinates(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESHES; i++) {
        const struct mesh_sizes *s = &meshes[i];
        int rank = 0;
        for (int dp = 0; dp < s->dp; dp++)
            for (int pp = 0; pp < s->pp; pp++)
                for (int cp = 0; cp < s->cp; cp++)
                    for (int tp = 0; tp < s->tp; tp++) {
                        struct mesh m = mesh_at(s, rank);
                        int want[] = {rank, tp, pp, cp, dp, dp * s->cp + cp, (dp * s->cp + cp) % s->ep};
                        int have[] = {m.rank, m.tp, m.pp, m.cp, m.dp, m.replica, m.ep};
                        if (memcmp(want, have, sizeof want) != 0)
                            fail_msg("mesh %zu, rank %d", i, rank);
                        rank++;
                    }
    }
}

/* Do both ranks belong to one group of experts? As mesh.h says: EP consecutive replicas of the same dense parameters. */
static bool together(const struct mesh *a, const struct mesh *b)
{
    return a->tp == b->tp && a->pp == b->pp && a->replica / a->size.ep == b->replica / b->size.ep;
}

/* As placement says: the ranks differ along dimensions that the axis spans only. */
static bool close_together(const struct placement_mesh *m, int a, int b)
{
    for (int d = 0; d < m->n; d++) {
        int64_t x = a / m->dim[d].stride % m->dim[d].size, y = b / m->dim[d].stride % m->dim[d].size;
        if (x != y && !(m->dim[d].axes & 1u << AXIS_EP))
            return false;
    }
    return true;
}

static void test_experts_are_where_placement_has_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESHES; i++) {
        const struct mesh_sizes *s = &meshes[i];
        struct placement_mesh placed;
        struct job_spec spec = {.tp = s->tp, .pp = s->pp, .cp = s->cp, .dp = s->dp, .ep = s->ep};
        spec.ranks = (int64_t)s->tp * s->pp * s->cp * s->dp;
        /* where neither of CP and EP divides the other placement counts wider groups, and says so */
        if (s->cp % s->ep != 0 && s->ep % s->cp != 0)
            continue;
        mesh_of(&spec, NULL, &placed);
        for (int a = 0; a < spec.ranks; a++)
            for (int b = 0; b < spec.ranks; b++) {
                struct mesh ma = mesh_at(s, a), mb = mesh_at(s, b);
                if (together(&ma, &mb) != close_together(&placed, a, b))
                    fail_msg("mesh %zu: ranks %d and %d", i, a, b);
            }
    }
}

static void test_groups_of_experts_are_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESHES; i++) {
        const struct mesh_sizes *s = &meshes[i];
        int ranks = s->tp * s->pp * s->cp * s->dp;
        for (int a = 0; a < ranks; a++) {
            struct mesh ma = mesh_at(s, a);
            int members = 0, parts = 0; /* of the group; and the sum of what part each has */
            for (int b = 0; b < ranks; b++) {
                struct mesh mb = mesh_at(s, b);
                members += together(&ma, &mb);
                parts += together(&ma, &mb) ? mb.ep : 0;
            }
            assert_int_equal(members, s->ep);
            assert_int_equal(parts, s->ep * (s->ep - 1) / 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_of_coordinates),
        cmocka_unit_test(test_experts_are_where_placement_has_them),
        cmocka_unit_test(test_groups_of_experts_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
