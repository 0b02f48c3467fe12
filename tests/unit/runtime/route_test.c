/* route: random choices on several ranks in one process, against what is sent when each row is written down by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/model/route.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TRIALS   2000
#define RANKS    6

/* A row as it travels: where it comes from, and to whom. */
struct row {
    size_t rank, token;
    int32_t expert;
};

struct sender {
    struct route_shape shape;
    struct route route;
    int32_t *experts; /* (N,K) */
    int64_t *before;  /* (parts, B, E) */
    struct row *rows; /* as sent */
};

static size_t below(size_t limit)
{
    return (size_t)lrand48() % limit;
}

static size_t pairs(const struct route_shape *s)
{
    return s->batch * s->tokens * s->top_k;
}

static size_t cells(const struct route_shape *s)
{
    return s->parts * s->batch * s->experts;
}

/* K different experts for each token; `crowd`: nearly all want the same. */
static void choose(const struct route_shape *s, int32_t *experts, bool crowd)
{
    for (size_t i = 0; i < pairs(s); i++) {
        size_t k = i % s->top_k;
        bool again = true;
        while (again) {
            experts[i] = (int32_t)(crowd && below(4) > 0 ? below(s->top_k) : below(s->experts));
            again = false;
            for (size_t j = 0; j < k; j++)
                again = again || experts[i - 1 - j] == experts[i];
        }
    }
}

/* As the contract says: of a sequence's tokens here those of one part follow each other. */
static size_t part_at(const struct route_shape *s, size_t token)
{
    size_t at = token % s->tokens;
    return s->parts == 1 || at < s->tokens / 2 ? 0 : 1;
}

static int64_t *cell(const struct route_shape *s, int64_t *counts, size_t token, int32_t expert)
{
    return &counts[part_at(s, token) * s->batch * s->experts + token / s->tokens * s->experts +
                   (size_t)expert];
}

/* Is pair i within the limit? Counted anew from all pairs before it. */
static bool fits(const struct sender *x, size_t i)
{
    const struct route_shape *s = &x->shape;
    size_t token = i / s->top_k;
    int64_t place = *cell(s, x->before, token, x->experts[i]);
    for (size_t j = 0; j < i; j++) {
        size_t other = j / s->top_k;
        place += x->experts[j] == x->experts[i] && other / s->tokens == token / s->tokens &&
                 part_at(s, other) == part_at(s, token);
    }
    return s->limit == 0 || place < (int64_t)s->limit;
}

/* ---- one sender ---- */

static void check_counts(const struct sender *x)
{
    const struct route_shape *s = &x->shape;
    int64_t *counts = mem_zero(cells(s), sizeof *counts), *expected = mem_zero(cells(s), sizeof *counts);
    memset(counts, 0x55, cells(s) * sizeof *counts);
    route_count(s, x->experts, counts);
    for (size_t i = 0; i < pairs(s); i++)
        ++*cell(s, expected, i / s->top_k, x->experts[i]);
    assert_memory_equal(counts, expected, cells(s) * sizeof *counts);
    free(counts);
    free(expected);
}

/* Rows in order of the expert, then of the token, each kept pair once. */
static void check_sends(const struct sender *x)
{
    const struct route_shape *s = &x->shape;
    size_t row = 0;
    for (size_t e = 0; e < s->experts; e++) {
        size_t first = row;
        for (size_t i = 0; i < pairs(s); i++) {
            if (x->experts[i] != (int32_t)e)
                continue;
            bool kept = fits(x, i);
            assert_int_equal(x->route.slots[i], kept ? (int)row : -1);
            if (kept)
                assert_int_equal(x->route.tokens[row], i / s->top_k);
            row += kept;
        }
        assert_int_equal(x->route.counts[e], row - first);
    }
    assert_int_equal(x->route.sends, row);
}

static void check_send_rows(const struct sender *x)
{
    const struct route_shape *s = &x->shape;
    for (size_t r = 0; r < s->ranks; r++) {
        size_t rows = 0;
        for (size_t i = 0; i < pairs(s); i++)
            rows += x->route.slots[i] >= 0 && (size_t)x->experts[i] / (s->experts / s->ranks) == r;
        assert_int_equal(x->route.send_rows[r], rows);
    }
}

static void write_rows(struct sender *x)
{
    x->rows = mem_zero(x->route.sends, sizeof *x->rows);
    for (size_t i = 0; i < pairs(&x->shape); i++)
        if (x->route.slots[i] >= 0)
            x->rows[x->route.slots[i]] = (struct row){x->shape.rank, i / x->shape.top_k, x->experts[i]};
}

