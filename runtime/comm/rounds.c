/* rounds: see rounds.h. First the stages of each call, then what moves them.
 *
 * A sum is two exchanges: everyone sends each other rank its slice, sums its own slice in rank order, and sends the result to all
 * (reduce-scatter and all-gather, 2 (size-1)/size of the array per rank as a ring would, in two steps instead of 2 (size-1)). Small records
 * go by dissemination (Bruck et al., IEEE TPDS 8(11), 1997) in log2(size) steps. */
#include "runtime/comm/rounds.h"

#include <limits.h>
#include <stdlib.h>

#include "common/mem.h"
#include "runtime/comm/comm_private.h"

#define TAGS       32768 /* rounds that may be under way before a number comes again */
#define SLICE_STEP 16    /* elements: slices of floats begin on cache lines where their array does */

static char *at(const void *base, size_t bytes)
{
    return (char *)(uintptr_t)base + bytes;
}

/* The rank `distance` behind (or, negative, before) the round's own. */
static int neighbour(const struct round *r, int distance)
{
    const struct comm_group *g = r->request->group;
    return (g->rank + distance + g->size) % g->size;
}

/* Puts a message on the list of this stage, in pieces that the transport takes. Both sides know the size: nothing is no message. */
static void add(const struct round *r, bool out, int peer, void *data, size_t bytes)
{
    struct comm_group *g = r->request->group;
    struct comm *c = g->comm;
    size_t max = r->way->transport->message_max;
    max = c->limits.message_bytes < max ? c->limits.message_bytes : max;
    for (size_t done = 0; done < bytes; done += max) {
        size_t left = bytes - done, n = left < max ? left : max;
        c->messages = mem_one_more(c->messages, c->n_messages, &c->room, sizeof *c->messages);
        c->messages[c->n_messages++] = (struct comm_message){at(data, done), n, peer, out};
    }
    if (out)
        g->counters.bytes += bytes;
}

static void post_send(const struct round *r, int peer, const void *data, size_t bytes)
{
    add(r, true, peer, at(data, 0), bytes);
}

static void post_receive(const struct round *r, int peer, void *data, size_t bytes)
{
    add(r, false, peer, data, bytes);
}

/* ---- stages: each prepares the messages of r->stage; false when the round is over ------------------------------------- */

/* Along a binomial tree over the ranks as counted from the root: the parent of v is v without its lowest bit. */
static bool broadcast_stage(struct round *r)
{
    const struct comm_group *g = r->request->group;
    int root = r->request->call.peer, v = (g->rank - root + g->size) % g->size;
    int reach = v == 0 ? g->size : v & -v;
    void *data = at(r->request->call.out, r->from);
    if (r->stage == 0 && v > 0)
        post_receive(r, (v - reach + root) % g->size, data, r->count);
    for (int d = 1; r->stage == 1 && d < reach && v + d < g->size; d *= 2)
        post_send(r, (v + d + root) % g->size, data, r->count);
    return r->stage < 2;
}

/* Elements per slice of a round of an all-reduce; the last slices may be shorter or empty. */
static size_t slice_size(const struct comm_request *q, size_t count)
{
    size_t size = (size_t)q->group->size, slice = (count + size - 1) / size;
    return (slice + SLICE_STEP - 1) / SLICE_STEP * SLICE_STEP;
}

/* Rank's part of a round: where in the array, and how many bytes. */
static void *slice(const struct round *r, int rank, size_t *bytes)
{
    const struct comm_request *q = r->request;
    size_t n = slice_size(q, r->count), from = (size_t)rank * n;
    from = from < r->count ? from : r->count;
    n = r->count - from < n ? r->count - from : n;
    *bytes = n * q->element;
    return at(q->call.out, (r->from + from) * q->element);
}

/* What the other ranks hold of this rank's part comes into scratch, in the order of neighbour(). */
static void sum_scratch(const struct round *r, const void *own, void *out, size_t bytes)
{
    const struct comm_request *q = r->request;
    struct comm_terms terms = {own, r->scratch, bytes, q->group->rank, q->group->size};
    r->way->memory->sum(r->way->lane, out, &terms, bytes / q->element, q->call.type);
}

