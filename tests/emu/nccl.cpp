/* nccl: the emulated NCCL, over messages of MPI between processes whose devices are emulated, too.
 *
 * It is as hard to please as the real one, so that who uses it wrongly hangs or fails here: making a communicator takes several questions and all its
 * ranks; two ranks on one device are refused; a group of sends and receives is launched only when the peers that it is the first between have
 * launched theirs, and until then the communicator takes nothing else; what was launched is done in its stream's order, when the peer
 * has come to it; destroying a communicator that was not finalized waits for the others to do so, too. Everything moves when somebody asks for a
 * communicator's state, or a stream moves.
 *
 * EMU_NCCL_DEAD=RANK:AFTER[:silent]: this rank of MPI's world stops for ever at its group number AFTER (0: when it makes its first communicator); unless
 * silent, the others are told as an error of their communicators. Messages are in MPI_COMM_WORLD, which nobody else may use. */
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/emu/queue.h"

#include <nccl.h>

#define LEAST_QUESTIONS 3 /* before a communicator is ready, or a group launched */

/* Kinds of messages of a communicator: tags of MPI. */
enum kind { JOINING, TABLE, SENDER_HERE, RECEIVER_HERE, DATA, DYING, LEAVING, KINDS };

struct unique_id {
    int root, serial; /* the process that made it, and which of its own it is */
};

/* What ranks tell the root, and it all of them. */
struct member {
    int rank, process;
    char device[16], host[64];
};

struct operation {
    bool out;
    void *data;
    size_t bytes;
    int peer;
    cudaStream_t stream;
};

struct ncclComm {
    int rank, size, root, tag; /* tag: of kind 0 */
    std::vector<member> members;
    std::vector<MPI_Request> requests; /* of what is being waited for */
    enum { JOINS, AWAITS_TABLE, IDLE, LAUNCHES, LEAVES, LEFT } state;
    int questions; /* since the state began */
    ncclResult_t error;
    std::string reason;
    std::vector<bool> sends_to, receives_from; /* connections that there are */
    std::vector<operation> group;
    char hello;
    std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
};

static int own_process()
{
    int process = -1, up = 0;
    MPI_Initialized(&up);
    if (up)
        MPI_Comm_rank(MPI_COMM_WORLD, &process);
    return process;
}

static ncclResult_t fail(ncclComm_t comm, ncclResult_t rc, const std::string &reason)
{
    comm->error = rc;
    comm->reason = reason;
    return rc;
}

static bool all_done(std::vector<MPI_Request> &requests)
{
    int done = 1;
    if (!requests.empty())
        MPI_Testall((int)requests.size(), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done)
        requests.clear();
    return done;
}

static void send_to(ncclComm_t comm, int process, kind k, const void *data, size_t bytes)
{
    comm->requests.emplace_back();
    MPI_Isend(data, (int)bytes, MPI_BYTE, process, comm->tag + k, MPI_COMM_WORLD, &comm->requests.back());
}

static void receive_from(ncclComm_t comm, int process, kind k, void *data, size_t bytes)
{
    comm->requests.emplace_back();
    MPI_Irecv(data, (int)bytes, MPI_BYTE, process, comm->tag + k, MPI_COMM_WORLD, &comm->requests.back());
}

/* ---- a peer that stops ------------------------------------------------------------------------------------------------ */

/* groups: so many before. */
static void stop_if_told(ncclComm_t comm, int groups)
{
    int process, after;
    char silent[16] = "";
    const char *text = getenv("EMU_NCCL_DEAD");
    if (!text || sscanf(text, "%d:%d:%15s", &process, &after, silent) < 2 || process != own_process() ||
        groups != after)
        return;
    for (const member &m : comm->members)
        if (!*silent && groups > 0 && m.rank != comm->rank)
            MPI_Send(NULL, 0, MPI_BYTE, m.process, comm->tag + DYING, MPI_COMM_WORLD);
    for (;;)
        (void)pause();
}

static void see_deaths(ncclComm_t comm)
{
    int here = 0;
    MPI_Status status;
    if (comm->state == ncclComm::JOINS || comm->error != ncclSuccess)
        return;
    MPI_Iprobe(MPI_ANY_SOURCE, comm->tag + DYING, MPI_COMM_WORLD, &here, &status);
    if (here)
        (void)fail(comm, ncclRemoteError,
                   "process " + std::to_string(status.MPI_SOURCE) + " exited or the network failed");
}

/* ---- making one ------------------------------------------------------------------------------------------------------- */

static member own_member(int rank)
{
    member m;
    int device;
    cudaDeviceProp properties;
    memset(&m, 0, sizeof m);
    m.rank = rank;
    m.process = own_process();
    if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&properties, device) == cudaSuccess)
        memcpy(m.device, properties.uuid.bytes, sizeof m.device);
    (void)gethostname(m.host, sizeof m.host - 1);
    return m;
}

