/* ways: how the bytes of a run's buffers travel. All ranks tell each other over MPI which device they have, and come to the same answer: between devices
 * directly, unless two ranks share one, which NCCL refuses, or there is no direct way. BELAY_COMM asks for one of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "runtime/comm/comm_private.h"

enum asked { ASKED_NOTHING, ASKED_NCCL, ASKED_STAGED, ASKED_NONSENSE };

/* What a rank tells the others. */
struct place {
    char host[64], id[40];
    int direct; /* there is a direct way from it */
    int asked;
};

static enum asked read_asked(void)
{
    const char *text = getenv("BELAY_COMM");
    if (!text || !*text)
        return ASKED_NOTHING;
    if (strcmp(text, "nccl") == 0)
        return ASKED_NCCL;
    return strcmp(text, "staged") == 0 ? ASKED_STAGED : ASKED_NONSENSE;
}

static struct place own_place(const struct comm_device *device)
{
    struct place p;
    memset(&p, 0, sizeof p); /* padding, too: it is sent */
    if (gethostname(p.host, sizeof p.host - 1) != 0)
        p.host[0] = 0;
    memcpy(p.id, device->id, sizeof p.id - 1);
    p.direct = device->direct != NULL;
    p.asked = read_asked();
    return p;
}

/* Why buffers cannot go directly; false when they can. */
static bool obstacle(const struct place *all, int size, char *why, size_t room)
{
    for (int a = 0; a < size; a++) {
        if (!all[a].direct) {
            (void)snprintf(why, room, "rank %d has no direct way to other devices", a);
            return true;
        }
        for (int b = 0; b < a; b++)
            if (strcmp(all[a].id, all[b].id) == 0 && strcmp(all[a].host, all[b].host) == 0) {
                (void)snprintf(why, room, "ranks %d and %d share device %s of host %s", b, a, all[a].id,
                               all[a].host);
                return true;
            }
    }
    return false;
}

/* As rank 0 asks. */
static int choose(struct comm *c, const struct comm_device *device, const struct place *all, struct err *err)
{
    char why[256] = "";
    bool blocked = obstacle(all, c->size, why, sizeof why);
    if (all[0].asked == ASKED_NONSENSE)
        return err_set(err, "BELAY_COMM is \"%s\" on rank 0; set it to nccl or staged, or leave it out",
                       c->rank == 0 ? getenv("BELAY_COMM") : "something else");
    if (all[0].asked == ASKED_NCCL && blocked)
        return err_set(
            err, "BELAY_COMM=nccl, but %s; give each rank a GPU of its own, or leave BELAY_COMM out", why);
    if (blocked && all[0].asked == ASKED_NOTHING && c->rank == 0)
        log_info("%s: what devices send each other goes through the hosts' memory", why);
    bool staged = blocked || all[0].asked == ASKED_STAGED;
    c->buffers.transport = staged ? &comm_transport_staged : device->direct;
    return 0;
}

static int connect_run(struct comm *c, struct err *err)
{
    struct comm_run run = {.rank = c->rank, .size = c->size, .memory = c->buffers.memory};
    if (c->buffers.transport != &comm_transport_staged) {
        run.wire = wire_open(c->rank, err);
        c->wired = run.wire != NULL;
        if (!c->wired)
            return -1;
    }
    if (c->buffers.transport->open(&run, err) != 0)
        return -1;
    c->connected = true;
    if (c->buffers.transport->round_bytes > 0)
        c->limits.round_bytes = c->buffers.transport->round_bytes;
    return 0;
}

int ways_choose(struct comm *c, const struct comm_device *device, struct err *err)
{
    struct place mine = own_place(device), *all = mem_zero((size_t)c->size, sizeof *all);
    comm_share(c->world, &mine, sizeof mine, all);
    int rc = choose(c, device, all, err);
    free(all);
    return rc == 0 ? connect_run(c, err) : -1;
}

/* ---- the ways of a group ---------------------------------------------------------------------------------------------- */

static struct comm_members members_of(struct comm *c, const struct comm_group *g, int color)
{
    int number = c->links++;
    if (!g || color < 0)
        return (struct comm_members){.color = -1, .number = number};
    return (struct comm_members){g->name, g->ranks, g->rank, g->size, color, number};
}

void ways_connect_records(struct comm *c, struct comm_group *g, int color)
{
    struct comm_members members = members_of(c, g, color);
    struct way way = c->records;
    if (c->size > 1)
        way.link = way.transport->link(&members);
    if (g)
        g->records = way;
}

void ways_connect_buffers(struct comm *c, struct comm_group *g, int color)
{
    if (g)
        g->buffers = c->buffers;
    if (!c->connected) {
        if (g)
            g->buffers.link = g->records.link;
        return;
    }
    struct comm_members members = members_of(c, g, color);
    struct comm_link *link = c->buffers.transport->link(&members);
    if (!g || !link)
        return;
    g->buffers.link = link;
    g->buffers.lane = c->buffers.transport->lane(link);
}

void ways_disconnect(struct comm_group *g)
{
    if (g->buffers.link && g->buffers.link != g->records.link)
        g->buffers.transport->unlink(g->buffers.link);
    if (g->records.link)
        g->records.transport->unlink(g->records.link);
}