static void exchange_slices(const struct round *r)
{
    size_t mine, bytes;
    slice(r, r->request->group->rank, &mine);
    for (int d = 1; d < r->request->group->size; d++)
        post_receive(r, neighbour(r, d), at(r->scratch, (size_t)(d - 1) * mine), mine);
    for (int d = 1; d < r->request->group->size; d++) {
        void *theirs = slice(r, neighbour(r, -d), &bytes);
        post_send(r, neighbour(r, -d), theirs, bytes);
    }
}

static void gather_slices(const struct round *r)
{
    size_t mine, bytes;
    void *own = slice(r, r->request->group->rank, &mine);
    for (int d = 1; d < r->request->group->size; d++) {
        void *theirs = slice(r, neighbour(r, d), &bytes);
        post_receive(r, neighbour(r, d), theirs, bytes);
    }
    for (int d = 1; d < r->request->group->size; d++)
        post_send(r, neighbour(r, -d), own, mine);
}

static bool all_reduce_stage(struct round *r)
{
    if (r->stage == 0) {
        exchange_slices(r);
    } else if (r->stage == 1) {
        size_t bytes;
        void *own = slice(r, r->request->group->rank, &bytes);
        sum_scratch(r, own, own, bytes);
        gather_slices(r);
    }
    return r->stage < 2;
}

/* Rank's part of `base` (size,count), from this round's range on. */
static void *part(const struct round *r, const void *base, int rank)
{
    const struct comm_request *q = r->request;
    return at(base, ((size_t)rank * q->call.count + r->from) * q->element);
}

static bool reduce_scatter_stage(struct round *r)
{
    const struct comm_request *q = r->request;
    size_t bytes = r->count * q->element;
    for (int d = 1; r->stage == 0 && d < q->group->size; d++)
        post_receive(r, neighbour(r, d), at(r->scratch, (size_t)(d - 1) * bytes), bytes);
    for (int d = 1; r->stage == 0 && d < q->group->size; d++)
        post_send(r, neighbour(r, -d), part(r, q->call.in, neighbour(r, -d)), bytes);
    if (r->stage == 1)
        sum_scratch(r, part(r, q->call.in, q->group->rank), at(q->call.out, r->from * q->element), bytes);
    return r->stage < 1;
}

/* Copies between and within buffers; nothing when it is there already. */
static void place(const struct round *r, void *to, const void *from, size_t bytes)
{
    if (to != from && bytes > 0)
        r->way->memory->copy(r->way->lane, to, from, bytes);
}

static bool all_gather_stage(struct round *r)
{
    const struct comm_request *q = r->request;
    size_t bytes = r->count * q->element;
    const void *mine = at(q->call.in, r->from * q->element);
    for (int d = 1; r->stage == 0 && d < q->group->size; d++)
        post_receive(r, neighbour(r, d), part(r, q->call.out, neighbour(r, d)), bytes);
    for (int d = 1; r->stage == 0 && d < q->group->size; d++)
        post_send(r, neighbour(r, -d), mine, bytes);
    if (r->stage == 0)
        place(r, part(r, q->call.out, q->group->rank), mine, bytes);
    return r->stage < 1;
}

/* Scratch (size,bytes) fills with the arrays of the ranks from this one on: after stage k the first 2^(k+1) are there, and go on. False
 * when all are. */
static bool disseminate(struct round *r, size_t bytes)
{
    int size = r->request->group->size, d = r->stage < INT_WIDTH - 1 ? 1 << r->stage : size;
    if (r->stage == 0)
        place(r, r->scratch, r->request->call.in, bytes);
    if (d >= size)
        return false;
    size_t n = (size_t)(d < size - d ? d : size - d) * bytes;
    post_receive(r, neighbour(r, d), at(r->scratch, (size_t)d * bytes), n);
    post_send(r, neighbour(r, -d), r->scratch, n);
    return true;
}

static bool all_gather_small_stage(struct round *r)
{
    const struct comm_request *q = r->request;
    size_t bytes = r->count * q->element;
    if (disseminate(r, bytes))
        return true;
    size_t before = (size_t)q->group->rank * bytes, behind = (size_t)q->group->size * bytes - before;
    place(r, at(q->call.out, before), r->scratch, behind);
    place(r, q->call.out, at(r->scratch, behind), before);
    return false;
}