static void send(struct sender *x, const struct route_shape *shape, bool crowd)
{
    x->shape = *shape;
    x->experts = mem_zero(pairs(shape), sizeof *x->experts);
    x->before = mem_zero(cells(shape), sizeof *x->before);
    for (size_t i = 0; shape->parts > 1 && i < cells(shape); i++)
        x->before[i] = (int64_t)below(4);
    choose(shape, x->experts, crowd);
    route_send(&x->route, shape, x->experts, shape->parts > 1 ? x->before : NULL);
    check_counts(x);
    check_sends(x);
    check_send_rows(x);
    write_rows(x);
}

/* ---- all to all ---- */

/* What rank `to` gets: each sender's rows for it, in rank order. */
static struct row *arrive(const struct sender *x, size_t to, const struct route *route)
{
    struct row *rows = mem_zero(route->receives, sizeof *rows);
    size_t at = 0;
    for (size_t r = 0; r < x[0].shape.ranks; r++) {
        size_t from = 0;
        for (size_t other = 0; other < to; other++)
            from += x[r].route.send_rows[other];
        assert_int_equal(route->receive_rows[r], x[r].route.send_rows[to]);
        assert_true(at + route->receive_rows[r] <= route->receives);
        if (route->receive_rows[r] > 0)
            memcpy(rows + at, x[r].rows + from, route->receive_rows[r] * sizeof *rows);
        at += route->receive_rows[r];
    }
    assert_int_equal(at, route->receives);
    return rows;
}

/* Brought into order, rows lie by expert; each expert's are of one rank after another, and each rank's in order of the token. */
static void check_order(const struct route *route, const struct row *rows, size_t first, size_t experts)
{
    size_t at = 0;
    for (size_t e = 0; e < experts; e++) {
        size_t last_rank = 0, last_token = 0;
        for (size_t i = 0; i < route->expert_rows[e]; i++, at++) {
            const struct row *x = &rows[route->order[at]];
            assert_int_equal(x->expert, first + e);
            assert_int_equal(route->back[route->order[at]], at);
            assert_true(i == 0 || x->rank > last_rank || (x->rank == last_rank && x->token > last_token));
            last_rank = x->rank;
            last_token = x->token;
        }
    }
    assert_int_equal(at, route->receives);
}

static void receive(struct sender *x, size_t rank, const int64_t *all)
{
    struct route_shape s = x[rank].shape;
    struct route *route = &x[rank].route;
    size_t own = s.experts / s.ranks;
    route_receive(route, &s, all);
    struct row *rows = arrive(x, rank, route);
    check_order(route, rows, rank * own, own);
    free(rows);
}

static struct route_shape random_shape(void)
{
    struct route_shape s = {.batch = 1 + below(3), .ranks = 1 + below(RANKS), .parts = 1 + below(2)};
    s.tokens = (1 + below(5)) * s.parts;
    s.experts = s.ranks * (1 + below(3));
    s.top_k = 1 + below(s.experts < 4 ? s.experts : 4);
    s.limit = below(3) ? below(6) : 0;
    return s;
}

static void what_is_sent_arrives_by_expert(void **state)
{
    (void)state;
    struct sender x[RANKS] = {{.shape = {0}}}; /* their routes go on from trial to trial, as in training */
    srand48(3);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct route_shape s = random_shape();
        int64_t *all = mem_zero(s.ranks * s.experts, sizeof *all);
        for (size_t r = 0; r < s.ranks; r++) {
            s.rank = r;
            send(&x[r], &s, trial % 3 == 0);
            memcpy(all + r * s.experts, x[r].route.counts, s.experts * sizeof *all);
        }
        for (size_t r = 0; r < s.ranks; r++)
            receive(x, r, all);
        for (size_t r = 0; r < s.ranks; r++) {
            free(x[r].experts);
            free(x[r].before);
            free(x[r].rows);
        }
        free(all);
    }
    for (size_t r = 0; r < RANKS; r++)
        route_free(&x[r].route);
}

/* ---- by hand ---- */

static void a_rank_that_nobody_chooses_gets_nothing(void **state)
{
    (void)state;
    const int32_t experts[] = {0, 1, 1, 0, 0, 1};
    struct route_shape s = {
        .batch = 1, .tokens = 3, .experts = 4, .top_k = 2, .ranks = 2, .rank = 1, .parts = 1};
    const int64_t all[] = {3, 3, 0, 0, 3, 3, 0, 0};
    struct route r = {0};
    route_send(&r, &s, experts, NULL);
    assert_int_equal(r.send_rows[0], 6);
    assert_int_equal(r.send_rows[1], 0);
    route_receive(&r, &s, all);
    assert_int_equal(r.receives, 0);
    assert_int_equal(r.expert_rows[0] + r.expert_rows[1] + r.receive_rows[0] + r.receive_rows[1], 0);
    route_free(&r);
}

