/* leftovers: see leftovers.h. A process is signalled only when its start time and boot id are the recorded ones. */
#include "launcher/leftovers.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "common/procid.h"
#include "common/proctree.h"

#define FILE_LIMIT                                                                                           \
    (32u << 20) /* order.json of a large attempt is about 0.5 MiB; as LINK_LINE_MAX and then some */

static json_t *read_json(const char *attempt, const char *name)
{
    char *path = str_printf("%s/%s", attempt, name);
    json_t *obj = jsonx_read_file(path, FILE_LIMIT, NULL);
    free(path);
    return obj;
}

static size_t kill_attempt(const char *attempt, pid_t *pid)
{
    json_t *order = read_json(attempt, "order.json"), *state = read_json(attempt, "state.json");
    struct procid shim = {.pid = 0};
    bool alive = procid_from_json(json_object_get(state, "shim"), &shim) == 0 && procid_alive(&shim);
    struct proctree tree = {.cgroup = jsonx_str_or(state, "cgroup", NULL),
                            .token = jsonx_str_or(order, "token", NULL),
                            .root = alive ? shim.pid : 0};
    pid_t *pids = NULL;
    size_t n = tree.token ? proctree_list(&tree, &pids) : 0;
    if (n > 0)
        proctree_signal(&tree, SIGKILL);
    else if (alive)
        procid_kill(&shim,
                    SIGKILL); /* only after its ranks, so that none is left without a parent that knows it */
    if (n + alive > 0 && pid)
        *pid = n ? pids[0] : shim.pid;
    free(pids);
    json_decref(order);
    json_decref(state);
    return n + alive;
}

size_t leftovers_kill(const char *agent_dir, pid_t *pid)
{
    char *path = str_printf("%s/attempts", agent_dir);
    DIR *dir = opendir(path);
    size_t found = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) { // NOLINT(concurrency-mt-unsafe)
        if (e->d_name[0] == '.')
            continue;
        char *attempt = str_printf("%s/%s", path, e->d_name);
        found += kill_attempt(attempt, pid);
        free(attempt);
    }
    if (dir)
        closedir(dir);
    free(path);
    return found;
}