static bool all_reduce_small_stage(struct round *r)
{
    const struct comm_request *q = r->request;
    size_t bytes = r->count * q->element;
    if (disseminate(r, bytes))
        return true;
    struct comm_terms terms = {r->scratch, at(r->scratch, bytes), bytes, q->group->rank, q->group->size};
    r->way->memory->sum(r->way->lane, q->call.out, &terms, r->count, q->call.type);
    return false;
}

/* Where the rows of a rank begin. */
static size_t rows_before(const size_t *rows, int rank)
{
    size_t n = 0;
    for (int i = 0; i < rank; i++)
        n += rows[i];
    return n;
}

static bool all_to_all_stage(struct round *r)
{
    const struct comm_call *c = &r->request->call;
    int size = r->request->group->size, me = r->request->group->rank;
    char *out = c->out, *in = at(c->in, 0);
    for (int i = 0; r->stage == 0 && i < size; out += c->out_rows[i++] * c->count)
        if (i != me)
            post_receive(r, i, out, c->out_rows[i] * c->count);
    for (int d = 1; r->stage == 0 && d < size; d++) { /* everyone begins with another peer */
        int peer = neighbour(r, -d);
        post_send(r, peer, at(in, rows_before(c->in_rows, peer) * c->count), c->in_rows[peer] * c->count);
    }
    if (r->stage == 0)
        place(r, at(c->out, rows_before(c->out_rows, me) * c->count),
              at(in, rows_before(c->in_rows, me) * c->count), c->in_rows[me] * c->count);
    return r->stage < 1;
}

/* After stage k everyone knows of 2^(k+1) ranks that they have arrived (Hensgen, Finkel, Manber 1988). A message is one byte that means nothing. */
static bool barrier_stage(struct round *r)
{
    int size = r->request->group->size, d = r->stage < INT_WIDTH - 1 ? 1 << r->stage : size;
    if (d >= size)
        return false;
    post_receive(r, neighbour(r, -d), r->scratch, 1);
    post_send(r, neighbour(r, d), at(r->scratch, 1), 1);
    return true;
}

static bool send_stage(struct round *r)
{
    const struct comm_call *c = &r->request->call;
    if (r->stage == 0)
        post_send(r, c->peer, c->in, c->count);
    return r->stage < 1;
}

static bool receive_stage(struct round *r)
{
    const struct comm_call *c = &r->request->call;
    if (r->stage == 0)
        post_receive(r, c->peer, c->out, c->count);
    return r->stage < 1;
}

/* ---- the table: what a call needs ------------------------------------------------------------------------------------- */

static size_t scratch_of_slices(const struct comm_request *q, size_t count)
{
    return (size_t)(q->group->size - 1) * slice_size(q, count) * q->element;
}

static size_t scratch_of_others(const struct comm_request *q, size_t count)
{
    return (size_t)(q->group->size - 1) * count * q->element;
}

static size_t scratch_of_all(const struct comm_request *q, size_t count)
{
    return (size_t)q->group->size * count * q->element;
}

static size_t scratch_of_barrier(const struct comm_request *q, size_t count)
{
    (void)q;
    return 2 * count;
}

static const struct plan {
    const char *what;
    bool (*stage)(struct round *r);
    size_t (*scratch)(const struct comm_request *q, size_t count); /* bytes for a round; NULL: none */
    enum {
        AT_ONCE,
        COPIED,
        CUT
    } rounds; /* one of any size; so unless the transport keeps copies; of limited size, a few at a time */
    bool over_ranks; /* the limit is for the parts of all ranks together */
} plans[OP_COUNT] = {
    [OP_BROADCAST] = {"broadcast", broadcast_stage, NULL, CUT, false},
    [OP_ALL_REDUCE] = {"sum", all_reduce_stage, scratch_of_slices, CUT, false},
    [OP_ALL_REDUCE_SMALL] = {"small sum", all_reduce_small_stage, scratch_of_all, AT_ONCE, false},
    [OP_ALL_GATHER] = {"gather", all_gather_stage, NULL, COPIED, true},
    [OP_ALL_GATHER_SMALL] = {"small gather", all_gather_small_stage, scratch_of_all, AT_ONCE, false},
    [OP_REDUCE_SCATTER] = {"scattered sum", reduce_scatter_stage, scratch_of_others, CUT, true},
    [OP_ALL_TO_ALL] = {"all-to-all", all_to_all_stage, NULL, AT_ONCE, false},
    [OP_BARRIER] = {"barrier", barrier_stage, scratch_of_barrier, AT_ONCE, false},
    [OP_SEND] = {"send", send_stage, NULL, AT_ONCE, false},
    [OP_RECEIVE] = {"receive", receive_stage, NULL, AT_ONCE, false},
};

