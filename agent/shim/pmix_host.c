/* pmix_host: see the header. What was measured about the library (4.2.2) and shapes this file:
 *
 * - gds=hash always: the default keeps a process-shared mutex that a killed client leaves locked.
 * - fence_nb's data belongs to the host, whatever the header says; a reply's data must live until the release call.
 * - client_connected2 has no callback. deregister_client is never called: it leaves a dead descriptor in the library's loop.
 * - Blocking calls (NULL callback) are right on the main thread and a deadlock on the library's. */
#include "agent/shim/pmix_host.h"

#include <event2/util.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/shim/pmix_job.h"
#include "common/log.h"
#include "common/mem.h"

const int PMIX_HOST_LOST = PMIX_ERR_LOST_CONNECTION;
const int PMIX_HOST_NOT_FOUND = PMIX_ERR_NOT_FOUND;

enum call_type { CALL_CONNECTED, CALL_FINALIZED, CALL_ABORT, CALL_FENCE, CALL_MODEX, CALL_FETCHED };

struct pmix_reply {
    pmix_modex_cbfunc_t modex; /* one of the two */
    pmix_op_cbfunc_t op;
    void *cbdata;
};

struct call {
    struct call *next;
    enum call_type type;
    int64_t rank, node;
    uint64_t id;
    int status;
    char *text; /* fence key or abort message */
    void *data;
    size_t len;
    struct pmix_reply *reply;
};

struct pmix_host {
    const struct pmix_host_events *events;
    void *ctx;
    pmix_nspace_t nspace;
    char *dir, *node;
    int wake_fd;
    struct event *wake;
    bool registered;
};

/* The library's callbacks carry no context of ours, so the queue is the process's. */
static struct {
    pthread_mutex_t lock;
    struct call *first, **last;
    int wake_fd;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake_fd = -1};

/* ---- the library's thread: copy and return ---- */

static struct call *call_new(enum call_type type, int64_t rank)
{
    struct call *c = mem_zero(1, sizeof *c);
    c->type = type;
    c->rank = rank;
    return c;
}

static struct pmix_reply *reply_new(pmix_modex_cbfunc_t modex, pmix_op_cbfunc_t op, void *cbdata)
{
    struct pmix_reply *r = mem_zero(1, sizeof *r);
    *r = (struct pmix_reply){.modex = modex, .op = op, .cbdata = cbdata};
    return r;
}

static void enqueue(struct call *c)
{
    uint64_t one = 1;
    pthread_mutex_lock(&queue.lock);
    if (!queue.first)
        queue.last = &queue.first;
    *queue.last = c;
    queue.last = &c->next;
    pthread_mutex_unlock(&queue.lock);
    (void)!write(queue.wake_fd, &one,
                 sizeof one); /* fails only when the counter is full: then it is readable anyway */
}

static struct call *dequeue(void)
{
    pthread_mutex_lock(&queue.lock);
    struct call *c = queue.first;
    if (c)
        queue.first = c->next;
    pthread_mutex_unlock(&queue.lock);
    return c;
}

static pmix_status_t up_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t ninfo,
                                  pmix_op_cbfunc_t cb, void *cbdata)
{
    (void)object;
    (void)info;
    (void)ninfo;
    enqueue(call_new(CALL_CONNECTED, proc->rank));
    if (cb)
        cb(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t up_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cb, void *cbdata)
{
    (void)object;
    (void)cb;
    (void)cbdata;
    enqueue(call_new(CALL_FINALIZED, proc->rank));
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t up_abort(const pmix_proc_t *proc, void *object, int status, const char message[],
                              pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t cb, void *cbdata)
{
    (void)object;
    (void)procs;
    (void)nprocs;
    struct call *c = call_new(CALL_ABORT, proc->rank);
    c->status = status;
    c->text = str_dup(message ? message : "");
    c->reply = reply_new(NULL, cb, cbdata);
    enqueue(c);
    return PMIX_SUCCESS;
}

static int by_rank(const void *a, const void *b)
{
    const pmix_proc_t *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* "*" or the sorted ranks, "0,5,7". */
static char *fence_key(const pmix_proc_t procs[], size_t nprocs)
{
    for (size_t i = 0; i < nprocs; i++)
        if (procs[i].rank == PMIX_RANK_WILDCARD)
            return str_dup("*");
    pmix_proc_t *sorted = mem_grow(NULL, nprocs, sizeof *sorted);
    memcpy(sorted, procs, nprocs * sizeof *sorted);
    qsort(sorted, nprocs, sizeof *sorted, by_rank);
    size_t room = nprocs * 12 + 1, at = 0;
    char *key = mem_zero(room, 1);
    for (size_t i = 0; i < nprocs; i++)
        at += (size_t)snprintf(key + at, room - at, i ? ",%u" : "%u", sorted[i].rank);
    free(sorted);
    return key;
}

static pmix_status_t up_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                              size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t cb, void *cbdata)
{
    struct call *c = call_new(CALL_FENCE, -1);
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_LOCAL_COLLECTIVE_STATUS))
            c->status = info[i].value.data.status;
    c->text = fence_key(procs, nprocs);
    c->data = data;
    c->len = ndata;
    c->reply = reply_new(cb, NULL, cbdata);
    enqueue(c);
    return PMIX_SUCCESS;
}

