/* Pipeline schedules, all ranks together: whatever a schedule promises is seen by running the lists of all ranks against each other, with
 * messages that arrive in the order in which they were sent and a unit of time for each pass. */
#include "tests/unit/scratch.h"

#include <math.h>

#include "common/mem.h"
#include "runtime/engine/pipeline.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

struct shape {
    enum job_pipeline schedule;
    int pp, chunks, micro;
};

/* What travels: the output of a piece, or the gradient of its input. */
struct message {
    bool gradient;
    int micro, piece;
    int64_t ready;
};

struct queue {
    struct message *items;
    size_t room, sent, received;
};

struct rank {
    struct pipeline_pass *passes;
    size_t count, next;
    int64_t now, busy;
    struct queue *to; /* [pp] */
};

struct world {
    struct shape shape;
    struct rank *ranks;
    int64_t *done[3]; /* [kind][micro * pieces + piece]: when it ended; 0 not yet */
};

static const char *shape_text(const struct shape *s)
{
    static char text[96];
    (void)snprintf(text, sizeof text, "schedule %d, pp %d, %d chunks, %d micro-batches", (int)s->schedule,
                   s->pp, s->chunks, s->micro);
    return text;
}

static int pieces_of(const struct shape *s)
{
    return s->pp * s->chunks;
}

static struct world *world_new(const struct shape *s)
{
    struct err err = {""};
    struct world *w = mem_zero(1, sizeof *w);
    w->shape = *s;
    w->ranks = mem_zero((size_t)s->pp, sizeof *w->ranks);
    for (int i = 0; i < 3; i++)
        w->done[i] = mem_zero((size_t)(s->micro * pieces_of(s)), sizeof *w->done[i]);
    for (int r = 0; r < s->pp; r++) {
        struct rank *rank = &w->ranks[r];
        rank->passes = pipeline_passes(s->schedule, s->pp, s->chunks, s->micro, r, &rank->count, &err);
        if (!rank->passes)
            fail_msg("%s: %s", shape_text(s), err.text);
        rank->to = mem_zero((size_t)s->pp, sizeof *rank->to);
    }
    return w;
}

static void world_free(struct world *w)
{
    for (int r = 0; r < w->shape.pp; r++) {
        for (int to = 0; to < w->shape.pp; to++)
            free(w->ranks[r].to[to].items);
        free(w->ranks[r].to);
        free(w->ranks[r].passes);
    }
    for (int i = 0; i < 3; i++)
        free(w->done[i]);
    free(w->ranks);
    free(w);
}

static int64_t *done_at(const struct world *w, enum pipeline_kind kind, int micro, int piece)
{
    return &w->done[kind][micro * pieces_of(&w->shape) + piece];
}

/* The piece whose output (forward) or gradient (backward) a pass waits for; -1 when it needs none from elsewhere. */
static int source_of(const struct world *w, enum pipeline_kind kind, int piece)
{
    if (kind == PASS_FORWARD)
        return piece - 1;
    return kind == PASS_BACKWARD && piece + 1 < pieces_of(&w->shape) ? piece + 1 : -1;
}

/* Takes the message that the pass waits for off its queue: false when it is not there yet. Another one at the head is a failure. */
static bool receive(struct world *w, struct rank *rank, const struct pipeline_pass *p, int source)
{
    int pp = w->shape.pp, self = (int)(rank - w->ranks);
    struct queue *q = &w->ranks[source % pp].to[self];
    if (source % pp == self) {
        int64_t ready = *done_at(w, p->kind, p->micro, source);
        if (!ready)
            fail_msg("%s: rank %d waits for itself", shape_text(&w->shape), self);
        rank->now = ready > rank->now ? ready : rank->now;
        return true;
    }
    if (q->received == q->sent)
        return false;
    const struct message *m = &q->items[q->received++];
    if (m->gradient != (p->kind == PASS_BACKWARD) || m->micro != p->micro || m->piece != source)
        fail_msg("%s: rank %d wants micro-batch %d of piece %d, and the next message is %d of %d",
                 shape_text(&w->shape), self, p->micro, source, m->micro, m->piece);
    rank->now = m->ready > rank->now ? m->ready : rank->now;
    return true;
}

static void send(struct world *w, struct rank *rank, const struct pipeline_pass *p, int piece)
{
    int to = p->kind == PASS_FORWARD ? piece + 1 : p->kind == PASS_BACKWARD ? piece - 1 : -1;
    if (to < 0 || to >= pieces_of(&w->shape) || to % w->shape.pp == (int)(rank - w->ranks))
        return;
    struct queue *q = &rank->to[to % w->shape.pp];
    q->items = mem_one_more(q->items, q->sent, &q->room, sizeof *q->items);
    q->items[q->sent++] = (struct message){p->kind == PASS_BACKWARD, p->micro, piece, rank->now};
}