static const struct way *way_of(const struct comm_request *q)
{
    return q->call.record ? &q->group->records : &q->group->buffers;
}

static bool is_cut(const struct comm_request *q)
{
    const struct plan *plan = &plans[q->call.op];
    return plan->rounds == CUT || (plan->rounds == COPIED && way_of(q)->transport->copies);
}

static size_t elements_per_round(const struct comm_request *q)
{
    const struct plan *plan = &plans[q->call.op];
    size_t parts = plan->over_ranks ? (size_t)q->group->size : 1;
    size_t n = q->group->comm->limits.round_bytes / q->element / parts;
    if (!is_cut(q))
        return q->call.count;
    return n > 0 ? n : 1;
}

/* ---- what moves them -------------------------------------------------------------------------------------------------- */

static bool is_message(const struct comm_request *q)
{
    return q->call.op == OP_SEND || q->call.op == OP_RECEIVE;
}

static struct comm_post post_of(const struct comm_request *q, int tag, const struct comm_message *messages,
                                size_t n)
{
    enum comm_channel channel = is_message(q) ? CHANNEL_POINT : CHANNEL_COLLECTIVE;
    return (struct comm_post){channel, tag, plans[q->call.op].what, messages, n};
}

/* Moves a round as far as it goes now; true when it is over. */
static bool move(struct round *r)
{
    struct comm *c = r->request->group->comm;
    const struct comm_transport *t = r->way->transport;
    for (;; r->stage++) {
        if (!r->batch) {
            c->n_messages = 0;
            if (!plans[r->request->call.op].stage(r))
                return true;
            struct comm_post post = post_of(r->request, r->tag, c->messages, c->n_messages);
            if (post.n > 0)
                r->batch = t->post(r->way->link, &post);
        }
        /* of what it was posted with a batch keeps nothing */
        /* cppcheck-suppress invalidLifetime */
        if (r->batch && !t->done(r->batch))
            return false;
        r->batch = NULL;
    }
}

/* Memory that stays until the request is waited for. */
static void own(struct comm_request *q, void *data)
{
    q->owned = mem_one_more(q->owned, q->n_owned, &q->owned_room, sizeof *q->owned);
    q->owned[q->n_owned++] = data;
}

/* Fresh memory may be what the computing lane has been given work on until now. */
static void *alloc_scratch(const struct way *way, size_t bytes)
{
    void *data = way->memory->alloc(bytes);
    if (!way->lane)
        return data;
    struct comm_mark *now = way->memory->mark(NULL);
    way->memory->after(way->lane, now);
    way->memory->drop(now);
    return data;
}

/* Scratch of a round; what was in the window is perhaps still in use by what lanes have been given. */
static void *scratch(struct comm_request *q, struct window *w, size_t bytes)
{
    if (w && w->room >= bytes)
        return w->data;
    void *data = alloc_scratch(way_of(q), bytes);
    if (!w)
        own(q, data);
    else if (w->data)
        own(q, w->data);
    if (w)
        *w = (struct window){data, bytes, w->busy};
    return data;
}

