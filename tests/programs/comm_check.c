/* comm_check: every call of comm.h against a plain computation, on as many ranks as mpirun starts (or alone).
 *
 *   comm_check FOLDER        all checks; FOLDER is empty, for what ranks tell each other besides comm
 *   comm_check --misuse WHAT  one misuse that must end the process: self, peer, bytes
 *   comm_check --lost WHAT   many sums and messages, in which a rank is lost (tests/emu/nccl.cpp); record: the record of calls is asked for
 *
 * COMM_CHECK_DEVICE=fake: buffers lie on a device that there is not (fake_device.h), and travel staged. COMM_CHECK_DEVICE=FILE: they lie on that of a
 * backend (kernels/cuda/backend.h), and travel as comm_open chooses.
 *
 * Each rank can compute what the others hold (value() is a function of rank and place), and so what has to come. What is wrong is printed;
 * the exit code is 1 when any rank found something. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/mem.h"
#include "runtime/comm/comm_private.h"
#include "runtime/comm/mesh.h"
#include "tests/programs/comm_lab.h"

static int wrong;

static void check(bool good, const char *what, size_t a, size_t b)
{
    if (good)
        return;
    wrong++;
    printf("rank %d of %d: WRONG: %s (%zu, %zu)\n", comm->rank, comm->size, what, a, b);
}

/* ---- each call -------------------------------------------------------------------------------------------------------- */

static void *sums(const struct comm_group *g, size_t from, size_t count, enum comm_type type, uint64_t salt)
{
    void *x = mem_grow(NULL, count + 1, comm_type_size(type));
    for (size_t i = 0; i < count; i++)
        put_sum(x, i, g, from + i, type, salt);
    return x;
}

static void check_all_reduce(struct comm_group *g, size_t count, enum comm_type type)
{
    size_t bytes = count * comm_type_size(type);
    void *x = moved_in(fill(0, count, type, comm->rank, count), bytes);
    void *expected = sums(g, 0, count, type, count);
    comm_all_reduce(g, x, count, type);
    x = moved_out(x, bytes);
    check(equal(x, expected, count, type), "sum over ranks", count, type);
    free(x);
    free(expected);
}

static void check_all_gather(struct comm_group *g, size_t count, enum comm_type type, bool in_place)
{
    size_t size = (size_t)comm_size(g), bytes = count * comm_type_size(type);
    char *all = moved_in(fill(0, count * size, type, -1, 1), size * bytes);
    void *host = fill(0, count, type, comm->rank, count);
    char *place = all + (size_t)comm_rank(g) * bytes, *mine = in_place ? place : buffer(bytes);
    put_in(mine, host, bytes);
    comm_all_gather(g, mine, all, count, type);
    if (!in_place)
        memory->free(mine);
    all = moved_out(all, size * bytes);
    for (int r = 0; r < comm_size(g); r++) {
        void *expected = fill(0, count, type, comm_world_rank(g, r), count);
        check(equal(all + (size_t)r * bytes, expected, count, type), "gathered part", (size_t)r, count);
        free(expected);
    }
    free(all);
    free(host);
}

static void check_reduce_scatter(struct comm_group *g, size_t count, enum comm_type type, bool in_place)
{
    size_t size = (size_t)comm_size(g), first = (size_t)comm_rank(g) * count;
    size_t bytes = count * comm_type_size(type), start = first * comm_type_size(type);
    char *before = fill(0, count * size, type, comm->rank, count), *all = buffer(size * bytes);
    put_in(all, before, size * bytes);
    char *mine = in_place ? all + start : buffer(bytes), *got = mem_zero(bytes + 1, 1);
    void *expected = sums(g, first, count, type, count);
    comm_reduce_scatter(g, all, mine, count, type);
    take_out(got, mine, bytes);
    check(equal(got, expected, count, type), "scattered sum", count, type);
    if (in_place)
        memcpy(before + start, got, bytes);
    else
        memory->free(mine);
    all = moved_out(all, size * bytes);
    check(equal(all, before, count * size, type), "input of a scattered sum", count, type);
    free(got);
    free(all);
    free(before);
    free(expected);
}

/* Rows that a sends to b: often none. */
static size_t rows(int a, int b)
{
    return mix((uint64_t)a * 64 + (uint64_t)b) % 3 == 0 ? 0 : mix((uint64_t)b * 64 + (uint64_t)a) % 5;
}