static bool is_split(const struct world *w)
{
    return w->shape.schedule == PIPELINE_ZERO_BUBBLE;
}

/* Each pass once, and after the pass of the same micro-batch and piece that comes before it. */
static void mark(struct world *w, struct rank *rank, const struct pipeline_pass *p, int piece)
{
    int64_t *at = done_at(w, p->kind, p->micro, piece);
    if (*at || (p->kind == PASS_WEIGHTS && !is_split(w)))
        fail_msg("%s: a pass too many", shape_text(&w->shape));
    if (p->kind != PASS_FORWARD && !*done_at(w, p->kind - 1, p->micro, piece))
        fail_msg("%s: pass %d of micro-batch %d comes too early", shape_text(&w->shape), (int)p->kind,
                 p->micro);
    *at = rank->now;
}

/* One pass of a rank, if its input is there. */
static bool advance(struct world *w, struct rank *rank)
{
    if (rank->next == rank->count)
        return false;
    const struct pipeline_pass *p = &rank->passes[rank->next];
    assert_in_range(p->micro, 0, w->shape.micro - 1);
    assert_in_range(p->chunk, 0, w->shape.chunks - 1);
    int piece = p->chunk * w->shape.pp + (int)(rank - w->ranks);
    int source = source_of(w, p->kind, piece);
    if (source >= 0 && !receive(w, rank, p, source))
        return false;
    rank->now++;
    rank->busy++;
    mark(w, rank, p, piece);
    send(w, rank, p, piece);
    rank->next++;
    return true;
}

/* Runs to the end; the time of the slowest rank. */
static int64_t run(struct world *w)
{
    bool moved = true;
    int64_t end = 0;
    while (moved) {
        moved = false;
        for (int r = 0; r < w->shape.pp; r++)
            while (advance(w, &w->ranks[r]))
                moved = true;
    }
    for (int r = 0; r < w->shape.pp; r++) {
        struct rank *rank = &w->ranks[r];
        if (rank->next < rank->count)
            fail_msg("%s: rank %d waits for ever at pass %zu of %zu", shape_text(&w->shape), r, rank->next,
                     rank->count);
        for (int to = 0; to < w->shape.pp; to++)
            assert_int_equal(rank->to[to].sent, rank->to[to].received);
        assert_int_equal(rank->busy, w->shape.micro * w->shape.chunks * (is_split(w) ? 3 : 2));
        end = rank->now > end ? rank->now : end;
    }
    return end;
}

static int less(int a, int b)
{
    return a < b ? a : b;
}

/* What a rank may hold: 1f1b as many as there are ranks from it to the last; zero-bubble everywhere as many as 1f1b on the first rank;
 * interleaved arXiv 2104.04473's warm-up and one more. */
static int most_held(const struct shape *s, int rank)
{
    int total = s->micro * s->chunks;
    if (s->schedule == PIPELINE_ZERO_BUBBLE)
        return less(total, s->pp);
    return less(total, s->chunks == 1 ? s->pp - rank : 2 * (s->pp - rank - 1) + (s->chunks - 1) * s->pp + 1);
}

static void check_memory(const struct world *w)
{
    for (int r = 0; r < w->shape.pp; r++) {
        int held = pipeline_in_flight(w->ranks[r].passes, w->ranks[r].count);
        if (held != most_held(&w->shape, r))
            fail_msg("%s: rank %d holds %d instead of %d", shape_text(&w->shape), r, held,
                     most_held(&w->shape, r));
    }
}

static void check_bubble(const struct world *w, int64_t end)
{
    const struct shape *s = &w->shape;
    double idle = (double)(end - w->ranks[0].busy) / (double)end;
    double formula = pipeline_bubble(s->schedule, s->pp, s->chunks, s->micro);
    if (fabs(idle - formula) > 1e-12)
        fail_msg("%s: %.6f of the time is idle, by formula %.6f", shape_text(s), idle, formula);
}

static void check_shape(const struct shape *s)
{
    struct world *w = world_new(s);
    int64_t end = run(w);
    check_memory(w);
    check_bubble(w, end);
    world_free(w);
}

static void one_chunk_of_any_size(void **state)
{
    (void)state;
    static const int micros[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64};
    for (int pp = 1; pp <= 17; pp++)
        for (size_t i = 0; i < COUNT(micros); i++) {
            check_shape(&(struct shape){PIPELINE_1F1B, pp, 1, micros[i]});
            check_shape(&(struct shape){PIPELINE_ZERO_BUBBLE, pp, 1, micros[i]});
        }
}