static ncclResult_t check_devices(ncclComm_t comm)
{
    for (const member &a : comm->members)
        for (const member &b : comm->members)
            if (a.rank < b.rank && memcmp(a.device, b.device, sizeof a.device) == 0 &&
                strcmp(a.host, b.host) == 0)
                return fail(comm, ncclInvalidUsage,
                            "Duplicate GPU detected : rank " + std::to_string(a.rank) + " and rank " +
                                std::to_string(b.rank) + " both on one CUDA device");
    return ncclSuccess;
}

/* The root receives from all, and then tells all; the others the other way round. */
static void begin_joining(ncclComm_t comm)
{
    comm->members.resize((size_t)comm->size);
    comm->members[(size_t)comm->rank] = own_member(comm->rank);
    if (comm->root != own_process())
        send_to(comm, comm->root, JOINING, &comm->members[(size_t)comm->rank], sizeof(member));
}

/* Takes what has come from ranks that join; true when all have. */
static bool all_joined(ncclComm_t comm)
{
    int here;
    MPI_Status status;
    for (;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, comm->tag + JOINING, MPI_COMM_WORLD, &here, &status);
        if (!here)
            break;
        member m;
        MPI_Recv(&m, sizeof m, MPI_BYTE, status.MPI_SOURCE, comm->tag + JOINING, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        comm->members[(size_t)m.rank] = m;
    }
    for (const member &m : comm->members)
        if (!m.host[0])
            return false;
    return true;
}

static void join(ncclComm_t comm)
{
    bool root = comm->root == own_process();
    size_t bytes = comm->members.size() * sizeof(member);
    if (comm->state == ncclComm::JOINS) {
        if (root ? !all_joined(comm) : !all_done(comm->requests))
            return;
        for (const member &m : comm->members)
            if (root && m.rank != comm->rank)
                send_to(comm, m.process, TABLE, comm->members.data(), bytes);
        if (!root)
            receive_from(comm, comm->root, TABLE, comm->members.data(), bytes);
        comm->state = ncclComm::AWAITS_TABLE;
    }
    if (!all_done(comm->requests) || comm->questions < LEAST_QUESTIONS)
        return;
    comm->state = ncclComm::IDLE;
    (void)check_devices(comm);
}

extern "C" ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static int serial;
    unique_id is = {own_process(), serial++};
    if (is.root < 0)
        return ncclSystemError;
    memset(id, 0, sizeof *id);
    memcpy(id, &is, sizeof is);
    return ncclSuccess;
}

extern "C" ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank,
                                               ncclConfig_t *config)
{
    unique_id is;
    int processes;
    if (!config || config->blocking != 0 || rank < 0 || rank >= size)
        return ncclInvalidArgument;
    memcpy(&is, &id, sizeof is);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    ncclComm_t comm = *out = new ncclComm;
    comm->rank = rank;
    comm->size = size;
    comm->root = is.root;
    comm->tag = (is.serial * processes + is.root) * KINDS;
    comm->state = ncclComm::JOINS;
    comm->questions = 0;
    comm->error = ncclSuccess;
    comm->sends_to.resize((size_t)size);
    comm->receives_from.resize((size_t)size);
    stop_if_told(comm, 0);
    begin_joining(comm);
    return ncclInProgress;
}

/* ---- messages --------------------------------------------------------------------------------------------------------- */

/* A launched group: the work of one step of a stream, asked until its messages are through. The bytes go through copies: MPI touches its buffers at times when
 * a device's memory is not to be touched (EMU_GUARD). */
struct transfer {
    std::shared_ptr<bool> aborted;
    std::vector<operation> operations;
    std::vector<int> processes; /* of the peers */
    int tag;
    bool begun = false;
    std::vector<std::vector<char>> copies;
    std::vector<MPI_Request> requests;
};

static void begin(transfer &t)
{
    t.copies.resize(t.operations.size());
    for (size_t i = 0; i < t.operations.size(); i++) {
        const operation &o = t.operations[i];
        std::vector<char> &copy = t.copies[i];
        t.requests.emplace_back();
        copy.resize(o.bytes);
        if (o.out) {
            memcpy(copy.data(), o.data, o.bytes);
            MPI_Isend(copy.data(), (int)o.bytes, MPI_BYTE, t.processes[i], t.tag, MPI_COMM_WORLD,
                      &t.requests.back());
        } else {
            MPI_Irecv(copy.data(), (int)o.bytes, MPI_BYTE, t.processes[i], t.tag, MPI_COMM_WORLD,
                      &t.requests.back());
        }
    }
    t.begun = true;
}

static bool run(transfer &t)
{
    if (*t.aborted)
        return true;
    if (!t.begun)
        begin(t);
    if (!all_done(t.requests))
        return false;
    for (size_t i = 0; i < t.operations.size(); i++)
        if (!t.operations[i].out)
            memcpy(t.operations[i].data, t.copies[i].data(), t.copies[i].size());
    return true;
}

