/* mpi_ring: send, receive and allreduce over all ranks; says what it saw, and fails unless the world has argv[1] ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING_BYTES 262144

/* Open MPI leaks, and unloads its plugins before the leak check could name them: so no leak check in this program. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static int ring(int rank, int size)
{
    static char out[RING_BYTES], in[RING_BYTES];
    int from = (rank + size - 1) % size;
    memset(out, rank + 1, sizeof out);
    MPI_Sendrecv(out, RING_BYTES, MPI_CHAR, (rank + 1) % size, 7, in, RING_BYTES, MPI_CHAR, from, 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return in[0] == (char)(from + 1) && in[RING_BYTES - 1] == (char)(from + 1);
}

/* mpi_ring SIZE [abort RANK CODE | leave RANK CODE | linger] */
int main(int argc, char **argv)
{
    int rank, size, sum = 0, shared = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int mine = rank + 1, ok = ring(rank, size);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &shared);
    ok = ok && sum == size * (size + 1) / 2 && argc > 1 && strtol(argv[1], NULL, 10) == size;
    printf("rank %d of %d sum %d shared %d %s\n", rank, size, sum, shared, ok ? "ok" : "WRONG");
    fflush(stdout);
    const char *act = argc > 2 ? argv[2] : "";
    int me = argc > 4 && strtol(argv[3], NULL, 10) == rank;
    int code = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 0;
    if (strcmp(act, "abort") == 0 && me)
        MPI_Abort(MPI_COMM_WORLD, code);
    if (strcmp(act, "leave") == 0 && me)
        _exit(code);
    if (*act)
        MPI_Barrier(MPI_COMM_WORLD); /* spins for ever when one is missing */
    MPI_Comm_free(&node);
    MPI_Finalize();
    return ok ? 0 : 1;
}