/* Two sequences of four tokens, two rows an expert: each sequence counts for itself, first come first served. */
static void a_limit_counts_each_sequence_by_itself(void **state)
{
    (void)state;
    const int32_t experts[] = {0, 0, 0, 1, 1, 0, 0, 0}, slots[] = {0, 1, -1, 4, 5, 2, 3, -1};
    const int64_t before[] = {1, 0, 2, 2}, counts[] = {1, 1};
    struct route_shape s = {
        .batch = 2, .tokens = 4, .experts = 2, .top_k = 1, .ranks = 1, .limit = 2, .parts = 1};
    struct route r = {0};
    route_send(&r, &s, experts, NULL);
    assert_memory_equal(r.slots, slots, sizeof slots);
    assert_int_equal(r.sends, 6);
    /* earlier parts have taken one row of expert 0 in the first sequence, and everything in the second */
    route_send(&r, &s, experts, before);
    assert_memory_equal(r.counts, counts, sizeof counts);
    assert_int_equal(r.slots[0], 0);
    assert_int_equal(r.slots[3], 1);
    assert_int_equal(r.sends, 2);
    route_free(&r);
}

/* ---- a sequence cut over ranks keeps the same tokens ---- */

/* Local token i of rank r of `cp`, whose two parts are chunks r and 2 cp - 1 - r. */
static size_t position(size_t i, size_t r, size_t cp, size_t chunk)
{
    return i < chunk ? r * chunk + i : (2 * cp - 1 - r) * chunk + i - chunk;
}

/* Choices of each sequence's tokens before position `end`, in counts (E). */
static void count_before(const struct route_shape *whole, const int32_t *experts, size_t sequence, size_t end,
                         int64_t *counts)
{
    for (size_t i = 0; i < end * whole->top_k; i++)
        counts[experts[sequence * whole->tokens * whole->top_k + i]]++;
}

static void check_cut(const struct route_shape *whole, const int32_t *experts, const int32_t *slots,
                      size_t rank, size_t cp)
{
    struct route_shape s = *whole;
    size_t chunk = whole->tokens / (2 * cp), k = s.top_k;
    struct route r = {0};
    s.tokens = 2 * chunk;
    s.parts = 2;
    int32_t *own = mem_zero(pairs(&s), sizeof *own);
    int64_t *before = mem_zero(cells(&s), sizeof *before);
    for (size_t i = 0; i < pairs(&s); i++) {
        size_t token = i / k, at = position(token % s.tokens, rank, cp, chunk);
        own[i] = experts[(token / s.tokens * whole->tokens + at) * k + i % k];
    }
    for (size_t p = 0; p < 2; p++)
        for (size_t b = 0; b < s.batch; b++)
            count_before(whole, experts, b, position(p * chunk, rank, cp, chunk),
                         before + (p * s.batch + b) * s.experts);
    route_send(&r, &s, own, before);
    for (size_t i = 0; i < pairs(&s); i++) {
        size_t token = i / k, at = position(token % s.tokens, rank, cp, chunk);
        assert_int_equal(r.slots[i] >= 0, slots[(token / s.tokens * whole->tokens + at) * k + i % k] >= 0);
    }
    free(own);
    free(before);
    route_free(&r);
}

static void a_cut_sequence_keeps_the_same_tokens(void **state)
{
    (void)state;
    srand48(5);
    for (int trial = 0; trial < 300; trial++) {
        size_t cp = 2 + below(3);
        struct route_shape s = {.batch = 1 + below(3),
                                .tokens = 2 * cp * (1 + below(4)),
                                .experts = 2 + below(4),
                                .ranks = 1,
                                .limit = 1 + below(8),
                                .parts = 1};
        s.top_k = 1 + below(s.experts);
        int32_t *experts = mem_zero(pairs(&s), sizeof *experts);
        struct route r = {0};
        choose(&s, experts, false);
        route_send(&r, &s, experts, NULL);
        for (size_t rank = 0; rank < cp; rank++)
            check_cut(&s, experts, r.slots, rank, cp);
        free(experts);
        route_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_arrives_by_expert),
        cmocka_unit_test(a_rank_that_nobody_chooses_gets_nothing),
        cmocka_unit_test(a_limit_counts_each_sequence_by_itself),
        cmocka_unit_test(a_cut_sequence_keeps_the_same_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
