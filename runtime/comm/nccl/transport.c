/* transport: buffers on GPUs, over NCCL; see runtime/comm/transport.h.
 *
 * A link has a communicator for its collectives, and one for each peer, direction and tag that messages are sent with. NCCL does what one communicator is given
 * in order: a receive that is posted ahead would hold up the send behind it, and messages have no tags. Those for messages are made when the first of
 * a kind is posted. Neither side waits for the other then: the message stays with the host until the communicator is there, and so does each next one until
 * the one before is launched, which for the first needs the peer.
 *
 * The communicator for collectives is made with the link, and its connections with it, by a byte to each other rank: from then on launching needs no
 * other rank, so that groups may be used in another order on each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "kernels/cuda/device.h"
#include "runtime/comm/nccl/channel.h"

/* Thread blocks that a communicator may use: what it takes is missing in the computing. Collectives are waited for, messages travel beside it. */
enum { CTAS_COLLECTIVE = 16, CTAS_POINT = 4 };

#define MESSAGE_MAX ((size_t)1 << 40) /* whole */
/* Two launches and a sum a round: some 100 us of the host's time, in which NVLink moves as much. Scratch of a group that reduces is that large. */
#define ROUND_BYTES ((size_t)32 << 20)

/* A device takes work from so few queues by default that streams share one: a kernel that waits for a peer would hold up those behind it that the peer
 * waits for. CUDA reads this when it starts, which is after this object has been loaded. */
__attribute__((constructor)) static void ask_for_queues(void)
{
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32",
                 0); /* the most there are; what the user has set stays */
}

/* A kernel that is loaded when it is first launched may have to wait until the device does nothing, while a receive waits there for a peer, and the peer perhaps for
 * what this rank launches next ("Potential Hazards" of lazy loading in the CUDA programming guide). So where there are other ranks all are loaded at the start,
 * which takes seconds, and some hundred MB for cuBLASLt's. */