static void check_all_to_all(struct comm_group *g, size_t row)
{
    int size = comm_size(g), me = comm_rank(g);
    size_t *counts = mem_zero((size_t)size * 2, sizeof *counts), in = 0, out = 0;
    for (int r = 0; r < size; r++) {
        in += counts[r] = rows(me, r);
        out += counts[size + r] = rows(r, me);
    }
    unsigned char *send = mem_grow(NULL, in * row + 1, 1), *got = mem_zero(out * row + 1, 1);
    for (size_t i = 0, at = 0; i < (size_t)size; at += counts[i++] * row)
        for (size_t b = 0; b < counts[i] * row; b++)
            send[at + b] = (unsigned char)mix((uint64_t)me * 64 + i + b * 4096);
    send = moved_in(send, in * row);
    got = moved_in(got, out * row);
    comm_all_to_all(g, send, counts, got, counts + size, row);
    memory->free(send);
    got = moved_out(got, out * row);
    bool good = true;
    for (size_t i = 0, at = 0; i < (size_t)size; at += counts[(size_t)size + i++] * row)
        for (size_t b = 0; b < counts[(size_t)size + i] * row; b++)
            good = good && got[at + b] == (unsigned char)mix(i * 64 + (uint64_t)me + b * 4096);
    check(good, "rows of an all-to-all", row, out);
    free(counts);
    free(got);
}

static void check_broadcast(struct comm_group *g, size_t bytes)
{
    for (int root = 0; root < comm_size(g); root++) {
        void *x = fill(0, bytes, COMM_BYTE, comm->rank, bytes);
        void *expected = fill(0, bytes, COMM_BYTE, comm_world_rank(g, root), bytes);
        comm_broadcast(g, x, bytes, root);
        check(memcmp(x, expected, bytes) == 0, "broadcast", (size_t)root, bytes);
        free(x);
        free(expected);
    }
}

/* Of the calls that one rank makes of another. */
static void check_single_records(struct comm_group *g)
{
    int size = comm_size(g), me = comm_rank(g), value = 0;
    for (int r = 1; r < size; r++) {
        int mine = 100 + me;
        if (me == 0)
            comm_receive_record(g, &value, sizeof value, r, 7);
        else if (me == r)
            comm_send_record(g, &mine, sizeof mine, 0, 7);
        check(me != 0 || value == 100 + r, "a record of one rank", (size_t)r, (size_t)value);
    }
}

static void check_records(struct comm_group *g)
{
    int size = comm_size(g), max = comm_max_int(g, comm_rank(g) == size / 2 ? 7 : -comm_rank(g));
    check(max == 7, "largest number", (size_t)max, 7);
    check(comm_max_int(g, -5 - comm_rank(g)) == -5, "largest of negative numbers", 0, 0);
    double sum = value(comm_world_rank(g, 0), 3, 9);
    for (int r = 1; r < size; r++)
        sum += value(comm_world_rank(g, r), 3, 9);
    check(comm_sum_double(g, value(comm->rank, 3, 9)) == 0 + sum, "sum of doubles", 0, 0);
    check_single_records(g);
}

static void check_calls(struct comm_group *g)
{
    static const size_t counts[] = {0, 1, 2, 7, 16, 129, 1000, 5003};
    static const enum comm_type types[] = {COMM_REAL, COMM_BF16, COMM_DOUBLE};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (size_t t = 0; t < 3; t++) {
            check_all_reduce(g, counts[i], types[t]);
            check_reduce_scatter(g, counts[i], types[t], false);
            check_reduce_scatter(g, counts[i], types[t], true);
            check_all_gather(g, counts[i], types[t], i % 2 == 0);
        }
        check_all_gather(g, counts[i], COMM_BYTE, i % 2 != 0);
        check_all_to_all(g, counts[i]);
        check_broadcast(g, counts[i]);
    }
    check_records(g);
}