static void chunks_of_any_size(void **state)
{
    (void)state;
    for (int pp = 1; pp <= 9; pp++)
        for (int chunks = 1; chunks <= 6; chunks++)
            for (int rounds = 1; rounds <= 5; rounds++)
                check_shape(&(struct shape){PIPELINE_INTERLEAVED, pp, chunks, rounds * pp});
}

/* The lists of two ranks written out by hand: kind and micro-batch, with chunks the chunk too. */
static void lists_are_as_drawn(void **state)
{
    (void)state;
    static const struct {
        struct shape shape;
        int rank;
        const char *list;
    } rows[] = {
        {{PIPELINE_1F1B, 2, 1, 3}, 0, "F0 F1 B0 F2 B1 B2 "},
        {{PIPELINE_1F1B, 2, 1, 3}, 1, "F0 B0 F1 B1 F2 B2 "},
        {{PIPELINE_1F1B, 1, 1, 2}, 0, "F0 B0 F1 B1 "},
        {{PIPELINE_1F1B, 4, 1, 2}, 0, "F0 F1 B0 B1 "},
        {{PIPELINE_ZERO_BUBBLE, 2, 1, 3}, 0, "F0 F1 B0 W0 F2 B1 W1 B2 W2 "},
        {{PIPELINE_ZERO_BUBBLE, 2, 1, 3}, 1, "F0 B0 F1 B1 W0 F2 B2 W1 W2 "},
        {{PIPELINE_ZERO_BUBBLE, 4, 1, 1}, 3, "F0 B0 W0 "},
        {{PIPELINE_INTERLEAVED, 2, 2, 2}, 0, "F0 F1 F0' F1' B0' B1' B0 B1 "},
        {{PIPELINE_INTERLEAVED, 2, 2, 2}, 1, "F0 F1 F0' B0' F1' B1' B0 B1 "},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct shape *s = &rows[i].shape;
        char text[256] = "";
        size_t count = 0, used = 0;
        struct pipeline_pass *p =
            pipeline_passes(s->schedule, s->pp, s->chunks, s->micro, rows[i].rank, &count, NULL);
        for (size_t k = 0; k < count; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%c%d%s ", "FBW"[p[k].kind], p[k].micro,
                                     p[k].chunk ? "'" : "");
        assert_string_equal(text, rows[i].list);
        free(p);
    }
}

static void what_cannot_be_scheduled_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct shape shape;
        int rank;
        const char *says;
    } rows[] = {
        {{PIPELINE_1F1B, 2, 2, 4}, 0, "2 virtual stages need parallel.schedule: interleaved"},
        {{PIPELINE_ZERO_BUBBLE, 2, 3, 4}, 0, "3 virtual stages need parallel.schedule: interleaved"},
        {{PIPELINE_INTERLEAVED, 4, 2, 6}, 0, "6 micro-batches are not a multiple of pp = 4"},
        {{PIPELINE_1F1B, 0, 1, 1}, 0, "0 pipeline ranks"},
        {{PIPELINE_1F1B, 2, 1, 0}, 0, "0 micro-batches"},
        {{PIPELINE_1F1B, 2, 1, 1}, 2, "rank 2 of 2"},
        {{PIPELINE_1F1B, 2, 1, 1}, -1, "rank -1 of 2"},
        {{PIPELINE_1F1B, 2, 1, 200000000}, 0, "too many passes"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct shape *s = &rows[i].shape;
        struct err err = {""};
        size_t count = 0;
        assert_null(pipeline_passes(s->schedule, s->pp, s->chunks, s->micro, rows[i].rank, &count, &err));
        assert_contains(err.text, rows[i].says);
    }
}

/* Figures of the papers: 4 ranks and 8 micro-batches. */
static void bubbles_are_as_published(void **state)
{
    (void)state;
    assert_true(fabs(pipeline_bubble(PIPELINE_1F1B, 4, 1, 8) - 3.0 / 11) < 1e-15);
    assert_true(fabs(pipeline_bubble(PIPELINE_INTERLEAVED, 4, 2, 8) - 3.0 / 19) < 1e-15);
    assert_true(fabs(pipeline_bubble(PIPELINE_ZERO_BUBBLE, 4, 1, 8) - 3.0 / 27) < 1e-15);
    assert_true(pipeline_bubble(PIPELINE_1F1B, 1, 1, 8) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_chunk_of_any_size),    cmocka_unit_test(chunks_of_any_size),
        cmocka_unit_test(lists_are_as_drawn),       cmocka_unit_test(what_cannot_be_scheduled_is_refused),
        cmocka_unit_test(bubbles_are_as_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
