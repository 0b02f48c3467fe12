/* rounds: what a rank of a very large group has to send, by a transport that counts messages and delivers none. */
#include "tests/unit/scratch.h"

#include "runtime/comm/comm_private.h"

enum { RANKS = 16384 };

static size_t posted; /* messages */

static struct comm_batch *post(struct comm_link *link, const struct comm_post *post)
{
    (void)link;
    posted += post->n;
    return (struct comm_batch *)(void *)&posted; /* any address: done() does not look at it */
}

static bool done(struct comm_batch *batch)
{
    (void)batch;
    return true;
}

static const struct comm_transport counting = {.message_max = (size_t)1 << 30, .post = post, .done = done};

/* Rank 5 of RANKS. */
static void join(struct comm *c, struct comm_group *g)
{
    struct way way = {.transport = &counting, .memory = &comm_memory_host};
    *c = (struct comm){.records = way,
                       .buffers = way,
                       .limits = {ROUND_BYTES, counting.message_max, SMALL_BYTES},
                       .end = &c->active};
    *g = (struct comm_group){.comm = c,
                             .name = "test",
                             .rank = 5,
                             .size = RANKS,
                             .last = &g->first,
                             .records = way,
                             .buffers = way};
}

/* A record of each rank goes to all in log2(ranks) steps, one message each way: a connection to every other rank of a run of this size is
 * more than a host can have open. */
static void test_small_records(void **state)
{
    (void)state;
    const size_t bytes[] = {1, sizeof(int), sizeof(double), 12, 24, 64};
    struct comm c;
    struct comm_group g;
    join(&c, &g);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        char mine[64] = {0}, *all = mem_zero(RANKS, bytes[i]);
        posted = 0;
        comm_share(&g, mine, bytes[i], all);
        assert_int_equal(posted, 2 * 14);
        free(all);
    }
    free(c.messages);
}

/* Large parts go straight to where they belong. */
static void test_large_parts(void **state)
{
    (void)state;
    struct comm c;
    struct comm_group g;
    join(&c, &g);
    char *mine = mem_zero(SMALL_BYTES, 1), *all = mem_zero(RANKS, SMALL_BYTES);
    posted = 0;
    comm_share(&g, mine, SMALL_BYTES, all);
    assert_int_equal(posted, 2 * (RANKS - 1));
    free(mine);
    free(all);
    free(c.messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_records),
        cmocka_unit_test(test_large_parts),
    };
    return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