/* Nobody leaves a barrier before all have come: each says so in a file of its own first. */
static void check_barrier(struct comm_group *g, const char *folder, const char *name)
{
    for (int i = 0; i < 20; i++) {
        for (int r = 0; r < comm_size(g); r++) {
            char *path = str_printf("%s/%s-%d-%d", folder, name, i, comm_world_rank(g, r));
            struct stat st;
            if (r == 0) {
                char *own = str_printf("%s/%s-%d-%d", folder, name, i, comm->rank);
                FILE *f = fopen(own, "w");
                check(f && fclose(f) == 0, "file", (size_t)i, 0);
                free(own);
                comm_barrier(g);
            }
            check(stat(path, &st) == 0, "barrier", (size_t)i, (size_t)r);
            free(path);
        }
    }
}

/* ---- overlapping calls ------------------------------------------------------------------------------------------------ */

enum { CALLS = 60, MOST = 5000 };

struct job {
    struct comm_group *group;
    enum { REDUCE, GATHER, SCATTER, KINDS } kind;
    size_t count;
    enum comm_type type;
    uint64_t salt;
    void *in, *out;
    struct comm_request *request;
};

static void start_job(struct job *j)
{
    size_t size = (size_t)comm_size(j->group), bytes = comm_type_size(j->type);
    size_t in = j->kind == SCATTER ? j->count * size : j->count;
    j->in = moved_in(fill(0, in, j->type, comm->rank, j->salt), in * bytes);
    j->out = buffer(j->count * size * bytes);
    if (j->kind == REDUCE)
        j->request = comm_all_reduce_start(j->group, j->in, j->count, j->type);
    else if (j->kind == GATHER)
        j->request = comm_all_gather_start(j->group, j->in, j->out, j->count, j->type);
    else
        j->request = comm_reduce_scatter_start(j->group, j->in, j->out, j->count, j->type);
}

static void end_job(struct job *j)
{
    while (j->salt % 2 && !comm_done(j->request))
        sched_yield();
    comm_wait(j->request);
    size_t size = (size_t)comm_size(j->group), first = (size_t)comm_rank(j->group) * j->count;
    size_t bytes = comm_type_size(j->type), all = j->kind == GATHER ? j->count * size : j->count;
    void *sum = sums(j->group, j->kind == SCATTER ? first : 0, j->count, j->type, j->salt);
    char *got = moved_out(j->kind == REDUCE ? j->in : j->out, all * bytes);
    memory->free(j->kind == REDUCE ? j->out : j->in);
    if (j->kind != GATHER)
        check(equal(got, sum, j->count, j->type), "overlapping sum", j->count, j->kind);
    for (size_t r = 0; j->kind == GATHER && r < size; r++) {
        void *part = fill(0, j->count, j->type, comm_world_rank(j->group, (int)r), j->salt);
        check(equal(got + r * j->count * bytes, part, j->count, j->type), "overlapping gather", j->count, r);
        free(part);
    }
    free(sum);
    free(got);
}

static void shuffle(struct job *jobs, size_t n, uint64_t *state)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = draw(state) % i;
        struct job swap = jobs[i - 1];
        jobs[i - 1] = jobs[k];
        jobs[k] = swap;
    }
}

/* Calls on three groups that overlap in ranks. Within a group the order is agreed; which group comes first is not, nor who waits for what when. */
static void check_overlap(struct comm_group *const groups[3], uint64_t seed)
{
    struct job jobs[CALLS];
    uint64_t own = seed * 100 + (uint64_t)comm->rank, agreed = seed;
    size_t begun[3] = {0}, n = 0;
    for (size_t i = 0; i < CALLS; i++) {
        uint64_t x = draw(&agreed);
        jobs[i] = (struct job){.group = groups[i % 3],
                               .kind = x % KINDS,
                               .count = x / 16 % MOST / (1 + x / 8 % 2 * 50),
                               .type = x % 2 ? COMM_REAL : COMM_BF16,
                               .salt = seed + i};
    }
    while (n < CALLS) {
        size_t g = draw(&own) % 3;
        if (begun[g] == CALLS / 3)
            continue;
        start_job(&jobs[begun[g]++ * 3 + g]);
        n++;
        if (draw(&own) % 4 == 0)
            comm_progress(comm);
    }
    shuffle(jobs, CALLS, &own);
    for (size_t i = 0; i < CALLS; i++)
        end_job(&jobs[i]);
    check(comm_progress(comm), "nothing is left", 0, 0);
}

