/* comm: see comm.h. What is the same for every transport: who is in which group, what a call is made of, waiting, and counting. The work of a call
 * is done by rounds.c, the bytes travel by transport.h.
 *
 * Blocking calls are asynchronous ones that are waited for, and whoever waits moves everything: a rank that waits for one call never holds up
 * another call of a rank that waits for it in turn. A group of one rank does all at once, without the transport. A process without a
 * launcher never opens one: an MPI singleton would start helper processes and fail where those are not allowed. */
#include "runtime/comm/comm.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/comm/comm_private.h"

/* Looks for news in vain before a waiting rank lets others have its core: soon where ranks share cores, late (after about a millisecond) where
 * each has its own, as whoever else gets it may keep it for several. */
enum { PATIENCE_SHARED = 20, PATIENCE_ALONE = 5000 };

#define TAG_MAX 32767

void comm_misuse(const struct comm_group *group, const char *what)
{
    log_error("rank %d of group %s: %s; this is a fault of the program, not of the job", group->rank,
              group->name, what);
    abort();
}

/* ---- joining and leaving ---------------------------------------------------------------------------------------------- */

/* A small non-negative number from the first of the variables that is set; -1 when none is. */
static int env_int(const char *const *names)
{
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (!text || !*text)
            continue;
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (errno == 0 && !*end && value >= 0 && value <= INT_MAX)
            return (int)value;
    }
    return -1;
}

