/* leftovers: see leftovers.h. A process is signalled only when its start time and boot id are the recorded ones. */
#include "launcher/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "common/procid.h"
#include "common/proctree.h"
#include "common/scratch.h"
#include "launcher/args.h"

#define FILE_LIMIT                                                                                           \
    (32u << 20) /* order.json of a large attempt is about 0.5 MiB; as LINK_LINE_MAX and then some */
#define LOCK_WAIT_MS 1000
#define LOCK_POLL_NS 2000000

int leftovers_lock(const char *agent_dir)
{
    char *path = str_printf("%s/agent.lock", agent_dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int64_t end = clock_boot_ms() + LOCK_WAIT_MS;
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && clock_boot_ms() < end)
        nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_NS}, NULL);
    free(path);
    return fd;
}

/* What the files of one attempt say. */
struct attempt {
    const char *name; /* "7.2" */
    json_t *order, *state;
    struct procid shim;
    bool alive;
};

static json_t *read_json(const char *path, const char *name)
{
    char *file = str_printf("%s/%s", path, name);
    json_t *obj = jsonx_read_file(file, FILE_LIMIT, NULL);
    free(file);
    return obj;
}

/* shim.pid is there before the shim is, state.json only once it has begun. */
static void read_shim(const char *path, struct attempt *a)
{
    char *file = str_printf("%s/shim.pid", path);
    bool known = procid_read_file(file, &a->shim, NULL) == 0 ||
                 procid_from_json(json_object_get(a->state, "shim"), &a->shim) == 0;
    a->alive = known && procid_alive(&a->shim);
    free(file);
}

static void attempt_read(struct attempt *a, const char *path)
{
    *a = (struct attempt){.name = strrchr(path, '/') + 1};
    a->order = read_json(path, "order.json");
    a->state = read_json(path, "state.json");
    read_shim(path, a);
}

static void attempt_clear(struct attempt *a)
{
    json_decref(a->order);
    json_decref(a->state);
}

static size_t end_kindly(const struct attempt *a, pid_t *pid)
{
    if (!a->alive || procid_kill(&a->shim, SIGTERM) != 0)
        return 0;
    *pid = a->shim.pid;
    return 1;
}

/* The shim only after its ranks, so that none is left without a parent that knows it. */
static size_t end_hard(const struct attempt *a, const char *node, pid_t *pid)
{
    struct proctree tree = {.cgroup = jsonx_str_or(a->state, "cgroup", NULL),
                            .token = jsonx_str_or(a->order, "token", jsonx_str_or(a->state, "token", NULL)),
                            .node = node,
                            .root = a->alive ? a->shim.pid : 0};
    pid_t *pids = NULL;
    size_t n = tree.token || tree.cgroup || tree.root ? proctree_list(&tree, &pids) : 0;
    if (n > 0)
        proctree_signal(&tree, SIGKILL);
    else if (a->alive)
        procid_kill(&a->shim, SIGKILL);
    if (n + a->alive > 0)
        *pid = n ? pids[0] : a->shim.pid;
    free(pids);
    return n + a->alive;
}

static void clean(const struct attempt *a)
{
    const char *scratch = jsonx_str_or(a->state, "scratch", NULL),
               *cgroup = jsonx_str_or(a->state, "cgroup", NULL);
    struct err err;
    if (scratch && scratch_is_of(scratch, a->name) && fs_remove_tree(scratch, &err) != 0)
        cli_fail(CLI_REFUSED, "down: %s", err.text);
    proctree_cgroup_remove(cgroup);
}

enum task { END_KINDLY, END_HARD, CLEAN };

static size_t each_attempt(const char *agent_dir, enum task task, pid_t *pid)
{
    char *path = str_printf("%s/attempts", agent_dir);
    DIR *dir = opendir(path);
    size_t found = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) { // NOLINT(concurrency-mt-unsafe)
        if (e->d_name[0] == '.')
            continue;
        char *folder = str_printf("%s/%s", path, e->d_name);
        struct attempt a;
        attempt_read(&a, folder);
        if (task == END_KINDLY)
            found += end_kindly(&a, pid);
        else if (task == END_HARD)
            found += end_hard(&a, strrchr(agent_dir, '/') + 1, pid);
        else
            clean(&a);
        attempt_clear(&a);
        free(folder);
    }
    if (dir)
        closedir(dir);
    free(path);
    return found;
}

size_t leftovers_end(const char *agent_dir, bool kindly, pid_t *pid)
{
    return each_attempt(agent_dir, kindly ? END_KINDLY : END_HARD, pid);
}

void leftovers_clean(const char *agent_dir)
{
    pid_t ignored;
    (void)each_attempt(agent_dir, CLEAN, &ignored); /* it counts nothing */
}