static void give_to_stream(ncclComm_t comm)
{
    std::shared_ptr<transfer> t = std::make_shared<transfer>();
    t->aborted = comm->aborted;
    t->operations = comm->group;
    t->tag = comm->tag + DATA;
    for (const operation &o : comm->group)
        t->processes.push_back(comm->members[(size_t)o.peer].process);
    emu::enqueue(
        comm->group[0].stream, [t] { return run(*t); }, "messages of NCCL");
}

/* Each side tells the other that it is there, the first time it sends or receives. */
static void begin_connecting(ncclComm_t comm)
{
    for (const operation &o : comm->group) {
        std::vector<bool> &known = o.out ? comm->sends_to : comm->receives_from;
        int process = comm->members[(size_t)o.peer].process;
        if (known[(size_t)o.peer])
            continue;
        known[(size_t)o.peer] = true;
        send_to(comm, process, o.out ? SENDER_HERE : RECEIVER_HERE, "", 0);
        receive_from(comm, process, o.out ? RECEIVER_HERE : SENDER_HERE, &comm->hello, 0);
    }
}

static void launch(ncclComm_t comm)
{
    if (!all_done(comm->requests) || comm->questions < LEAST_QUESTIONS)
        return;
    give_to_stream(comm);
    comm->group.clear();
    comm->state = ncclComm::IDLE;
}

static int depth;
static std::vector<ncclComm_t> grouped;

extern "C" ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

extern "C" ncclResult_t ncclGroupEnd(void)
{
    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth > 0 || grouped.empty())
        return ncclSuccess;
    static int groups;
    for (ncclComm_t comm : grouped) {
        stop_if_told(comm, ++groups);
        comm->state = ncclComm::LAUNCHES;
        comm->questions = 0;
        begin_connecting(comm);
    }
    grouped.clear();
    return ncclInProgress;
}

static ncclResult_t add(const operation &o, ncclDataType_t type, ncclComm_t comm)
{
    if (type != ncclUint8 && type != ncclInt8)
        return fail(comm, ncclInvalidArgument, "only bytes are emulated");
    if (comm->state != ncclComm::IDLE || comm->error != ncclSuccess)
        return fail(comm, ncclInvalidArgument, "the communicator is not ready");
    if (o.peer < 0 || o.peer >= comm->size || depth == 0)
        return fail(comm, ncclInvalidArgument, "no such peer, or no group");
    if (!comm->group.empty() && comm->group[0].stream != o.stream)
        return fail(comm, ncclInvalidUsage, "one stream for a group");
    if (comm->group.empty())
        grouped.push_back(comm);
    comm->group.push_back(o);
    return ncclSuccess;
}

extern "C" ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer,
                                 ncclComm_t comm, cudaStream_t stream)
{
    return add({true, const_cast<void *>(data), count, peer, stream}, type, comm);
}

extern "C" ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                 cudaStream_t stream)
{
    return add({false, data, count, peer, stream}, type, comm);
}

/* ---- state and end ---------------------------------------------------------------------------------------------------- */

extern "C" ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    comm->questions++;
    see_deaths(comm);
    if (comm->state == ncclComm::JOINS || comm->state == ncclComm::AWAITS_TABLE)
        join(comm);
    else if (comm->state == ncclComm::LAUNCHES)
        launch(comm);
    else if (comm->state == ncclComm::LEAVES && all_done(comm->requests) &&
             comm->questions >= LEAST_QUESTIONS)
        comm->state = ncclComm::LEFT;
    bool done = comm->state == ncclComm::IDLE || comm->state == ncclComm::LEFT;
    *state = comm->error != ncclSuccess ? comm->error : done ? ncclSuccess : ncclInProgress;
    emu::pump();
    return ncclSuccess;
}

extern "C" ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    if (comm->state != ncclComm::IDLE)
        return fail(comm, ncclInvalidUsage, "the communicator has something to do");
    for (const member &m : comm->members)
        if (m.rank != comm->rank) {
            send_to(comm, m.process, LEAVING, "", 0);
            receive_from(comm, m.process, LEAVING, &comm->hello, 0);
        }
    comm->state = ncclComm::LEAVES;
    comm->questions = 0;
    return ncclInProgress;
}

extern "C" ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm->state != ncclComm::LEFT) {
        ncclResult_t rc = ncclCommFinalize(comm);
        if (rc != ncclInProgress)
            return rc;
        while (!all_done(comm->requests))
            emu::pump();
    }
    delete comm;
    return ncclSuccess;
}

/* From any thread; what streams still hold of it is done. */
extern "C" ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    *comm->aborted = true;
    return ncclSuccess;
}

extern "C" ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

extern "C" const char *ncclGetErrorString(ncclResult_t rc)
{
    static const char *const names[] = {"no error",
                                        "unhandled cuda error (run with NCCL_DEBUG=INFO)",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return rc <= ncclInProgress ? names[rc] : "unknown result code";
}

extern "C" const char *ncclGetLastError(ncclComm_t comm)
{
    return comm ? comm->reason.c_str() : "";
}
