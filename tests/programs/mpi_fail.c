/* An MPI program whose rank ARGV[2] ends in the way ARGV[1] (exit0, exit1, segv, abort) once the file ARGV[3] appears,
 * while the others work on. Rank 0 makes ARGV[3].ready when all ranks are through MPI_Init. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end_as_told(const char *how)
{
    if (strcmp(how, "exit0") == 0)
        _exit(0);
    if (strcmp(how, "exit1") == 0)
        _exit(1);
    if (strcmp(how, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would make it an exit code and a report */
    raise(SIGSEGV);
}

static void announce(const char *go)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.ready", go);
    FILE *f = fopen(path, "w");
    if (f)
        fclose(f);
}

int main(int argc, char **argv)
{
    int rank, sum, one = 1;
    if (argc < 4)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        announce(argv[3]);
    for (;;) {
        if (rank == (int)strtol(argv[2], NULL, 10) && access(argv[3], F_OK) == 0)
            end_as_told(argv[1]);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        usleep(1000);
    }
}