static struct round *round_new(struct comm_request *q, struct window *window)
{
    const struct plan *plan = &plans[q->call.op];
    struct round *r = mem_zero(1, sizeof *r);
    size_t number = q->started++;
    r->request = q;
    r->way = way_of(q);
    r->from = number * q->per_round;
    r->count = q->call.count - r->from < q->per_round ? q->call.count - r->from : q->per_round;
    r->tag = (int)((q->first_tag + number) % TAGS);
    r->window = window;
    size_t bytes = plan->scratch ? plan->scratch(q, r->count) : 0;
    if (bytes > 0)
        r->scratch = scratch(q, window, bytes);
    if (window)
        window->busy = true;
    return r;
}

/* One message as begin and mark are told of it. */
static struct comm_message message_of(const struct comm_request *q)
{
    bool out = q->call.op == OP_SEND;
    return (struct comm_message){out ? at(q->call.in, 0) : q->call.out, q->call.count, q->call.peer, out};
}

static void begin_call(const struct comm_request *q)
{
    struct comm_message m = message_of(q);
    struct comm_post post = post_of(q, (int)q->first_tag, &m, is_message(q));
    if (way_of(q)->transport->begin)
        way_of(q)->transport->begin(way_of(q)->link, &post);
}

static void mark_end(struct comm_request *q)
{
    struct comm_message m = message_of(q);
    struct comm_post post = post_of(q, (int)q->first_tag, &m, is_message(q));
    if (way_of(q)->transport->mark)
        q->mark = way_of(q)->transport->mark(way_of(q)->link, &post);
}

static void round_over(struct round *r)
{
    struct comm_request *q = r->request;
    if (r->window)
        r->window->busy = false;
    if (++q->finished == q->rounds)
        mark_end(q);
    free(r);
}

static void begin(struct comm_request *q, struct window *window)
{
    struct comm *c = q->group->comm;
    struct round *r = round_new(q, window);
    if (move(r)) {
        round_over(r);
        return;
    }
    *c->end = r;
    c->end = &r->next;
}

static struct window *free_window(struct comm_group *g)
{
    for (int i = 0; i < WINDOWS; i++)
        if (!g->windows[i].busy)
            return &g->windows[i];
    return NULL;
}

/* Gives free windows to the rounds that wait for them. */
static void begin_waiting(struct comm_group *g)
{
    struct window *window;
    while (g->first && (window = free_window(g))) {
        struct comm_request *q = g->first;
        begin(q, window);
        if (q->started < q->rounds)
            continue;
        g->first = q->next;
        if (!g->first)
            g->last = &g->first;
    }
}

/* Rounds of calls between all ranks have numbers; messages of two have the tag of their call. */
static void number_rounds(struct comm_request *q)
{
    if (is_message(q)) {
        q->first_tag = (unsigned)q->call.tag;
        return;
    }
    q->first_tag = q->group->tags;
    q->group->tags = (unsigned)((q->group->tags + q->rounds) % TAGS);
}

struct comm_request *rounds_start(struct comm_group *group, const struct comm_call *call)
{
    struct comm_request *q = mem_zero(1, sizeof *q);
    q->group = group;
    q->call = *call;
    q->element = comm_type_size(call->type);
    q->per_round = elements_per_round(q);
    q->rounds = (call->count + q->per_round - 1) / q->per_round;
    number_rounds(q);
    begin_call(q);
    if (!is_cut(q)) {
        begin(q, NULL);
        return q;
    }
    *group->last = q;
    group->last = &q->next;
    begin_waiting(group);
    return q;
}

bool rounds_finished(const struct comm_request *request)
{
    return request->finished == request->rounds;
}

void rounds_end(struct comm_request *q)
{
    const struct comm_memory *memory = way_of(q)->memory;
    if (q->mark) {
        memory->after(NULL, q->mark);
        memory->drop(q->mark);
    }
    for (size_t i = 0; i < q->n_owned; i++)
        memory->free(q->owned[i]);
    free(q->owned);
    free(q);
}

void rounds_progress(struct comm *comm)
{
    if (comm->buffers.transport->progress)
        comm->buffers.transport->progress();
    for (struct round **link = &comm->active; *link;) {
        struct round *r = *link;
        if (!move(r)) {
            link = &r->next;
            continue;
        }
        struct comm_group *g = r->request->group;
        *link = r->next;
        if (!r->next)
            comm->end = link;
        round_over(r);
        begin_waiting(g);
    }
}