int comm_env_local_size(void)
{
    int size = env_int((const char *const[]){"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL});
    return size < 1 ? 1 : size;
}

int comm_env_local_rank(void)
{
    int rank = env_int((const char *const[]){"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", NULL});
    return rank < 0 ? 0 : rank;
}

int comm_env_rank(void)
{
    int rank = env_int((const char *const[]){"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", NULL});
    return rank < 0 ? 0 : rank;
}

static bool launched(void)
{
    return getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_SIZE");
}

static int join(struct comm *c, struct err *err)
{
    struct comm_run run = {.size = 1, .memory = c->records.memory};
    if (c->records.transport->open(&run, err) != 0)
        return -1;
    c->joined = true;
    c->rank = run.rank;
    c->size = run.size;
    return 0;
}

/* Are the ranks of this host more than the cores that this one may use? */
static bool cores_are_shared(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 && comm_env_local_size() > CPU_COUNT(&cores);
}

/* A launcher that the transport does not recognise would leave every rank alone in a world of its own: refuse that. */
static int check_world(const struct comm *c, struct err *err)
{
    int announced = env_int((const char *const[]){"OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", NULL});
    if (announced < 0 || announced == c->size)
        return 0;
    return err_set(err,
                   "the environment announces %d ranks but MPI found %d; start belay-train with mpirun or as "
                   "a belay job, "
                   "or unset WORLD_SIZE",
                   announced, c->size);
}

static struct comm_group *group_add(struct comm *c, const char *name, const int *ranks, int size, int rank)
{
    struct comm_group *g = mem_zero(1, sizeof *g);
    *g = (struct comm_group){.comm = c, .next = c->groups, .name = name, .rank = rank, .size = size};
    g->last = &g->first;
    g->ranks = mem_grow(NULL, (size_t)size, sizeof *g->ranks);
    for (int r = 0; r < size; r++)
        g->ranks[r] = ranks ? ranks[r] : r;
    c->groups = g;
    return g;
}

static void group_free(struct comm_group *g)
{
    for (int i = 0; i < WINDOWS; i++)
        if (g->windows[i].data)
            g->buffers.memory->free(g->windows[i].data);
    ways_disconnect(g);
    free(g->ranks);
    free(g);
}

/* All ranks compute on devices, or none does. */
static int check_devices(const struct comm *c, bool device, struct err *err)
{
    int some = comm_max_int(c->world, device), some_not = comm_max_int(c->world, !device);
    comm_counters_reset(c->world);
    if (!some || !some_not)
        return 0;
    return err_set(err,
                   "rank %d computes on %s and other ranks do not: give each rank a GPU "
                   "(CUDA_VISIBLE_DEVICES), or write resources.device: cpu",
                   c->rank, device ? "a GPU" : "the CPU");
}

/* The group of all ranks, and with it the way between their devices. */
static int open_world(struct comm *c, const struct comm_device *device, struct err *err)
{
    int color = c->size > 1 ? 0 : -1;
    c->world = group_add(c, "world", NULL, c->size, c->rank);
    ways_connect_records(c, c->world, color);
    if (c->size > 1 && check_devices(c, device != NULL, err) != 0)
        return -1;
    if (device && c->size > 1 && ways_choose(c, device, err) != 0)
        return -1;
    ways_connect_buffers(c, c->world, color);
    return 0;
}

struct comm *comm_open(const struct comm_device *device, struct err *err)
{
    struct comm *c = mem_zero(1, sizeof *c);
    c->records = c->buffers = (struct way){.transport = &comm_transport_mpi, .memory = &comm_memory_host};
    if (device)
        c->buffers.memory = device->memory;
    c->limits = (struct comm_limits){ROUND_BYTES, SIZE_MAX, SMALL_BYTES};
    c->patience = cores_are_shared() ? PATIENCE_SHARED : PATIENCE_ALONE;
    c->size = 1;
    c->end = &c->active;
    if ((launched() && join(c, err) != 0) || check_world(c, err) != 0 || open_world(c, device, err) != 0) {
        comm_close(c);
        return NULL;
    }
    return c;
}

void comm_close(struct comm *comm)
{
    if (!comm)
        return;
    if (comm->connected)
        comm_barrier(comm->world); /* nobody still needs what the others give up now */
    while (comm->groups) {
        struct comm_group *g = comm->groups;
        comm->groups = g->next;
        group_free(g);
    }
    if (comm->connected)
        comm->buffers.transport->close();
    if (comm->wired)
        wire_close();
    if (comm->joined)
        comm->records.transport->close();
    free(comm->messages);
    free(comm);
}

/* ---- groups ----------------------------------------------------------------------------------------------------------- */

struct comm_group *comm_world(struct comm *comm)
{
    return comm->world;
}

struct comm_group *comm_group_new(struct comm *comm, const char *name, const int *ranks, size_t n)
{
    int rank = 0;
    while (rank < (int)n && ranks[rank] != comm->rank)
        rank++;
    struct comm_group *g = n > 0 ? group_add(comm, name, ranks, (int)n, rank) : NULL;
    if (g && rank == g->size)
        comm_misuse(g, "it is not among the ranks of the group that it makes");
    /* groups of one call are disjoint, so that the first rank of each names it */
    int color = n > 1 ? ranks[0] : -1;
    ways_connect_records(comm, g, color);
    ways_connect_buffers(comm, g, color);
    return g;
}

int comm_rank(const struct comm_group *group)
{
    return group->rank;
}

int comm_size(const struct comm_group *group)
{
    return group->size;
}

int comm_world_rank(const struct comm_group *group, int rank)
{
    return group->ranks[rank];
}

struct comm_counters comm_counters(const struct comm_group *group)
{
    return group->counters;
}

void comm_counters_reset(struct comm_group *group)
{
    group->counters = (struct comm_counters){0};
}

/* ---- waiting ---------------------------------------------------------------------------------------------------------- */

bool comm_progress(struct comm *comm)
{
    rounds_progress(comm);
    return !comm->active && !comm->selves;
}

static bool to_self(const struct comm_request *q)
{
    return (q->call.op == OP_SEND || q->call.op == OP_RECEIVE) && q->call.peer == q->group->rank;
}

bool comm_done(struct comm_request *request)
{
    if (!request)
        return true;
    if (!rounds_finished(request) || request->mark)
        rounds_progress(request->group->comm);
    return rounds_finished(request) &&
           (!request->mark || request->group->buffers.memory->reached(request->mark));
}

bool comm_ordered(struct comm_request *request)
{
    if (request && !rounds_finished(request))
        rounds_progress(request->group->comm);
    return !request || rounds_finished(request);
}

void comm_wait(struct comm_request *request)
{
    if (!request)
        return;
    double start = clock_monotonic_s();
    int patience = request->group->comm->patience;
    for (int tries = 0; !rounds_finished(request); tries++) {
        if (to_self(request))
            comm_misuse(request->group,
                        "waits for a message to or from itself whose other half it has not started");
        rounds_progress(request->group->comm);
        if (tries >= patience && !rounds_finished(request))
            sched_yield();
    }
    request->group->counters.seconds += clock_monotonic_s() - start;
    rounds_end(request);
}

/* Starts a call; what has nothing to move is done. */
static struct comm_request *start(struct comm_group *group, const struct comm_call *call)
{
    group->counters.calls++;
    if (group->size == 1 || call->count == 0)
        return NULL;
    return rounds_start(group, call);
}

/* ---- asynchronous calls ----------------------------------------------------------------------------------------------- */

/* How many times the limit of one rank's array those of all may be. A sum moves and keeps them all where slices would move two. A gather moves
 * the same bytes either way, and keeps them once more; but going straight needs a connection to each other rank, thousands in a large run. */
enum { SMALL_SUM = 8, SMALL_GATHER = 64 };

/* Are the arrays small enough for calls that put latency first? */
static bool small(const struct comm_group *g, const struct way *way, size_t count, enum comm_type type,
                  size_t times)
{
    if (way->transport->connected)
        return false;
    size_t limit = g->comm->limits.small_bytes / comm_type_size(type);
    return count <= limit && count * (size_t)g->size <= times * limit;
}

static struct comm_call all_reduce_call(const struct comm_group *g, void *x, size_t count,
                                        enum comm_type type)
{
    enum comm_op op = small(g, &g->buffers, count, type, SMALL_SUM) ? OP_ALL_REDUCE_SMALL : OP_ALL_REDUCE;
    return (struct comm_call){.op = op, .in = x, .out = x, .count = count, .type = type};
}

/* For one rank alone: its part is the whole. */
static void copy_own(const struct comm_group *g, const void *from, void *to, size_t bytes)
{
    if (g->size == 1 && from != to && bytes > 0)
        g->buffers.memory->copy(NULL, to, from, bytes);
}

static struct comm_call all_gather_call(const struct comm_group *g, const void *mine, void *all, size_t count,
                                        enum comm_type type)
{
    enum comm_op op = small(g, &g->buffers, count, type, SMALL_GATHER) ? OP_ALL_GATHER_SMALL : OP_ALL_GATHER;
    copy_own(g, mine, all, count * comm_type_size(type));
    return (struct comm_call){.op = op, .in = mine, .out = all, .count = count, .type = type};
}

static struct comm_call reduce_scatter_call(const struct comm_group *g, const void *all, void *mine,
                                            size_t count, enum comm_type type)
{
    copy_own(g, all, mine, count * comm_type_size(type));
    return (struct comm_call){.op = OP_REDUCE_SCATTER, .in = all, .out = mine, .count = count, .type = type};
}

struct comm_request *comm_all_reduce_start(struct comm_group *group, void *x, size_t count,
                                           enum comm_type type)
{
    struct comm_call call = all_reduce_call(group, x, count, type);
    return start(group, &call);
}

struct comm_request *comm_all_gather_start(struct comm_group *group, const void *mine, void *all,
                                           size_t count, enum comm_type type)
{
    struct comm_call call = all_gather_call(group, mine, all, count, type);
    return start(group, &call);
}

struct comm_request *comm_reduce_scatter_start(struct comm_group *group, const void *all, void *mine,
                                               size_t count, enum comm_type type)
{
    struct comm_call call = reduce_scatter_call(group, all, mine, count, type);
    return start(group, &call);
}

/* The first message of this rank to itself that fits `call`, taken off the list; NULL when there is none. */
static struct comm_request *take_self(struct comm_group *g, const struct comm_call *call)
{
    for (struct comm_request **at = &g->comm->selves; *at; at = &(*at)->next) {
        struct comm_request *q = *at;
        if (q->group != g || q->call.tag != call->tag || q->call.op == call->op)
            continue;
        if (q->call.count != call->count)
            comm_misuse(g, "receives a message of itself with another size than it has");
        *at = q->next;
        return q;
    }
    return NULL;
}

/* A message to itself is a copy, made when both halves are known. */
static struct comm_request *start_self(struct comm_group *g, const struct comm_call *call)
{
    struct comm_request *other = take_self(g, call);
    if (other) {
        const void *from = call->op == OP_SEND ? call->in : other->call.in;
        g->buffers.memory->copy(NULL, call->op == OP_SEND ? other->call.out : call->out, from, call->count);
        other->finished++;
        return NULL;
    }
    struct comm_request *q = mem_zero(1, sizeof *q), **last = &g->comm->selves;
    *q = (struct comm_request){.group = g, .call = *call, .rounds = 1};
    while (*last)
        last = &(*last)->next;
    *last = q;
    return q;
}

static struct comm_request *start_message(struct comm_group *g, const struct comm_call *call)
{
    if (call->peer < 0 || call->peer >= g->size || call->tag < 0 || call->tag > TAG_MAX)
        comm_misuse(g, "names a peer or a tag that there is not");
    if (call->peer != g->rank || call->count == 0)
        return start(g, call);
    g->counters.calls++;
    return start_self(g, call);
}

struct comm_request *comm_send_start(struct comm_group *group, const void *data, size_t bytes, int to,
                                     int tag)
{
    return start_message(
        group, &(struct comm_call){.op = OP_SEND, .in = data, .count = bytes, .peer = to, .tag = tag});
}

struct comm_request *comm_receive_start(struct comm_group *group, void *data, size_t bytes, int from, int tag)
{
    return start_message(
        group, &(struct comm_call){.op = OP_RECEIVE, .out = data, .count = bytes, .peer = from, .tag = tag});
}

/* ---- blocking calls --------------------------------------------------------------------------------------------------- */

/* All of it counts as waiting, the start too. */
static void finish(struct comm_group *g, const struct comm_call *call)
{
    double before = clock_monotonic_s(), seconds = g->counters.seconds;
    comm_wait(start(g, call));
    g->counters.seconds = seconds + clock_monotonic_s() - before;
}

void comm_broadcast(struct comm_group *group, void *data, size_t bytes, int root)
{
    if (root < 0 || root >= group->size)
        comm_misuse(group, "names a root that there is not");
    finish(group, &(struct comm_call){
                      .op = OP_BROADCAST, .out = data, .count = bytes, .peer = root, .record = true});
}

void comm_all_reduce(struct comm_group *group, void *x, size_t count, enum comm_type type)
{
    struct comm_call call = all_reduce_call(group, x, count, type);
    finish(group, &call);
}

void comm_all_gather(struct comm_group *group, const void *mine, void *all, size_t count, enum comm_type type)
{
    struct comm_call call = all_gather_call(group, mine, all, count, type);
    finish(group, &call);
}

void comm_reduce_scatter(struct comm_group *group, const void *all, void *mine, size_t count,
                         enum comm_type type)
{
    struct comm_call call = reduce_scatter_call(group, all, mine, count, type);
    finish(group, &call);
}

void comm_all_to_all(struct comm_group *group, const void *send, const size_t *send_rows, void *out,
                     const size_t *out_rows, size_t row_bytes)
{
    copy_own(group, send, out, send_rows[0] * row_bytes);
    finish(group, &(struct comm_call){.op = OP_ALL_TO_ALL,
                                      .in = send,
                                      .out = out,
                                      .count = row_bytes,
                                      .in_rows = send_rows,
                                      .out_rows = out_rows});
}

void comm_barrier(struct comm_group *group)
{
    finish(group, &(struct comm_call){.op = OP_BARRIER, .count = 1, .record = true});
}

void comm_share(struct comm_group *group, const void *mine, size_t bytes, void *all)
{
    bool quick = small(group, &group->records, bytes, COMM_BYTE, SMALL_GATHER);
    enum comm_op op = quick ? OP_ALL_GATHER_SMALL : OP_ALL_GATHER;
    if (group->size == 1)
        memmove(all, mine, bytes);
    finish(group, &(struct comm_call){.op = op, .in = mine, .out = all, .count = bytes, .record = true});
}

static void check_record_peer(const struct comm_group *g, int peer)
{
    if (peer < 0 || peer >= g->size || peer == g->rank)
        comm_misuse(g, "sends a record to, or awaits one of, a rank that there is not or itself");
}

void comm_send_record(struct comm_group *group, const void *data, size_t bytes, int to, int tag)
{
    check_record_peer(group, to);
    finish(group, &(struct comm_call){
                      .op = OP_SEND, .in = data, .count = bytes, .peer = to, .tag = tag, .record = true});
}

void comm_receive_record(struct comm_group *group, void *data, size_t bytes, int from, int tag)
{
    check_record_peer(group, from);
    finish(group,
           &(struct comm_call){
               .op = OP_RECEIVE, .out = data, .count = bytes, .peer = from, .tag = tag, .record = true});
}

int comm_max_int(struct comm_group *group, int value)
{
    int *all = mem_grow(NULL, (size_t)group->size, sizeof *all), max = value;
    comm_share(group, &value, sizeof value, all);
    for (int r = 0; r < group->size; r++)
        max = all[r] > max ? all[r] : max;
    free(all);
    return max;
}

double comm_sum_double(struct comm_group *group, double value)
{
    double *all = mem_grow(NULL, (size_t)group->size, sizeof *all), sum = 0;
    comm_share(group, &value, sizeof value, all);
    for (int r = 0; r < group->size; r++)
        sum += all[r];
    free(all);
    return sum;
}
