/* prepare: each step either succeeds or leaves a sentence; nothing here needs PMIx or the event loop. What depends on the
 * user's rights (working directory, program) is looked at by a short-lived child that has become that user. */
#include "agent/shim/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shim/rank_env.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/proctree.h"

#define PORT_FIRST       20000
#define PORT_COUNT       10000
#define PORTS_AN_ATTEMPT 16
#define PATH_FALLBACK    "/usr/local/bin:/usr/bin:/bin"

extern char **environ;

/* ---- the user's view ---- */

static bool runnable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* belay-train is the one that was installed with this shim. NULL when it is not there. */
static char *beside_shim(const char *name)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
    if (!slash)
        return NULL;
    char *path = str_printf("%.*s/%s", (int)(slash - self), self, name);
    if (runnable(path))
        return path;
    free(path);
    return NULL;
}

static char *search_path(const char *name, const char *path)
{
    for (const char *at = path; at;) {
        const char *colon = strchr(at, ':');
        size_t len = colon ? (size_t)(colon - at) : strlen(at);
        char *full = len ? str_printf("%.*s/%s", (int)len, at, name) : str_printf("./%s", name);
        if (runnable(full))
            return full;
        free(full);
        at = colon ? colon + 1 : NULL;
    }
    return NULL;
}

/* Absolute path of the program, or NULL with a sentence. Called in the job's working directory as the job's user. */
static char *find_program(const char *name, const char *path, struct err *err)
{
    char *found = NULL;
    if (strchr(name, '/'))
        found = runnable(name) ? str_dup(name) : NULL;
    else if (strcmp(name, "belay-train") == 0)
        found = beside_shim(name);
    if (!found && !strchr(name, '/'))
        found = search_path(name, path);
    if (!found && strchr(name, '/'))
        err_sys(err, "cannot run the job's program %s (is it there, and executable for the job's user?)",
                name);
    else if (!found)
        err_set(err, "cannot find the job's program %s in PATH (%s)", name, path);
    char *absolute = found ? realpath(found, NULL) : NULL;
    bool keep_name =
        found && found[0] == '/'; /* a symbolic link's own name matters to programs such as busybox */
    if (keep_name) {
        free(absolute);
        return found;
    }
    free(found);
    return absolute;
}

static char *look_as_user(const struct prepared *p, const struct link_order *order, const char *path,
                          struct err *err)
{
    if (identity_assume(&p->who) != 0) {
        err_sys(err, "cannot become the job's user (uid %d)", (int)p->who.uid);
        return NULL;
    }
    if (chdir(order->cwd) != 0) {
        err_sys(
            err,
            "cannot enter the job's working directory %s as uid %d (does this node see that file system?)",
            order->cwd, (int)p->who.uid);
        return NULL;
    }
    return find_program(order->argv[0], path, err);
}

/* The child of probe_as_user: answers "+path" or "-sentence". */
static void answer_probe(int fd, const struct prepared *p, const struct link_order *order, const char *path)
{
    struct err err = {""};
    char *found = look_as_user(p, order, path, &err);
    (void)!write(fd, found ? "+" : "-", 1);
    const char *text = found ? found : err.text;
    (void)fs_write_all(fd, text, strlen(text)); /* if this fails the parent sees an empty answer */
    _exit(0);
}