/* Ranks of a pair wait for a sum of all and for one of the pair, in opposite order, and in calls of both kinds. */
static void check_crossed_waits(struct comm_group *all, struct comm_group *pair)
{
    struct job wide = {.group = all, .kind = REDUCE, .count = MOST, .salt = 5};
    struct job narrow = {.group = pair, .kind = REDUCE, .count = MOST, .salt = 6};
    wide.type = narrow.type = COMM_REAL;
    start_job(&wide);
    if (comm_rank(pair) == 0) {
        end_job(&wide);
        check_all_reduce(pair, MOST, COMM_REAL);
    } else {
        check_all_reduce(pair, MOST, COMM_REAL);
        end_job(&wide);
    }
    start_job(comm_rank(pair) == 0 ? &wide : &narrow);
    start_job(comm_rank(pair) == 0 ? &narrow : &wide);
    end_job(comm_rank(pair) == 0 ? &wide : &narrow);
    end_job(comm_rank(pair) == 0 ? &narrow : &wide);
}

/* ---- messages --------------------------------------------------------------------------------------------------------- */

enum { MESSAGES = 24 };

static size_t message_bytes(int i)
{
    return i % 7 == 0 ? 0 : (size_t)mix((uint64_t)i) % 30000;
}

static unsigned char message_byte(int from, int to, int i, size_t at)
{
    return (unsigned char)mix((uint64_t)from * 64 + (uint64_t)to + (uint64_t)i * 4096 + at * 1048576);
}

struct letter {
    struct comm_request *request;
    unsigned char *data;
    int peer, number;
    bool out;
};

/* With the tags that the next sum of the group uses within: the two must not meet. Where each tag costs a communicator, always the same ones. */
static int tag_of(const struct comm_group *g, int number)
{
    bool costly = backend && !g->comm->buffers.transport->copies;
    return (int)((costly ? 0 : g->tags) + (unsigned)number % 4) % 32768;
}

static struct letter post(struct comm_group *g, int peer, int number, int tag, bool out)
{
    size_t bytes = message_bytes(number);
    struct letter l = {.data = mem_zero(bytes + 1, 1), .peer = peer, .number = number, .out = out};
    for (size_t b = 0; out && b < bytes; b++)
        l.data[b] = message_byte(comm_rank(g), peer, number, b);
    l.data = moved_in(l.data, bytes);
    l.request =
        out ? comm_send_start(g, l.data, bytes, peer, tag) : comm_receive_start(g, l.data, bytes, peer, tag);
    return l;
}

static void open_letter(const struct comm_group *g, struct letter *l)
{
    bool good = true;
    comm_wait(l->request);
    l->data = moved_out(l->data, message_bytes(l->number));
    for (size_t b = 0; !l->out && b < message_bytes(l->number); b++)
        good = good && l->data[b] == message_byte(l->peer, comm_rank(g), l->number, b);
    check(good, "message", (size_t)l->peer, (size_t)l->number);
    free(l->data);
}

/* From everyone to everyone, itself too: of four tags the last is received first, messages of one tag as they were sent. */
static void check_messages(struct comm_group *g)
{
    int size = comm_size(g), n = 0;
    struct letter *letters = mem_zero((size_t)size * MESSAGES * 2, sizeof *letters);
    struct job sum = {.group = g, .kind = REDUCE, .count = MOST, .type = COMM_REAL, .salt = 8};
    int tags[4];
    for (int i = 0; i < 4; i++)
        tags[i] = tag_of(g, i);
    for (int half = 0; half < 2; half++)
        for (int peer = 0; peer < size; peer++)
            for (int k = 0; k < MESSAGES; k++) {
                bool out = (comm_rank(g) + half) % 2 == 0;
                int number = out ? k : k / 4 * 4 + 3 - k % 4;
                letters[n++] = post(g, peer, number, tags[number % 4], out);
                if (half == 0 && peer == size / 2 && k == 0)
                    start_job(&sum);
            }
    for (int i = 0; i < n; i++) /* 7 divides no n here: everyone in a jumbled order */
        open_letter(g, &letters[(size_t)i * 7 % (size_t)n]);
    end_job(&sum);
    free(letters);
}

enum { LAPS = 3, TOKEN = 2000 };

