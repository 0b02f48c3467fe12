/* route: two passes of a counting sort. */
#include "runtime/model/route.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static size_t part_of(const struct route_shape *s, size_t token)
{
    return token % s->tokens / (s->tokens / s->parts);
}

/* Where the counter of a token's part, sequence and an expert lies. */
static size_t counter(const struct route_shape *s, size_t token, int32_t expert)
{
    return (part_of(s, token) * s->batch + token / s->tokens) * s->experts + (size_t)expert;
}

void route_count(const struct route_shape *shape, const int32_t *experts, int64_t *counts)
{
    size_t n = shape->batch * shape->tokens;
    memset(counts, 0, shape->parts * shape->batch * shape->experts * sizeof *counts);
    for (size_t i = 0; i < n * shape->top_k; i++)
        counts[counter(shape, i / shape->top_k, experts[i])]++;
}

/* Which pairs are within the limit: slots become 0 for kept, -1 for dropped; counts (experts) of those kept. */
static void keep(struct route *r, const struct route_shape *s, const int32_t *experts, const int64_t *before)
{
    size_t n = s->batch * s->tokens, cells = s->parts * s->batch * s->experts;
    int64_t *seen = mem_zero(cells, sizeof *seen);
    if (before)
        memcpy(seen, before, cells * sizeof *seen);
    memset(r->counts, 0, s->experts * sizeof *r->counts);
    for (size_t i = 0; i < n * s->top_k; i++) {
        int64_t place = seen[counter(s, i / s->top_k, experts[i])]++;
        bool kept = s->limit == 0 || place < (int64_t)s->limit;
        r->slots[i] = kept ? 0 : -1;
        r->counts[experts[i]] += kept;
    }
    free(seen);
}

void route_send(struct route *route, const struct route_shape *shape, const int32_t *experts,
                const int64_t *before)
{
    const struct route_shape *s = shape;
    size_t pairs = s->batch * s->tokens * s->top_k, own = s->experts / s->ranks;
    route->slots = mem_grow(route->slots, pairs, sizeof *route->slots);
    route->tokens = mem_grow(route->tokens, pairs, sizeof *route->tokens);
    route->counts = mem_grow(route->counts, s->experts, sizeof *route->counts);
    route->send_rows = mem_grow(route->send_rows, s->ranks, sizeof *route->send_rows);
    keep(route, s, experts, before);
    size_t *next = mem_zero(s->experts, sizeof *next);
    route->sends = 0;
    memset(route->send_rows, 0, s->ranks * sizeof *route->send_rows);
    for (size_t e = 0; e < s->experts; e++) {
        next[e] = route->sends;
        route->sends += (size_t)route->counts[e];
        route->send_rows[e / own] += (size_t)route->counts[e];
    }
    for (size_t i = 0; i < pairs; i++) {
        if (route->slots[i] < 0)
            continue;
        size_t row = next[experts[i]]++;
        route->slots[i] = (int32_t)row;
        route->tokens[row] = (int32_t)(i / s->top_k);
    }
    free(next);
}

void route_receive(struct route *route, const struct route_shape *shape, const int64_t *all)
{
    size_t own = shape->experts / shape->ranks, first = shape->rank * own;
    route->receive_rows = mem_grow(route->receive_rows, shape->ranks, sizeof *route->receive_rows);
    route->expert_rows = mem_grow(route->expert_rows, own, sizeof *route->expert_rows);
    size_t *at = mem_zero(shape->ranks * own, sizeof *at); /* first arrived row of (rank, expert) */
    route->receives = 0;
    for (size_t r = 0; r < shape->ranks; r++) {
        size_t before = route->receives;
        for (size_t e = 0; e < own; e++) {
            at[r * own + e] = route->receives;
            route->receives += (size_t)all[r * shape->experts + first + e];
        }
        route->receive_rows[r] = route->receives - before;
    }
    route->order = mem_grow(route->order, route->receives + 1, sizeof *route->order);
    route->back = mem_grow(route->back, route->receives + 1, sizeof *route->back);
    size_t row = 0;
    for (size_t e = 0; e < own; e++) {
        size_t begin = row;
        for (size_t r = 0; r < shape->ranks; r++)
            for (size_t i = 0; i < (size_t)all[r * shape->experts + first + e]; i++, row++) {
                route->order[row] = (int32_t)(at[r * own + e] + i);
                route->back[at[r * own + e] + i] = (int32_t)row;
            }
        route->expert_rows[e] = row - begin;
    }
    free(at);
}

void route_free(struct route *route)
{
    free(route->slots);
    free(route->tokens);
    free(route->counts);
    free(route->send_rows);
    free(route->receive_rows);
    free(route->expert_rows);
    free(route->order);
    free(route->back);
    *route = (struct route){.sends = 0};
}
