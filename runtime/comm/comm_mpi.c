/* comm over MPI, and over nothing at all for one rank alone.
 *
 * Started by hand without a launcher the process never calls MPI_Init: a singleton would start helper processes and fail where
 * those are not allowed. The sum is an all-to-all of slices, a local sum in rank order and an all-gather: MPI_Allreduce may choose its order
 * by message size, network and library version. MPI errors end the process (MPI_ERRORS_ARE_FATAL): ranks cannot go on without one. */
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/comm/comm.h"

#define SUM_ROUND (1u << 24) /* floats that a sum moves at a time: 64 MiB, far below MPI's int counts */

struct comm {
    int rank, size;
    bool mpi;
    float *scratch; /* (size, SUM_ROUND/size): only as much is touched as is summed */
};

#ifdef __SANITIZE_ADDRESS__
/* Open MPI leaks in plugins that it unloads, out of reach of a suppression by name. The leak check of a sanitized build asks this at the
 * exit: runs without MPI are checked, runs with it are not. */
static bool mpi_was_used;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return mpi_was_used;
}
#endif

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

static bool launched(void)
{
    return getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_SIZE");
}

static int join(struct comm *c, struct err *err)
{
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return err_set(err, "MPI_Init failed; look at the lines of Open MPI above");
    c->mpi = true;
#ifdef __SANITIZE_ADDRESS__
    mpi_was_used = true;
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->size);
    return 0;
}

/* A launcher that Open MPI does not recognise would leave every rank alone in a world of its own: refuse that. */
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

struct comm *comm_open(struct err *err)
{
    struct comm *c = mem_zero(1, sizeof *c);
    c->size = 1;
    if ((launched() && join(c, err) != 0) || check_world(c, err) != 0) {
        comm_close(c);
        return NULL;
    }
    if (c->size > 1)
        c->scratch = mem_grow(NULL, SUM_ROUND + (size_t)c->size, sizeof *c->scratch);
    return c;
}

void comm_close(struct comm *comm)
{
    if (!comm)
        return;
    if (comm->mpi)
        MPI_Finalize();
    free(comm->scratch);
    free(comm);
}

int comm_rank(const struct comm *comm)
{
    return comm->rank;
}

int comm_size(const struct comm *comm)
{
    return comm->size;
}

void comm_broadcast(struct comm *comm, void *data, size_t bytes)
{
    if (comm->size > 1)
        MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

void comm_gather(struct comm *comm, const void *mine, size_t bytes, void *all)
{
    if (comm->size > 1)
        MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    else
        memcpy(all, mine, bytes);
}

/* One round: at most SUM_ROUND floats; the last slices may be shorter or empty. */
static void sum_round(struct comm *c, float *x, size_t count)
{
    int *lengths = mem_grow(NULL, (size_t)c->size * 4, sizeof *lengths);
    int *starts = lengths + c->size, *mine = starts + c->size, *slots = mine + c->size;
    size_t slice = (count + (size_t)c->size - 1) / (size_t)c->size;
    for (int r = 0; r < c->size; r++) {
        size_t from = (size_t)r * slice < count ? (size_t)r * slice : count;
        starts[r] = (int)from;
        lengths[r] = (int)(count - from < slice ? count - from : slice);
    }
    int n = lengths[c->rank];
    for (int r = 0; r < c->size; r++) {
        mine[r] = n;
        slots[r] = r * n;
    }
    MPI_Alltoallv(x, lengths, starts, MPI_FLOAT, c->scratch, mine, slots, MPI_FLOAT, MPI_COMM_WORLD);
    float *sum = x + starts[c->rank];
    memcpy(sum, c->scratch, (size_t)n * sizeof *sum);
    for (int r = 1; r < c->size; r++) {
        const float *term = c->scratch + (size_t)r * (size_t)n;
        for (int i = 0; i < n; i++)
            sum[i] += term[i];
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, x, lengths, starts, MPI_FLOAT, MPI_COMM_WORLD);
    free(lengths);
}

void comm_sum_float(struct comm *comm, float *x, size_t count)
{
    if (comm->size == 1)
        return;
    for (size_t at = 0; at < count; at += SUM_ROUND)
        sum_round(comm, x + at, count - at < SUM_ROUND ? count - at : SUM_ROUND);
}

int comm_max_int(struct comm *comm, int value)
{
    int result = value;
    if (comm->size > 1)
        MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return result;
}

double comm_sum_double(struct comm *comm, double value)
{
    double *all = mem_grow(NULL, (size_t)comm->size, sizeof *all);
    comm_gather(comm, &value, sizeof value, all);
    double sum = 0;
    for (int r = 0; r < comm->size; r++)
        sum += all[r];
    free(all);
    return sum;
}