static pmix_status_t up_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                              pmix_modex_cbfunc_t cb, void *cbdata)
{
    (void)info;
    (void)ninfo;
    struct call *c = call_new(CALL_MODEX, proc->rank);
    c->reply = reply_new(cb, NULL, cbdata);
    enqueue(c);
    return PMIX_SUCCESS;
}

static void fetched(pmix_status_t status, char *data, size_t len, void *cbdata)
{
    struct call *c = cbdata;
    c->status = status;
    if (len) {
        c->data = mem_grow(NULL, len, 1);
        memcpy(c->data, data, len);
    }
    c->len = len;
    enqueue(c);
}

static pmix_status_t up_notify(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                               pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cb, void *cbdata)
{
    (void)code;
    (void)source;
    (void)range;
    (void)info;
    (void)ninfo;
    (void)cb;
    (void)cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t up_register_events(pmix_status_t *codes, size_t ncodes, const pmix_info_t info[],
                                        size_t ninfo, pmix_op_cbfunc_t cb, void *cbdata)
{
    (void)codes;
    (void)ncodes;
    (void)info;
    (void)ninfo;
    (void)cb;
    (void)cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t up_deregister_events(pmix_status_t *codes, size_t ncodes, pmix_op_cbfunc_t cb,
                                          void *cbdata)
{
    (void)codes;
    (void)ncodes;
    (void)cb;
    (void)cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_server_module_t module = {.client_connected2 = up_connected,
                                      .client_finalized = up_finalized,
                                      .abort = up_abort,
                                      .fence_nb = up_fence,
                                      .direct_modex = up_modex,
                                      .notify_event = up_notify,
                                      .register_events = up_register_events,
                                      .deregister_events = up_deregister_events};

/* ---- the main thread ---- */

static void call_free(struct call *c)
{
    free(c->text);
    free(c->data);
    free(c->reply);
    free(c);
}

static void handle(struct pmix_host *h, struct call *c)
{
    switch (c->type) {
    case CALL_CONNECTED:
        h->events->connected(h->ctx, c->rank);
        break;
    case CALL_FINALIZED:
        h->events->finalized(h->ctx, c->rank);
        break;
    case CALL_ABORT:
        h->events->aborted(h->ctx, c->rank, c->status, c->text, c->reply);
        break;
    case CALL_FENCE:
        h->events->fence(h->ctx, c->text, c->status, c->data, c->len, c->reply);
        break;
    case CALL_MODEX:
        h->events->modex(h->ctx, c->rank, c->reply);
        break;
    case CALL_FETCHED:
        h->events->fetched(h->ctx, c->node, c->id, c->status, c->data, c->len);
        break;
    }
    c->reply = NULL; /* the event took it over */
    call_free(c);
}

void pmix_host_drain(struct pmix_host *h)
{
    for (struct call *c; (c = dequeue());)
        handle(h, c);
}

static void woken(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    uint64_t count;
    (void)!read(fd, &count, sizeof count);
    pmix_host_drain(arg);
}

static void release(void *data)
{
    free(data);
}

void pmix_reply_send(struct pmix_reply *reply, int status, void *data, size_t len)
{
    if (reply->modex)
        reply->modex(status, data, len, reply->cbdata, release, data);
    else
        free(data);
    if (reply->op)
        reply->op(status, reply->cbdata);
    free(reply);
}

static int pmix_failed(struct err *err, const char *what, pmix_status_t rc)
{
    return err_set(err, "the PMIx server failed to %s: %s", what, PMIx_Error_string(rc));
}

static bool ok(pmix_status_t rc)
{
    return rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED;
}

struct pmix_host *pmix_host_start(struct event_base *base, const struct pmix_host_config *config,
                                  const struct pmix_host_events *events, void *ctx, struct err *err)
{
    setenv("PMIX_MCA_gds", "hash", 1);
    struct pmix_host *h = mem_zero(1, sizeof *h);
    *h = (struct pmix_host){
        .events = events, .ctx = ctx, .dir = str_dup(config->dir), .node = str_dup(config->node)};
    snprintf(h->nspace, sizeof h->nspace, "%s", config->nspace);
    h->wake_fd = queue.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    void *list = PMIx_Info_list_start();
    pmix_rank_t rank = (pmix_rank_t)config->node_rank;
    PMIx_Info_list_add(list, PMIX_SERVER_NSPACE, "belay-shim", PMIX_STRING);
    PMIx_Info_list_add(list, PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    PMIx_Info_list_add(list, PMIX_SERVER_TMPDIR, config->dir, PMIX_STRING);
    PMIx_Info_list_add(list, PMIX_SYSTEM_TMPDIR, config->dir, PMIX_STRING);
    PMIx_Info_list_add(list, PMIX_HOSTNAME, config->node, PMIX_STRING);
    pmix_data_array_t info;
    pmix_status_t rc = PMIx_Info_list_convert(list, &info);
    PMIx_Info_list_release(list);
    if (ok(rc)) {
        rc = PMIx_server_init(&module, info.array, info.size);
        PMIX_DATA_ARRAY_DESTRUCT(&info);
    }
    if (!ok(rc) || h->wake_fd < 0) {
        pmix_failed(err, "start", rc);
        close(h->wake_fd);
        free(h->dir);
        free(h->node);
        free(h);
        return NULL;
    }
    h->wake = event_new(base, h->wake_fd, EV_READ | EV_PERSIST, woken, h);
    event_add(h->wake, NULL);
    return h;
}

int pmix_host_register(struct pmix_host *h, const struct link_order *order, uid_t uid, gid_t gid,
                       struct err *err)
{
    if (strcmp(h->node, order->map[order->node_rank].node) != 0)
        return err_set(err, "this shim was started on node %s, but the go order calls it %s", h->node,
                       order->map[order->node_rank].node);
    void *list = pmix_job_describe(order, h->nspace, h->dir);
    pmix_data_array_t info;
    pmix_status_t rc = PMIx_Info_list_convert(list, &info);
    PMIx_Info_list_release(list);
    if (ok(rc)) {
        rc = PMIx_server_register_nspace(h->nspace, (int)order->n_ranks, info.array, info.size, NULL, NULL);
        PMIX_DATA_ARRAY_DESTRUCT(&info);
    }
    if (!ok(rc))
        return pmix_failed(err, "register the job", rc);
    h->registered = true;
    for (size_t i = 0; i < order->n_ranks; i++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, h->nspace, (pmix_rank_t)order->ranks[i].rank);
        rc = PMIx_server_register_client(&proc, uid, gid, NULL, NULL, NULL);
        if (!ok(rc))
            return pmix_failed(err, "register a rank", rc);
    }
    return 0;
}

int pmix_host_env(struct pmix_host *h, int64_t rank, char ***env, struct err *err)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, h->nspace, (pmix_rank_t)rank);
    pmix_status_t rc = PMIx_server_setup_fork(&proc, env);
    return ok(rc) ? 0 : pmix_failed(err, "make the environment of a rank", rc);
}

void pmix_host_fetch(struct pmix_host *h, int64_t rank, int64_t node, uint64_t id)
{
    struct call *c = call_new(CALL_FETCHED, rank);
    c->node = node;
    c->id = id;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, h->nspace, (pmix_rank_t)rank);
    pmix_status_t rc = h->registered ? PMIx_server_dmodex_request(&proc, fetched, c) : PMIX_ERR_NOT_FOUND;
    if (rc != PMIX_SUCCESS) {
        c->status = rc;
        enqueue(c);
    }
}

void pmix_host_end_job(struct pmix_host *h)
{
    if (h->registered)
        PMIx_server_deregister_nspace(h->nspace, NULL, NULL);
    h->registered = false;
}

void pmix_host_stop(struct pmix_host *h)
{
    if (!h)
        return;
    pmix_host_end_job(h);
    pmix_status_t rc = PMIx_server_finalize();
    if (!ok(rc))
        log_warn("the PMIx server did not stop cleanly: %s", PMIx_Error_string(rc));
    for (struct call *c; (c = dequeue());)
        call_free(c); /* whoever waited for an answer is gone with the library */
    event_free(h->wake);
    close(h->wake_fd);
    queue.wake_fd = -1;
    free(h->dir);
    free(h->node);
    free(h);
}
