/* comm_mpi: the transport over MPI; see transport.h.
 *
 * Messages are MPI_Isend and MPI_Irecv, tested batch by batch: each test lets the library move everything else, too. A link is two
 * communicators, one for each channel, so that MPI keeps the channels apart. Collectives of MPI are not used: their nonblocking forms
 * are the same messages, and must start in one order on all ranks, which later stages of overlapping calls do not. MPI errors end the
 * process (MPI_ERRORS_ARE_FATAL). */
#include <mpi.h>
#include <stdlib.h>

#include "common/mem.h"
#include "runtime/comm/transport.h"

#define MESSAGE_MAX ((size_t)1 << 30) /* bytes: MPI counts with int */

/* Bytes of a message that Open MPI sends over TCP without asking first: a slice of a round between two ranks, and its header. Asking takes three looks
 * at the network, which ranks that compute take seldom. Its own limit is 64 KiB. */
#define TCP_EAGER "1052672"

struct comm_link {
    MPI_Comm channel[2];
};

struct comm_batch {
    int n;
    MPI_Request requests[];
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

static int mpi_open(struct comm_run *run, struct err *err)
{
    int provided;
    static const char *const eager[] = {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_max_send_size"};
    for (size_t i = 0; i < sizeof eager / sizeof *eager; i++)
        if (setenv(eager[i], TCP_EAGER, 0) != 0) /* what the user has set stays */
            return err_sys(err, "cannot set %s for Open MPI", eager[i]);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return err_set(err, "MPI_Init failed; look at the lines of Open MPI above");
#ifdef __SANITIZE_ADDRESS__
    mpi_was_used = true;
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &run->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run->size);
    return 0;
}

static void mpi_close(void)
{
    MPI_Finalize();
}

static struct comm_link *mpi_link(const struct comm_members *members)
{
    MPI_Comm group;
    MPI_Comm_split(MPI_COMM_WORLD, members->color < 0 ? MPI_UNDEFINED : members->color, members->rank,
                   &group);
    if (group == MPI_COMM_NULL)
        return NULL;
    struct comm_link *link = mem_zero(1, sizeof *link);
    link->channel[CHANNEL_COLLECTIVE] = group;
    MPI_Comm_dup(group, &link->channel[CHANNEL_POINT]);
    return link;
}

static void mpi_unlink(struct comm_link *link)
{
    if (!link)
        return;
    MPI_Comm_free(&link->channel[CHANNEL_COLLECTIVE]);
    MPI_Comm_free(&link->channel[CHANNEL_POINT]);
    free(link);
}

static struct comm_batch *mpi_post(struct comm_link *link, const struct comm_post *post)
{
    MPI_Comm c = link->channel[post->channel];
    size_t n = post->n;
    struct comm_batch *batch = mem_grow(NULL, 1, sizeof *batch + n * sizeof(MPI_Request));
    batch->n = (int)n;
    for (size_t i = 0; i < n; i++) { /* in their order: two for the same peer must not overtake each other */
        const struct comm_message *m = &post->messages[i];
        if (m->out)
            MPI_Isend(m->data, (int)m->bytes, MPI_BYTE, m->peer, post->tag, c, &batch->requests[i]);
        else
            MPI_Irecv(m->data, (int)m->bytes, MPI_BYTE, m->peer, post->tag, c, &batch->requests[i]);
    }
    return batch;
}

static bool mpi_done(struct comm_batch *batch)
{
    int done;
    MPI_Testall(batch->n, batch->requests, &done, MPI_STATUSES_IGNORE);
    if (done)
        free(batch);
    return done;
}

const struct comm_transport comm_transport_mpi = {.message_max = MESSAGE_MAX,
                                                  .open = mpi_open,
                                                  .close = mpi_close,
                                                  .link = mpi_link,
                                                  .unlink = mpi_unlink,
                                                  .post = mpi_post,
                                                  .done = mpi_done};
