/* staged: a transport for buffers on a device, over MPI between hosts; see transport.h. Several ranks may share a device.
 *
 * A message that leaves is copied into pinned memory by the link's lane, and posted to MPI when the copy is there; one that comes is received into pinned
 * memory, and then copied to the device by the same lane. So the host waits for a device only where MPI needs the bytes, and nothing on the device
 * waits for another rank: a batch is done when all its messages have gone, or come and been given to the lane, and what the lane is given next
 * finds them in place.
 *
 * comm cuts messages into pieces of MESSAGE_MAX, so that copying and sending overlap. Copies end in the order of the lane, so that pieces are posted in
 * the order in which comm named them. A piece that goes to several peers is copied once. */
#include <sched.h>
#include <stdlib.h>

#include "common/mem.h"
#include "runtime/comm/transport.h"

#define MESSAGE_MAX ((size_t)1 << 20)

struct piece {
    struct comm_message message; /* as comm named it */
    void *pinned;
    bool shared; /* pinned belongs to an earlier piece of the batch */
    bool over;
    struct comm_mark *copied; /* out, until posted; NULL: as soon as the piece before it */
    struct comm_batch *sent;  /* MPI's */
    struct piece *next;       /* among those to be posted */
    const struct comm_batch *batch;
};

struct comm_link {
    struct comm_link *mpi;
    struct comm_lane *lane;
    struct piece *first, **last;    /* out, not posted yet, in the order of the lane */
    struct comm_batch *used, **end; /* done, but the lane still reads what they received */
};

struct comm_batch {
    struct comm_link *link;
    struct comm_post post; /* without messages */
    size_t n, begin;       /* pieces before `begin` are over */
    struct comm_mark *mark;
    struct comm_batch *next;
    struct piece pieces[];
};

static const struct comm_memory *memory;

static int staged_open(struct comm_run *run, struct err *err)
{
    (void)err;
    memory = run->memory;
    return 0;
}

static void staged_close(void) {}

static struct comm_link *staged_link(const struct comm_members *members)
{
    struct comm_link *mpi = comm_transport_mpi.link(members);
    if (!mpi)
        return NULL;
    struct comm_link *link = mem_zero(1, sizeof *link);
    *link = (struct comm_link){.mpi = mpi, .lane = memory->lane()};
    link->last = &link->first;
    link->end = &link->used;
    return link;
}

static void batch_free(struct comm_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        if (!batch->pieces[i].shared)
            memory->unpinned(batch->pieces[i].pinned);
    if (batch->mark)
        memory->drop(batch->mark);
    free(batch);
}

/* Frees batches whose received bytes the lane has copied. */
static void collect(struct comm_link *link)
{
    while (link->used && memory->reached(link->used->mark)) {
        struct comm_batch *batch = link->used;
        link->used = batch->next;
        if (!link->used)
            link->end = &link->used;
        batch_free(batch);
    }
}

static void staged_unlink(struct comm_link *link)
{
    for (collect(link); link->used; collect(link))
        sched_yield();
    memory->lane_free(link->lane);
    comm_transport_mpi.unlink(link->mpi);
    free(link);
}

/* ---- messages --------------------------------------------------------------------------------------------------------- */

/* To MPI, with pinned memory in place of the device's. */
static struct comm_batch *post_piece(const struct piece *p)
{
    struct comm_message m = {p->pinned, p->message.bytes, p->message.peer, p->message.out};
    struct comm_post post = p->batch->post;
    post.messages = &m;
    post.n = 1;
    /* a batch keeps nothing of it */
    /* cppcheck-suppress returnDanglingLifetime */
    return comm_transport_mpi.post(p->batch->link->mpi, &post);
}

/* What the lane has copied goes out. */
static void post_copied(struct comm_link *link)
{
    struct piece *p;
    while ((p = link->first) && (!p->copied || memory->reached(p->copied))) {
        if (p->copied)
            memory->drop(p->copied);
        p->copied = NULL;
        p->sent = post_piece(p);
        link->first = p->next;
        if (!link->first)
            link->last = &link->first;
    }
}

/* A piece before this one in the batch that is a copy of the same bytes; NULL when there is none. */
static struct piece *same_bytes(struct comm_batch *batch, const struct piece *piece)
{
    for (struct piece *p = batch->pieces; p < piece; p++)
        if (p->message.out && !p->shared && p->message.data == piece->message.data &&
            p->message.bytes == piece->message.bytes)
            return p;
    return NULL;
}

static void start_out(struct comm_batch *batch, struct piece *p)
{
    struct comm_link *link = batch->link;
    struct piece *same = same_bytes(batch, p);
    p->shared = same != NULL;
    p->pinned = same ? same->pinned : memory->pinned(p->message.bytes);
    if (!same) {
        memory->to_host(link->lane, p->pinned, p->message.data, p->message.bytes);
        p->copied = memory->mark(link->lane);
    }
    *link->last = p;
    link->last = &p->next;
}

static void start_in(struct piece *p)
{
    p->pinned = memory->pinned(p->message.bytes);
    p->sent = post_piece(p);
}

static struct comm_batch *staged_post(struct comm_link *link, const struct comm_post *post)
{
    struct comm_batch *batch = mem_zero(1, sizeof *batch + post->n * sizeof batch->pieces[0]);
    *batch = (struct comm_batch){.link = link, .post = *post, .n = post->n};
    collect(link);
    for (size_t i = 0; i < post->n; i++) {
        struct piece *p = &batch->pieces[i];
        *p = (struct piece){.message = post->messages[i], .batch = batch};
        if (p->message.out)
            start_out(batch, p);
        else
            start_in(p);
    }
    return batch;
}

/* Moves a piece; true when it is over. */
static bool move(const struct comm_link *link, struct piece *p)
{
    if (p->over || !p->sent || !comm_transport_mpi.done(p->sent))
        return p->over;
    if (!p->message.out)
        memory->from_host(link->lane, p->message.data, p->pinned, p->message.bytes);
    return p->over = true;
}

static bool has_received(const struct comm_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        if (!batch->pieces[i].message.out)
            return true;
    return false;
}

static bool staged_done(struct comm_batch *batch)
{
    struct comm_link *link = batch->link;
    post_copied(link);
    for (size_t i = batch->begin; i < batch->n; i++)
        if (move(link, &batch->pieces[i]) && i == batch->begin)
            batch->begin++;
    if (batch->begin < batch->n)
        return false;
    if (!has_received(batch)) {
        batch_free(batch);
        return true;
    }
    batch->mark = memory->mark(link->lane);
    *link->end = batch;
    link->end = &batch->next;
    return true;
}

/* ---- order on the device ---------------------------------------------------------------------------------------------- */

static struct comm_lane *staged_lane(struct comm_link *link)
{
    return link->lane;
}

static void staged_begin(struct comm_link *link, const struct comm_post *post)
{
    (void)post;
    struct comm_mark *now = memory->mark(NULL);
    memory->after(link->lane, now);
    memory->drop(now);
}

static struct comm_mark *staged_mark(struct comm_link *link, const struct comm_post *post)
{
    (void)post;
    return memory->mark(link->lane);
}

const struct comm_transport comm_transport_staged = {.message_max = MESSAGE_MAX,
                                                     .copies = true,
                                                     .open = staged_open,
                                                     .close = staged_close,
                                                     .link = staged_link,
                                                     .unlink = staged_unlink,
                                                     .post = staged_post,
                                                     .done = staged_done,
                                                     .lane = staged_lane,
                                                     .begin = staged_begin,
                                                     .mark = staged_mark};
