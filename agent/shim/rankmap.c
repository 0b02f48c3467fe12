/* rankmap: built once at go; lookups are array reads. */
#include "agent/shim/rankmap.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static int place_rank(struct rankmap *m, const struct link_map_node *node, size_t n, size_t i,
                      struct err *err)
{
    int64_t rank = node->ranks[i];
    if (rank < 0 || rank >= m->world)
        return err_set(err, "the go order puts rank %lld on %s, but the world has %lld ranks",
                       (long long)rank, node->node, (long long)m->world);
    if (m->node_of[rank] >= 0)
        return err_set(err, "the go order lists rank %lld twice (second time on %s)", (long long)rank,
                       node->node);
    m->node_of[rank] = (int32_t)n;
    m->local[rank] = (int32_t)i;
    return 0;
}

static int check_own(const struct link_order *order, const struct rankmap *m, struct err *err)
{
    if (order->map[order->node_rank].n_ranks != order->n_ranks)
        return err_set(err, "the go order's map gives this node %zu ranks, the order itself %zu",
                       order->map[order->node_rank].n_ranks, order->n_ranks);
    for (size_t i = 0; i < order->n_ranks; i++)
        if (rankmap_node(m, order->ranks[i].rank) != order->node_rank)
            return err_set(err, "the go order's map does not put rank %lld on this node",
                           (long long)order->ranks[i].rank);
    return 0;
}

int rankmap_build(const struct link_order *order, struct rankmap *out, struct err *err)
{
    *out = (struct rankmap){.world = order->world, .nodes = order->nodes};
    if (order->n_map != (size_t)order->nodes || order->node_rank < 0 || order->node_rank >= order->nodes)
        return err_set(err, "the go order's map has %zu nodes, expected %lld", order->n_map,
                       (long long)order->nodes);
    out->node_of = mem_grow(NULL, (size_t)order->world, sizeof *out->node_of);
    out->local = mem_zero((size_t)order->world, sizeof *out->local);
    memset(out->node_of, 0xff, (size_t)order->world * sizeof *out->node_of);
    size_t placed = 0;
    for (size_t n = 0; n < order->n_map; n++)
        for (size_t i = 0; i < order->map[n].n_ranks; i++, placed++)
            if (place_rank(out, &order->map[n], n, i, err) != 0)
                goto fail;
    if (placed != (size_t)order->world) {
        err_set(err, "the go order's map places %zu of %lld ranks", placed, (long long)order->world);
        goto fail;
    }
    if (check_own(order, out, err) == 0)
        return 0;
fail:
    rankmap_clear(out);
    return -1;
}

void rankmap_clear(struct rankmap *m)
{
    free(m->node_of);
    free(m->local);
    *m = (struct rankmap){0};
}

int64_t rankmap_node(const struct rankmap *m, int64_t rank)
{
    return rank >= 0 && rank < m->world ? m->node_of[rank] : -1;
}

bool rankmap_is_loopback(const char *addr)
{
    return strncmp(addr, "127.", 4) == 0 || strcmp(addr, "::1") == 0 || strcmp(addr, "localhost") == 0;
}

bool rankmap_all_loopback(const struct link_order *order)
{
    for (size_t n = 0; n < order->n_map; n++)
        if (!rankmap_is_loopback(order->map[n].addr))
            return false;
    return order->n_map > 0;
}