/* b = 2 a, where buffers are. */
static void twice(void *b, const void *a)
{
    struct comm_terms terms = {a, a, 0, 0, 2};
    memory->sum(NULL, b, &terms, TOKEN, COMM_REAL);
}

/* A row of numbers goes round and is doubled by everyone; on a device nobody waits for it, so that only the order of the work keeps it right. */
static void check_ring(struct comm_group *g)
{
    int size = comm_size(g), me = comm_rank(g), next = (me + 1) % size, before = (me + size - 1) % size;
    size_t bytes = TOKEN * sizeof(real);
    real *host = mem_grow(NULL, TOKEN, sizeof *host);
    for (size_t i = 0; i < TOKEN; i++)
        host[i] = me == 0 ? (real)(i + 1) : 0;
    void *a = moved_in(host, bytes), *b = buffer(bytes);
    for (int lap = 0; size > 1 && lap < LAPS; lap++) {
        if (me > 0)
            comm_wait(comm_receive_start(g, a, bytes, before, 0));
        twice(b, a);
        comm_wait(comm_send_start(g, b, bytes, next, 0));
        if (me == 0)
            comm_wait(comm_receive_start(g, a, bytes, before, 0));
    }
    memory->free(b);
    host = moved_out(a, bytes);
    bool good = true;
    for (size_t i = 0; size > 1 && me == 0 && i < TOKEN; i++)
        good = good && host[i] == (real)ldexp((double)(i + 1), size * LAPS);
    check(good, "what went round", (size_t)size, 0);
    free(host);
}

/* ---- counters, limits, groups ----------------------------------------------------------------------------------------- */

static void check_counters(struct comm_group *g)
{
    size_t size = (size_t)comm_size(g), n = 16 * size, steps = 0;
    real *x = buffer(n * size * sizeof *x), *y = buffer(n * size * sizeof *y);
    while (size > (size_t)1 << steps)
        steps++;
    comm_counters_reset(g);
    comm_barrier(g);
    check(comm_counters(g).bytes == steps, "bytes of a barrier", comm_counters(g).bytes, steps);
    comm_counters_reset(g);
    comm_all_reduce(g, x, n, COMM_REAL); /* to each other rank a slice, then the own one */
    uint64_t sent = 2 * (size - 1) * 16 * sizeof(real);
    check(comm_counters(g).bytes == sent, "bytes of a sum", comm_counters(g).bytes, sent);
    comm_reduce_scatter(g, x, y, n, COMM_REAL);
    comm_wait(comm_all_gather_start(g, y, x, n, COMM_REAL));
    sent += 2 * (size - 1) * n * sizeof(real);
    check(comm_counters(g).bytes == sent, "bytes of three calls", comm_counters(g).bytes, sent);
    check(comm_counters(g).calls == 3, "calls", comm_counters(g).calls, 3);
    check(comm_counters(g).seconds >= 0 && (size == 1 || comm_counters(g).seconds > 0), "seconds", 0, 0);
    memory->free(x);
    memory->free(y);
}

/* The ranks r of the world with r % of == this one's, or, `turned`, in descending order. */
static struct comm_group *every(int of, bool turned)
{
    int *ranks = mem_zero((size_t)comm->size, sizeof *ranks), n = 0;
    for (int i = 0; i < comm->size; i++) {
        int r = turned ? comm->size - 1 - i : i;
        if (r % of == comm->rank % of)
            ranks[n++] = r;
    }
    struct comm_group *g = comm_group_new(comm, "some", ranks, (size_t)n);
    check(comm_size(g) == n && comm_world_rank(g, comm_rank(g)) == comm->rank, "group", (size_t)of, 0);
    free(ranks);
    return g;
}

/* Ranks 2k and 2k+1; the last one may be alone. */
static struct comm_group *pairs(void)
{
    int ranks[2] = {comm->rank / 2 * 2, comm->rank / 2 * 2 + 1};
    return comm_group_new(comm, "pair", ranks, ranks[1] < comm->size ? 2 : 1);
}

/* Two fresh groups of the same two ranks, which begin with another one each. */
static void check_first_use(void)
{
    struct comm_group *groups[2] = {pairs(), pairs()};
    int first = comm->rank % 2;
    struct job jobs[2];
    for (int i = 0; i < 2; i++) {
        jobs[i] = (struct job){
            .group = groups[(first + i) % 2], .kind = REDUCE, .count = 100, .type = COMM_REAL, .salt = 4};
        start_job(&jobs[i]);
    }
    end_job(&jobs[0]);
    end_job(&jobs[1]);
}

