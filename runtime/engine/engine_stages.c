/* engine_stages: what goes from stage to stage. A pass waits for its input; receives are started one pass ahead, sends are waited for when the step
 * ends or when their buffer is wanted again. */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "runtime/engine/engine_private.h"

/* Sends that may be under way before a device waits for the first of them rather than that memory is taken for one more. */
enum { SENDING = 3 };

static void sent(struct boundary *b)
{
    comm_wait(b->sending);
    b->sending = NULL;
}

/* One that is free or has gone. Else, when enough are on their way, the one whose sending began longest ago and that the host need not wait for. NULL when
 * there is none. */
static struct boundary *free_boundary(struct engine *e)
{
    struct boundary *oldest = NULL;
    size_t sending = 0;
    for (size_t i = 0; i < e->n_boundaries; i++) {
        struct boundary *b = &e->boundaries[i];
        if (b->taken)
            continue;
        if (!b->sending || comm_done(b->sending))
            return b;
        sending++;
        oldest = !oldest || b->sent < oldest->sent ? b : oldest;
    }
    return sending >= SENDING && comm_ordered(oldest->sending) ? oldest : NULL;
}

int stages_take(struct engine *e)
{
    struct boundary *b = free_boundary(e);
    if (b) {
        sent(b);
        b->taken = true;
        return (int)(b - e->boundaries);
    }
    e->boundaries = mem_grow(e->boundaries, e->n_boundaries + 1, sizeof *e->boundaries);
    e->boundaries[e->n_boundaries] =
        (struct boundary){.data = e->k->alloc(model_boundary(e->model) * e->k->act_size), .taken = true};
    if (!e->boundaries[e->n_boundaries].data) {
        log_error("no memory for what is sent to the next stage of the pipeline; use a smaller batch.micro");
        abort(); /* in the middle of a collective step nothing can be undone */
    }
    return (int)e->n_boundaries++;
}

static size_t boundary_bytes(const struct engine *e)
{
    return model_boundary(e->model) * e->k->act_size;
}

/* The stage `by` pieces further on. */
static int stage(const struct engine *e, int by)
{
    int pp = e->mesh->size.pp;
    return (e->mesh->pp + by + pp) % pp;
}

/* Tags tell activations from gradients, and the chunks of the receiver apart. */
static int tag_of(bool forward, int chunk)
{
    return 2 * chunk + forward;
}

/* Boundary `i` goes to a neighbour and is free when it has gone. */
void stages_send(struct engine *e, int i, bool forward, int chunk)
{
    struct boundary *b = &e->boundaries[i];
    int pp = e->mesh->size.pp, last = pp - 1;
    int theirs = forward ? chunk + (e->mesh->pp == last) : chunk - (e->mesh->pp == 0);
    b->sending = comm_send_start(e->mesh->pp_group, b->data, boundary_bytes(e), stage(e, forward ? 1 : -1),
                                 tag_of(forward, theirs));
    b->sent = e->sends++;
    b->taken = false;
}

int *stages_slot(const struct engine *e, const struct pipeline_pass *p)
{
    return &e->slot_of[p->chunk * e->micro_batches + p->micro];
}

/* A free slot; -1 when all are taken. */
static int take_slot(struct engine *e)
{
    for (int i = 0; i < e->slots; i++)
        if (!e->slot_taken[i]) {
            e->slot_taken[i] = true;
            return i;
        }
    return -1;
}

static bool needs_input(const struct engine *e, const struct pipeline_pass *p)
{
    const struct layout_chunk *c = &e->layout.chunks[p->chunk];
    return (p->kind == PASS_FORWARD && !c->begins) || (p->kind == PASS_BACKWARD && !c->ends);
}

/* Starts the receive of pass i, unless that has happened or there is no slot for it yet. */
static void start_arrival(struct engine *e, size_t i)
{
    const struct pipeline_pass *p = &e->passes[i];
    struct arrival *a = &e->arrivals[i];
    bool forward = p->kind == PASS_FORWARD;
    if (a->started)
        return;
    if (forward && *stages_slot(e, p) < 0)
        *stages_slot(e, p) = take_slot(e);
    if (forward && *stages_slot(e, p) < 0)
        return;
    a->boundary = forward ? -1 : stages_take(e);
    a->started = true;
    if (!needs_input(e, p))
        return;
    act *to = forward ? model_input(e->model, *stages_slot(e, p), (size_t)p->chunk)
                      : e->boundaries[a->boundary].data;
    a->request = comm_receive_start(e->mesh->pp_group, to, boundary_bytes(e), stage(e, forward ? -1 : 1),
                                    tag_of(forward, p->chunk));
}

/* The input of pass i is there; that of the next one that has any is on its way. */
void stages_await(struct engine *e, size_t i)
{
    start_arrival(e, i);
    for (size_t j = i + 1; j < e->n_passes; j++)
        if (needs_input(e, &e->passes[j])) {
            start_arrival(e, j);
            break;
        }
    comm_wait(e->arrivals[i].request);
    e->arrivals[i].request = NULL;
}

void stages_receive(struct engine *e, int slot, int chunk)
{
    comm_wait(comm_receive_start(e->mesh->pp_group, model_input(e->model, slot, (size_t)chunk),
                                 boundary_bytes(e), stage(e, -1), tag_of(true, chunk)));
}

void stages_release(struct engine *e, const struct pipeline_pass *p)
{
    e->slot_taken[*stages_slot(e, p)] = false;
    *stages_slot(e, p) = -1;
}

void stages_begin(struct engine *e)
{
    memset(e->arrivals, 0, e->n_passes * sizeof *e->arrivals);
    for (int i = 0; i < e->virtual_stages * e->micro_batches; i++)
        e->slot_of[i] = -1;
}

void stages_end(struct engine *e)
{
    for (size_t i = 0; i < e->n_boundaries; i++)
        sent(&e->boundaries[i]);
}