static int probe_as_user(struct prepared *p, const struct link_order *order, struct err *err)
{
    int pipe_fds[2];
    char **env = rank_env_inherit(p->inherited, p->who.change);
    rank_env_apply_job(&env, order);
    const char *path = envlist_get(env, "PATH");
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        envlist_free(env);
        return err_sys(err, "cannot make a pipe");
    }
    pid_t pid = fork();
    if (pid == 0)
        answer_probe(pipe_fds[1], p, order, path ? path : PATH_FALLBACK);
    close(pipe_fds[1]);
    char answer[4200];
    size_t len = 0;
    ssize_t n;
    while (pid > 0 && len < sizeof answer - 1 &&
           (n = read(pipe_fds[0], answer + len, sizeof answer - 1 - len)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    close(pipe_fds[0]);
    envlist_free(env);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    if (len < 2 || answer[0] != '+')
        return err_set(err, "%s",
                       len > 1 ? answer + 1 : "cannot look at the job's working directory and program");
    p->program = str_dup(answer + 1);
    return 0;
}

/* ---- folders ---- */

static int give_to_user(const struct prepared *p, const char *path, struct err *err)
{
    if (p->who.change && chown(path, p->who.uid, p->who.gid) != 0)
        return err_sys(err, "cannot give %s to uid %d", path, (int)p->who.uid);
    return 0;
}

static int make_scratch(struct prepared *p, const struct link_order *order, struct err *err)
{
    if (mkdir(p->scratch, 0700) != 0)
        return err_sys(err, "cannot make the scratch directory %s", p->scratch);
    if (give_to_user(p, p->scratch, err) != 0)
        return -1;
    p->notify_socket = str_printf("%s/notify", p->scratch);
    p->memory_socket = order->memory_tier ? str_printf("%s/memory", p->scratch) : NULL;
    p->pmix_dir = str_printf("%s/pmix", p->scratch);
    p->job_file = str_printf("%s/job.yaml", p->scratch);
    if (mkdir(p->pmix_dir, 0700) != 0)
        return err_sys(err, "cannot make %s", p->pmix_dir);
    if (give_to_user(p, p->pmix_dir, err) != 0)
        return -1;
    const char *spec = order->spec ? order->spec : "";
    if (fs_write_durable(p->job_file, spec, strlen(spec), 0600, err) != 0)
        return -1;
    return give_to_user(p, p->job_file, err);
}

/* <agent dir>/attempts/<job>.<attempt> -> <agent dir>/logs/<job>/<attempt> */
static int make_log_dir(struct prepared *p, const struct link_order *order, const char *attempt_dir,
                        struct err *err)
{
    const char *end = strrchr(attempt_dir, '/');
    const char *agent_end = end ? memrchr(attempt_dir, '/', (size_t)(end - attempt_dir)) : NULL;
    if (!agent_end)
        return err_set(err, "the attempt directory %s is not <agent dir>/attempts/<job>.<attempt>",
                       attempt_dir);
    p->log_dir = str_printf("%.*s/logs/%lld/%lld", (int)(agent_end - attempt_dir), attempt_dir,
                            (long long)order->job, (long long)order->attempt);
    if (fs_mkdirs(p->log_dir, 0700, err) != 0)
        return -1;
    if (access(p->log_dir, W_OK | X_OK) != 0)
        return err_sys(err, "cannot write to the log folder %s", p->log_dir);
    return 0;
}

/* ---- MASTER_PORT ---- */

int64_t prepare_master_port(int64_t job, int64_t attempt, int i)
{
    uint64_t base = (uint64_t)job * 2654435761u + (uint64_t)attempt * PORTS_AN_ATTEMPT + (uint64_t)i;
    return PORT_FIRST + (int64_t)(base % PORT_COUNT);
}

static int bind_port(int64_t port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Held until just before exec, so that no other attempt on this host gets the same one. */
static int choose_master_port(struct prepared *p, const struct link_order *order, struct err *err)
{
    if (order->node_rank != 0)
        return 0;
    for (int i = 0; i < PORT_COUNT; i++) {
        p->master_port = prepare_master_port(order->job, order->attempt, i);
        p->master_fd = bind_port(p->master_port);
        if (p->master_fd >= 0)
            return 0;
    }
    return err_sys(err, "no port from %d to %d is free for MASTER_PORT", PORT_FIRST,
                   PORT_FIRST + PORT_COUNT - 1);
}

/* ---- all of it ---- */

static void make_cgroup(struct prepared *p, const struct link_order *order)
{
    struct err err = {""};
    char *name = str_printf("belay-%lld.%lld.%lld-%s", (long long)order->job, (long long)order->attempt,
                            (long long)order->node_rank, order->token); /* pretend nodes share a host */
    p->cgroup = proctree_cgroup_make(name, &err);
    if (!p->cgroup)
        log_info("no cgroup for this attempt, its processes are found by descent and token: %s", err.text);
    free(name);
}

int prepare(const struct link_order *order, const char *attempt_dir, const char *scratch,
            struct prepared *out, struct err *err)
{
    *out = (struct prepared){.master_fd = -1, .scratch = str_dup(scratch)};
    if (!order->argv || !order->argv[0])
        return err_set(err, "the order has no command");
    if (!order->cwd || order->cwd[0] != '/')
        return err_set(err, "the job's working directory is not an absolute path: %s",
                       order->cwd ? order->cwd : "(none)");
    if (identity_init(&out->who, (long)order->uid, (long)order->gid, err) != 0)
        return -1;
    out->inherited = rank_env_inherit(environ, out->who.change);
    if (make_log_dir(out, order, attempt_dir, err) != 0 || probe_as_user(out, order, err) != 0 ||
        make_scratch(out, order, err) != 0 || choose_master_port(out, order, err) != 0)
        return -1;
    make_cgroup(out, order);
    return 0;
}

static void remove_scratch(const char *scratch)
{
    struct err err = {""};
    if (scratch && fs_remove_tree(scratch, &err) != 0)
        log_warn("the scratch directory stays: %s", err.text);
}

void prepared_clear(struct prepared *p)
{
    remove_scratch(p->scratch);
    proctree_cgroup_remove(p->cgroup);
    if (p->master_fd >= 0)
        close(p->master_fd);
    identity_clear(&p->who);
    envlist_free(p->inherited);
    char *strings[] = {p->scratch,  p->job_file, p->notify_socket, p->memory_socket,
                       p->pmix_dir, p->log_dir,  p->cgroup,        p->program};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        free(strings[i]);
    *p = (struct prepared){.master_fd = -1};
}