static void check_no_group(void)
{
    int ranks[1] = {comm->rank};
    struct comm_group *g = comm_group_new(comm, "first", ranks, comm->rank == 0);
    check((g != NULL) == (comm->rank == 0), "being in no group", 0, 0);
}

/* A call larger than rounds and messages are without limits for tests. */
static void check_default_limits(struct comm_group *g)
{
    check_all_reduce(g, 4096, COMM_REAL);                    /* small */
    check_all_reduce(g, 3 * ROUND_BYTES / 4 + 5, COMM_BF16); /* two rounds */
    check_reduce_scatter(g, 300001, COMM_REAL, false);
    check_broadcast(g, ROUND_BYTES + 1);
}

/* ---- meshes ----------------------------------------------------------------------------------------------------------- */

/* Is the group the one whose ranks differ from this one's in a coordinate alone: `stride` apart, `size` of them, this one's number `place`? */
static void check_axis(const struct comm_group *g, const char *what, int place, int size, int stride)
{
    bool good = g && comm_size(g) == size && comm_rank(g) == place;
    for (int r = 0; good && r < size; r++)
        good = comm_world_rank(g, r) == comm->rank + (r - place) * stride;
    check(good, what, (size_t)place, (size_t)size);
}

static void check_mesh(struct mesh_sizes s)
{
    struct err err = {""};
    struct mesh m;
    int ranks = s.tp * s.pp * s.cp * s.dp;
    if (comm->size < ranks)
        return;
    check(mesh_open(&m, comm, &s, true, &err) == 0, err.text, 0, 0);
    check(comm->size == ranks || mesh_open(&m, comm, &s, false, &err) != 0, "a world too large", 0, 0);
    if (comm->rank >= ranks) {
        check(m.size.tp == 0 && !m.world && !m.dp_group, "a spare rank", 0, 0);
        return;
    }
    check(comm_size(m.world) == ranks && comm_rank(m.world) == comm->rank, "the mesh's world", 0, 0);
    check_axis(m.tp_group, "tp group", m.tp, s.tp, 1);
    check_axis(m.cp_group, "cp group", m.cp, s.cp, s.tp);
    check_axis(m.pp_group, "pp group", m.pp, s.pp, s.tp * s.cp);
    check(comm_size(m.dp_group) == s.dp * s.cp && comm_rank(m.dp_group) == m.replica, "dp group", 0, 0);
    check(comm_size(m.ep_group) == s.ep && comm_rank(m.ep_group) == m.ep, "ep group", 0, 0);
    check(comm_size(m.expert_dp_group) == s.dp * s.cp / s.ep, "expert dp group", 0, 0);
    bool end = s.pp > 1 && (m.pp == 0 || m.pp == s.pp - 1);
    check(!m.ends_group == !end, "ends group is there", (size_t)m.pp, 0);
    if (end)
        check_axis(m.ends_group, "ends group", m.pp > 0, 2, s.tp * s.cp * (s.pp - 1));
    check_records(m.world);
    check_all_reduce(m.dp_group, 1000, COMM_REAL);
    check_all_reduce(m.expert_dp_group, 1000, COMM_BF16);
    check_all_to_all(m.ep_group, 8);
}

static void check_meshes(void)
{
    static const struct mesh_sizes sizes[] = {{2, 2, 2, 1, 1}, {1, 1, 2, 2, 4}, {1, 1, 1, 1, 1},
                                              {1, 3, 1, 1, 1}, {2, 1, 1, 3, 3}, {1, 1, 2, 4, 2},
                                              {1, 5, 1, 1, 1}, {2, 1, 1, 4, 2}, {1, 2, 2, 2, 4}};
    struct err err = {""};
    struct mesh m;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_mesh(sizes[i]);
    struct mesh_sizes bad = {comm->size + 1, 1, 1, 1, 1};
    check(mesh_open(&m, comm, &bad, true, &err) != 0 && strstr(err.text, "does not fit"), err.text, 0, 0);
    bad = (struct mesh_sizes){1, 1, 1, comm->size, comm->size + 1};
    check(mesh_open(&m, comm, &bad, true, &err) != 0 && strstr(err.text, "does not divide"), err.text, 0, 0);
    bad.tp = 0;
    check(mesh_open(&m, comm, &bad, true, &err) != 0 && strstr(err.text, "1 or more"), err.text, 0, 0);
}