__attribute__((constructor)) static void ask_for_kernels(void)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE"), *way = getenv("BELAY_COMM");
    size = size ? size : getenv("WORLD_SIZE");
    if (size && strcmp(size, "1") != 0 && (!way || strcmp(way, "staged") != 0))
        (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

/* Messages of a tag to or from a peer. */
struct pair {
    int peer, tag;
    bool out;
    struct channel *channel;
    struct comm_mark *start; /* of the message that is being posted */
    struct pair *next;
};

struct comm_link {
    char name[48];
    int *ranks; /* of the world */
    int rank, size, color, number;
    struct channel *collective;
    struct pair *pairs;
};

static int nccl_open(struct comm_run *run, struct err *err)
{
    (void)err;
    nccl = (struct nccl_run){.run = *run};
    watch_open();
    return 0;
}

static void nccl_close(void)
{
    watch_close();
    lanes_close();
}

/* ---- links ------------------------------------------------------------------------------------------------------------ */

/* A byte to and from every other rank. */
static void connect_all(struct comm_link *link)
{
    struct comm_message *messages = mem_zero((size_t)link->size * 2, sizeof *messages);
    char *bytes = nccl.run.memory->alloc(2 * (size_t)link->size);
    struct comm_post post = {CHANNEL_COLLECTIVE, 0, "connect", messages, 0};
    for (int r = 0; r < 2 * link->size; r++)
        if (r / 2 != link->rank)
            messages[post.n++] = (struct comm_message){bytes + r, 1, r / 2, r % 2};
    struct comm_batch *batch = channel_post(link->collective, &post, nccl.run.memory->mark(NULL));
    channel_await(link->collective, channel_idle);
    free(batch->messages);
    free(batch);
    device_wait(lane_stream(link->collective->lane));
    nccl.run.memory->free(bytes);
    free(messages);
}

static struct comm_link *nccl_link(const struct comm_members *members)
{
    if (members->color < 0)
        return NULL;
    struct comm_link *link = mem_zero(1, sizeof *link);
    *link = (struct comm_link){
        .rank = members->rank, .size = members->size, .color = members->color, .number = members->number};
    (void)snprintf(link->name, sizeof link->name, "%s", members->name);
    link->ranks = mem_grow(NULL, (size_t)link->size, sizeof *link->ranks);
    for (int r = 0; r < link->size; r++)
        link->ranks[r] = members->ranks[r];
    struct channel as = {
        .rank = link->rank, .size = link->size, .maker = link->ranks[0], .ctas = CTAS_COLLECTIVE};
    (void)snprintf(as.name, sizeof as.name, "%s", link->name);
    (void)snprintf(as.key, sizeof as.key, "belay.nccl.%d.%d", link->number, link->color);
    link->collective = channel_new(&as);
    connect_all(link);
    return link;
}

/* Has the channel's work done, and begins to leave it. */
static void leave(struct channel *c)
{
    channel_await(c, channel_idle);
    device_wait(lane_stream(c->lane));
    channel_leave(c);
}

static void end(struct channel *c)
{
    channel_await(c, channel_left);
    channel_free(c);
}

/* Destroying a communicator waits for the other ranks of the node to do so, too, and each rank has its pairs in another order. So all are left first, which
 * waits for nobody. */
static void nccl_unlink(struct comm_link *link)
{
    watch(false); /* the record may have been asked for since the last wait, and goes with the link */
    leave(link->collective);
    for (const struct pair *p = link->pairs; p; p = p->next)
        leave(p->channel);
    end(link->collective);
    while (link->pairs) {
        struct pair *p = link->pairs;
        link->pairs = p->next;
        end(p->channel);
        free(p);
    }
    free(link->ranks);
    free(link);
}

static struct channel *pair_channel(const struct comm_link *link, const struct pair *p)
{
    int from = p->out ? link->rank : p->peer, to = p->out ? p->peer : link->rank;
    struct channel as = {
        .rank = !p->out, .size = 2, .maker = link->ranks[from], .ctas = CTAS_POINT, .point = true};
    (void)snprintf(as.name, sizeof as.name, "%s from %d to %d tag %d", link->name, from, to, p->tag);
    (void)snprintf(as.key, sizeof as.key, "belay.nccl.%d.%d.%d.%d.%d", link->number, link->color, from, to,
                   p->tag);
    return channel_new(&as);
}

static struct pair *pair_of(struct comm_link *link, const struct comm_post *post)
{
    const struct comm_message *m = &post->messages[0];
    for (struct pair *p = link->pairs; p; p = p->next)
        if (p->peer == m->peer && p->out == m->out && p->tag == post->tag)
            return p;
    struct pair *p = mem_zero(1, sizeof *p);
    *p = (struct pair){.peer = m->peer, .tag = post->tag, .out = m->out, .next = link->pairs};
    p->channel = pair_channel(link, p);
    link->pairs = p;
    return p;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------ */

static struct comm_lane *nccl_lane(struct comm_link *link)
{
    return link->collective->lane;
}

static void nccl_begin(struct comm_link *link, const struct comm_post *post)
{
    const struct comm_memory *memory = nccl.run.memory;
    struct comm_mark *now = memory->mark(NULL);
    if (post->channel == CHANNEL_POINT) {
        pair_of(link, post)->start = now; /* the stream may have messages to wait for before */
        return;
    }
    memory->after(link->collective->lane, now);
    memory->drop(now);
}

static struct comm_batch *nccl_post(struct comm_link *link, const struct comm_post *post)
{
    if (post->channel == CHANNEL_COLLECTIVE) {
        struct comm_batch *batch = channel_post(link->collective, post, NULL);
        channel_await(link->collective, channel_idle);
        return batch;
    }
    struct pair *p = pair_of(link, post);
    struct comm_batch *batch = channel_post(p->channel, post, p->start);
    p->start = NULL;
    channel_move(p->channel);
    return batch;
}

static bool nccl_done(struct comm_batch *batch)
{
    if (batch->state != BATCH_LAUNCHED)
        channel_move(batch->channel);
    if (batch->state != BATCH_LAUNCHED)
        return false;
    if (batch->channel->point)
        batch->channel->end = batch->end;
    free(batch->messages);
    free(batch);
    return true;
}

static struct comm_mark *nccl_mark(struct comm_link *link, const struct comm_post *post)
{
    if (post->channel == CHANNEL_COLLECTIVE)
        return nccl.run.memory->mark(link->collective->lane);
    struct pair *p = pair_of(link, post);
    struct channel *c = p->channel;
    struct comm_mark *end = c->end;
    c->end = NULL;
    return end;
}

static void nccl_progress(void)
{
    watch(false);
}

const struct comm_transport comm_transport_nccl = {.message_max = MESSAGE_MAX,
                                                   .round_bytes = ROUND_BYTES,
                                                   .connected = true,
                                                   .open = nccl_open,
                                                   .close = nccl_close,
                                                   .link = nccl_link,
                                                   .unlink = nccl_unlink,
                                                   .post = nccl_post,
                                                   .done = nccl_done,
                                                   .lane = nccl_lane,
                                                   .begin = nccl_begin,
                                                   .mark = nccl_mark,
                                                   .progress = nccl_progress};
