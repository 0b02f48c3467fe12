/* wire: what a rank tells others before a transport reaches them, through the launcher's PMIx server (belay-shim's or mpirun's).
 *
 * A rank puts a value under a key, and others ask for it until it is there. Keys belong to the rank that put them and to the launcher's namespace, which is new with
 * each start of a run: what an earlier one left is not found. A request is answered in a thread of PMIx; one for a key that is not there yet fails, at
 * once or after PMIX_TIMEOUT, and is made again. Every second one goes past what the server keeps of the rank, which may have put more since; of a rank on
 * its own node it keeps all, and some servers have no other answer. Open MPI in this process has its own reference to PMIx. */
#include <pmix.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "runtime/comm/comm_private.h"

#define ASK_TIMEOUT_S 5    /* of one request */
#define ASK_AGAIN_S   0.02 /* after a request that failed */

struct comm_get {
    pmix_proc_t from;
    char key[PMIX_MAX_KEYLEN + 1];
    _Atomic int state;
    double again; /* when to ask again */
    bool refresh;
    pmix_info_t info[2]; /* PMIx reads it until it answers */
    void *data;
    size_t bytes;
};
enum { GET_ASKED, GET_HERE, GET_FAILED };

static pmix_proc_t self;

static int failed(struct err *err, const char *what, pmix_status_t rc)
{
    return err_set(err, "%s failed: %s; the launcher (belay-shim or mpirun) may be gone", what,
                   PMIx_Error_string(rc));
}

static int wire_put(const char *key, const void *data, size_t bytes, struct err *err)
{
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)(uintptr_t)data; /* only read */
    value.data.bo.size = bytes;
    pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (rc != PMIX_SUCCESS)
        return failed(err, "PMIx_Put", rc);
    rc = PMIx_Commit();
    return rc == PMIX_SUCCESS ? 0 : failed(err, "PMIx_Commit", rc);
}

/* In a thread of PMIx. */
static void answered(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct comm_get *get = arg;
    if (status != PMIX_SUCCESS || !value || value->type != PMIX_BYTE_OBJECT) {
        atomic_store(&get->state, GET_FAILED);
        return;
    }
    get->bytes = value->data.bo.size;
    get->data = mem_grow(NULL, get->bytes + 1, 1);
    memcpy(get->data, value->data.bo.bytes, get->bytes);
    atomic_store(&get->state, GET_HERE);
}

static void ask(struct comm_get *get)
{
    int timeout = ASK_TIMEOUT_S;
    PMIX_INFO_LOAD(&get->info[0], PMIX_TIMEOUT, &timeout, PMIX_INT);
    PMIX_INFO_LOAD(&get->info[1], PMIX_GET_REFRESH_CACHE, &get->refresh, PMIX_BOOL);
    get->refresh = !get->refresh;
    atomic_store(&get->state, GET_ASKED);
    get->again = clock_monotonic_s() + ASK_AGAIN_S;
    if (PMIx_Get_nb(&get->from, get->key, get->info, 2, answered, get) != PMIX_SUCCESS)
        atomic_store(&get->state, GET_FAILED);
}

static struct comm_get *wire_get(int rank, const char *key)
{
    struct comm_get *get = mem_zero(1, sizeof *get);
    PMIX_LOAD_PROCID(&get->from, self.nspace, (pmix_rank_t)rank);
    PMIX_LOAD_KEY(get->key, key);
    ask(get);
    return get;
}

static bool wire_got(struct comm_get *get, void *data, size_t bytes)
{
    int state = atomic_load(&get->state);
    if (state == GET_FAILED && clock_monotonic_s() >= get->again)
        ask(get);
    if (state != GET_HERE)
        return false;
    memset(data, 0, bytes);
    memcpy(data, get->data, get->bytes < bytes ? get->bytes : bytes);
    free(get->data);
    free(get);
    return true;
}

static const struct comm_wire wire = {wire_put, wire_get, wire_got};

const struct comm_wire *wire_open(int rank, struct err *err)
{
    pmix_status_t rc = PMIx_Init(&self, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        (void)failed(err, "PMIx_Init", rc);
        return NULL;
    }
    if (self.rank == (pmix_rank_t)rank)
        return &wire;
    wire_close();
    (void)err_set(err, "rank %d of MPI is rank %u of PMIx; start all ranks with one mpirun or belay job",
                  rank, (unsigned)self.rank);
    return NULL;
}

void wire_close(void)
{
    (void)PMIx_Finalize(NULL, 0); /* one reference of two: there is nobody to tell */
}