/* ---- all of it -------------------------------------------------------------------------------------------------------- */

static void check_all(const char *folder)
{
    static const struct comm_limits limits[] = {
        {4096, 1000, 0}, {512, 300, 0}, {ROUND_BYTES, 1 << 30, SMALL_BYTES}};
    struct comm_group *world = comm_world(comm), *half = every(2, false), *turned = every(3, true);
    struct comm_group *pair = pairs(), *const groups[3] = {world, half, turned};
    /* Many ranks over an emulated NCCL take turns of the few cores for each message. */
    bool brief = backend && comm->size > 4;
    check_no_group();
    check_first_use();
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        comm->limits = limits[i];
        if (!brief || i == 1)
            check_calls(brief ? turned : world);
        if (!brief)
            check_calls(turned);
        for (uint64_t seed = 1; seed <= (brief ? 1 : 2); seed++)
            check_overlap(groups, seed);
        if (comm_size(pair) == 2 && comm->size % 2 == 0)
            check_crossed_waits(world, pair);
        if (!brief || i == 2)
            check_messages(world);
        if (!brief)
            check_messages(turned);
    }
    check_default_limits(world);
    check_ring(world);
    check_ring(turned);
    comm->limits.small_bytes = 0;
    check_counters(world);
    check_counters(half);
    check_barrier(world, folder, "world");
    check_barrier(turned, folder, "turned");
    if (!brief)
        check_meshes();
}

/* Each ends the process: a rank that cannot go on must not hang. */
static int misuse(const char *what)
{
    struct comm_group *g = comm_world(comm);
    char byte = 0, bytes[2] = {0};
    if (strcmp(what, "self") == 0)
        comm_wait(comm_receive_start(g, &byte, 1, comm->rank, 0));
    if (strcmp(what, "peer") == 0)
        comm_wait(comm_send_start(g, &byte, 1, comm->size, 0));
    if (strcmp(what, "bytes") == 0) {
        struct comm_request *request = comm_send_start(g, &byte, 1, comm->rank, 0);
        comm_wait(comm_receive_start(g, bytes, 2, comm->rank, 0));
        comm_wait(request);
    }
    return 0;
}

/* Does not end, but for the time limit, when one of the ranks has stopped. */
static int lost(const char *what)
{
    struct comm_group *world = comm_world(comm);
    void *x = moved_in(fill(0, 1000, COMM_REAL, comm->rank, 1), 1000 * sizeof(real)), *y = buffer(64);
    int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    for (int i = 0; i < 50; i++) {
        comm_all_reduce(world, x, 1000, COMM_REAL);
        struct comm_request *in = comm_receive_start(world, y, 32, before, 1);
        struct comm_request *out = comm_send_start(world, x, 32, next, 1);
        comm_wait(in);
        comm_wait(out);
    }
    if (strcmp(what, "record") == 0 && raise(SIGUSR2) != 0)
        return 1;
    free(moved_out(y, 64));
    free(moved_out(x, 1000 * sizeof(real)));
    comm_barrier(world);
    comm_close(comm);
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {""};
    log_program("comm_check");
    comm = comm_open(device(), &err);
    if (!comm || argc < 2) {
        fprintf(stderr, "comm_check: %s\n", comm ? "name an empty folder" : err.text);
        return 2;
    }
    if (argc > 2)
        return strcmp(argv[1], "--lost") == 0 ? lost(argv[2]) : misuse(argv[2]);
    check_all(argv[1]);
    int all = comm_max_int(comm_world(comm), wrong > 0);
    const char *way = memory == &comm_memory_host                         ? ""
                      : comm->buffers.transport == &comm_transport_staged ? ", staged"
                                                                          : ", on devices";
    if (comm->rank == 0)
        printf("checked on %d rank(s) in %s%s: %s\n", comm->size, sizeof(real) == 4 ? "float" : "double", way,
               all ? "WRONG" : "good");
    comm_close(comm);
    if (backend)
        backend->close();
    return all;
}
