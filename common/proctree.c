/* proctree: see the header for what belongs to an attempt.
 *
 * One scan reads /proc once: parent, state and start time of every process, then the members of the cgroup, then (only for
 * processes not yet known to belong) their environment. A process can fork while /proc is being read, so one quiet scan
 * proves nothing: signalling goes on until a scan finds nobody new, and an empty list is believed only twice in a row.
 * Signals go through a pidfd whose start time is compared after opening, so a reused pid is never hit.
 *
 * A process that does nothing but fork and exit is somebody else at each look. Its process group is what stays, and the kernel
 * signals a group in one step with respect to fork; so SIGKILL also goes to the groups of the caller's own children. Those it
 * has not reaped yet keep the number of their group from being used again. */
#include "common/proctree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"

#define ENVIRON_MAX                                                                                          \
    (4u << 20) /* bytes of one environment that are looked at; the kernel's own limit is 6 MiB for all */
#define SIGNAL_ROUNDS                                                                                        \
    64 /* scans at most in one proctree_signal; the caller comes back if something still forks */
#define CGROUP_DEPTH 8 /* sub-cgroups that a rank may have made */
#define REMOVE_TRIES                                                                                         \
    100 /* 2 ms apart: a killed process leaves its cgroup a moment after it is gone from /proc */

enum belongs { BELONGS_UNKNOWN, BELONGS_YES, BELONGS_NO };

struct entry {
    pid_t pid, ppid, group;
    uint64_t start;
    bool living;
    enum belongs belongs;
};

struct scan {
    struct entry *entries; /* by pid */
    size_t count, room;
    char *environ_text; /* reused for each process */
    size_t environ_room;
};

static bool is_number(const char *s)
{
    for (; *s; s++)
        if (!isdigit((unsigned char)*s))
            return false;
    return true;
}

/* Reads /proc/PID/NAME into buf, NUL-terminated; bytes or -1. */
static ssize_t read_proc(pid_t pid, const char *name, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t len = 0;
    ssize_t n = 0;
    while (len + 1 < size && (n = read(fd, buf + len, size - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    buf[len] = '\0';
    return n < 0 && len == 0 ? -1 : (ssize_t)len;
}

/* Fills e from /proc/PID/stat. A dead main thread whose other threads still run is a living process. */
static int read_entry(pid_t pid, struct entry *e)
{
    char text[1024];
    if (read_proc(pid, "stat", text, sizeof text) <= 0)
        return -1;
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    char state;
    int ppid, group;
    long threads;
    unsigned long long start;
    if (!rest || sscanf(rest + 1, /* NOLINT(cert-err34-c): the kernel writes this line */
                        " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
                        &state, &ppid, &group, &threads, &start) != 5)
        return -1;
    bool dead = state == 'Z' || state == 'X' || state == 'x';
    *e = (struct entry){.pid = pid,
                        .ppid = ppid,
                        .group = group,
                        .start = start,
                        .living = !dead || (state == 'Z' && threads > 1)};
    return 0;
}

static int by_pid(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct entry *find_entry(const struct scan *s, pid_t pid)
{
    struct entry key = {.pid = pid};
    return s->count ? bsearch(&key, s->entries, s->count, sizeof key, by_pid) : NULL;
}

static void scan_add(struct scan *s, const struct entry *e)
{
    s->entries = mem_one_more(s->entries, s->count, &s->room, sizeof *s->entries);
    s->entries[s->count++] = *e;
}

static void scan_processes(struct scan *s)
{
    s->count = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return;
    for (struct dirent *d; (d = readdir(dir));) {
        struct entry e;
        if (is_number(d->d_name) && read_entry((pid_t)strtol(d->d_name, NULL, 10), &e) == 0)
            scan_add(s, &e);
    }
    closedir(dir);
    if (s->count)
        qsort(s->entries, s->count, sizeof *s->entries, by_pid);
}

/* Climbs from e towards `root`; everything on the way gets the answer too. */
static bool descends(const struct scan *s, struct entry *e, pid_t root)
{
    enum belongs answer = BELONGS_UNKNOWN;
    struct entry *at = e;
    for (size_t steps = 0; answer == BELONGS_UNKNOWN; steps++) {
        if (at->belongs != BELONGS_UNKNOWN)
            answer = at->belongs;
        else if (at->ppid == root)
            answer = BELONGS_YES;
        else if (at->pid <= 1 || at->ppid <= 1 || steps > s->count || !(at = find_entry(s, at->ppid)))
            answer = BELONGS_NO;
    }
    for (at = e; at && at->belongs == BELONGS_UNKNOWN && at->pid != root; at = find_entry(s, at->ppid))
        at->belongs = answer;
    return answer == BELONGS_YES;
}

/* The environment of a process into s->environ_text; bytes or -1. */
static ssize_t read_environ(struct scan *s, pid_t pid)
{
    for (;;) {
        if (!s->environ_text) {
            s->environ_room = s->environ_room ? s->environ_room : 16384;
            s->environ_text = mem_grow(NULL, s->environ_room, 1);
        }
        ssize_t len = read_proc(pid, "environ", s->environ_text, s->environ_room);
        if (len < (ssize_t)s->environ_room - 1 || s->environ_room >= ENVIRON_MAX)
            return len;
        free(s->environ_text);
        s->environ_text = NULL;
        s->environ_room *= 4;
    }
}

/* The value of `name` (which ends in '=') among the strings of text, or NULL. */
static const char *find_value(const char *text, size_t len, const char *name)
{
    size_t name_len = strlen(name);
    for (const char *at = text; at < text + len; at += strlen(at) + 1) /* read_proc put a NUL at the end */
        if (strncmp(at, name, name_len) == 0)
            return at + name_len;
    return NULL;
}

static bool carries_token(struct scan *s, const struct proctree *t, pid_t pid)
{
    ssize_t len = read_environ(s, pid);
    const char *token = len > 0 ? find_value(s->environ_text, (size_t)len, "BELAY_TOKEN=") : NULL;
    if (!token || strcmp(token, t->token) != 0)
        return false;
    const char *node = t->node ? find_value(s->environ_text, (size_t)len, "BELAY_NODE=") : NULL;
    return !node || strcmp(node, t->node) == 0;
}

/* Marks the processes listed in DIR/cgroup.procs and in the cgroups below. */
static void mark_cgroup(struct scan *s, const char *path, int depth)
{
    char *procs = str_printf("%s/cgroup.procs", path);
    FILE *f = fopen(procs, "re");
    free(procs);
    char line[32];
    while (f && fgets(line, sizeof line, f)) {
        struct entry *e = find_entry(s, (pid_t)strtol(line, NULL, 10));
        if (e)
            e->belongs = BELONGS_YES;
    }
    if (f)
        fclose(f);
    DIR *dir = depth < CGROUP_DEPTH ? opendir(path) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (d->d_type != DT_DIR || d->d_name[0] == '.')
            continue;
        char *below = str_printf("%s/%s", path, d->d_name);
        mark_cgroup(s, below, depth + 1);
        free(below);
    }
    if (dir)
        closedir(dir);
}

static bool protected_pid(const struct proctree *t, pid_t pid)
{
    return pid <= 1 || pid == getpid() || pid == t->root;
}

/* Marks who belongs to the attempt by descent or cgroup. */
static void scan_marked(const struct proctree *t, struct scan *s)
{
    scan_processes(s);
    if (t->root > 1)
        for (size_t i = 0; i < s->count; i++)
            descends(s, &s->entries[i], t->root);
    if (t->cgroup)
        mark_cgroup(s, t->cgroup, 0);
}

/* Leaves the living members only. */
static void keep_members(const struct proctree *t, struct scan *s)
{
    bool by_token = t->token && *t->token;
    /* nothing older than the shim can carry its attempt's token: on a busy host that spares most of the reading */
    const struct entry *root = t->root > 1 ? find_entry(s, t->root) : NULL;
    uint64_t since = root ? root->start : 0;
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct entry *e = &s->entries[i];
        if (!e->living || protected_pid(t, e->pid))
            continue;
        if (e->belongs == BELONGS_YES || (by_token && e->start >= since && carries_token(s, t, e->pid)))
            s->entries[kept++] = *e;
    }
    s->count = kept;
}

static void scan_members(const struct proctree *t, struct scan *s)
{
    scan_marked(t, s);
    keep_members(t, s);
}

/* See the top: dead children count as well. */
static void kill_groups(const struct proctree *t, const struct scan *s)
{
    if (t->root != getpid())
        return;
    for (size_t i = 0; i < s->count; i++)
        if (s->entries[i].ppid == t->root && s->entries[i].group > 1 && s->entries[i].group != getpgrp())
            (void)kill(-s->entries[i].group, SIGKILL); /* ESRCH: nobody is left in it */
}

static void scan_clear(struct scan *s)
{
    free(s->entries);
    free(s->environ_text);
    *s = (struct scan){0};
}

size_t proctree_list(const struct proctree *t, pid_t **pids)
{
    struct scan s = {0};
    scan_members(t, &s);
    if (s.count == 0)
        scan_members(t, &s);
    size_t n = s.count;
    *pids = mem_zero(n + 1, sizeof **pids);
    for (size_t i = 0; i < n; i++)
        (*pids)[i] = s.entries[i].pid;
    scan_clear(&s);
    return n;
}

/* 0 when it was sent to exactly that process. */
static int send_signal(const struct entry *e, int sig)
{
    int fd = pidfd_open(e->pid, 0);
    if (fd < 0)
        return -1;
    struct entry now;
    int rc =
        read_entry(e->pid, &now) == 0 && now.start == e->start ? pidfd_send_signal(fd, sig, NULL, 0) : -1;
    close(fd);
    return rc;
}

static void cgroup_kill(const char *cgroup)
{
    char *path = str_printf("%s/cgroup.kill", cgroup);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    free(path);
    if (fd < 0)
        return; /* the processes are killed one by one as well */
    (void)!write(fd, "1", 1);
    close(fd);
}

static bool was_signalled(const struct scan *done, const struct entry *e)
{
    for (size_t i = 0; i < done->count; i++)
        if (done->entries[i].pid == e->pid && done->entries[i].start == e->start)
            return true;
    return false;
}

size_t proctree_signal(const struct proctree *t, int sig)
{
    struct scan found = {0}, done = {0};
    size_t fresh = 1;
    for (int round = 0; fresh > 0 && round < SIGNAL_ROUNDS; round++) {
        fresh = 0;
        scan_marked(t, &found);
        if (sig == SIGKILL)
            kill_groups(t, &found);
        keep_members(t, &found); /* before cgroup.kill, so that those are counted too */
        if (sig == SIGKILL && t->cgroup)
            cgroup_kill(t->cgroup);
        for (size_t i = 0; i < found.count; i++) {
            if (was_signalled(&done, &found.entries[i]))
                continue;
            (void)send_signal(&found.entries[i], sig); /* fails only when it is gone already */
            scan_add(&done, &found.entries[i]);
            fresh++;
        }
    }
    size_t n = done.count;
    scan_clear(&found);
    scan_clear(&done);
    return n;
}

/* ---- cgroup v2 ---- */

/* The caller's own path in the v2 hierarchy ("/a/b"), or NULL. Caller frees. */
static char *own_cgroup(void)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[4096], *path = NULL;
    while (f && !path && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0)
            path = str_dup(line + 3);
    }
    if (f)
        fclose(f);
    return path;
}

/* Where the first cgroup2 file system is mounted, or NULL. Caller frees. */
static char *cgroup2_mount(void)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[4096], point[2048], *found = NULL;
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *type = strstr(line, " - ");
        if (type && strncmp(type + 3, "cgroup2 ", 8) == 0 &&
            sscanf(line, "%*s %*s %*s %*s %2047s", point) == 1) /* id parent device root point */
            found = str_dup(point);
    }
    if (f)
        fclose(f);
    return found;
}

static bool has_kill_file(const char *cgroup)
{
    char *path = str_printf("%s/cgroup.kill", cgroup);
    bool ok = access(path, W_OK) == 0;
    free(path);
    return ok;
}

static char *cgroup_try(const char *mount, const char *below, const char *name, struct err *err)
{
    char *path = str_printf("%s%s/%s", mount, strcmp(below, "/") == 0 ? "" : below, name);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        err_sys(err, "cannot make the cgroup %s", path);
    } else if (!has_kill_file(path)) {
        rmdir(path);
        err_set(err, "the cgroup %s has no writable cgroup.kill (Linux 5.14 or newer is needed)", path);
    } else {
        return path;
    }
    free(path);
    return NULL;
}

char *proctree_cgroup_make(const char *name, struct err *err)
{
    char *mount = cgroup2_mount(), *own = own_cgroup(), *made = NULL;
    if (!mount)
        err_set(err, "no cgroup v2 file system is mounted here");
    if (mount && own)
        made = cgroup_try(mount, own, name, err);
    if (mount && !made && (!own || strcmp(own, "/") != 0))
        made = cgroup_try(mount, "/", name, err);
    free(mount);
    free(own);
    return made;
}

int proctree_cgroup_open(const char *cgroup)
{
    char *path = str_printf("%s/cgroup.procs", cgroup);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    free(path);
    return fd;
}

int proctree_cgroup_enter(int procs_fd)
{
    return write(procs_fd, "0", 1) == 1 ? 0 : -1;
}

static void remove_below(const char *cgroup, int depth)
{
    DIR *dir = depth < CGROUP_DEPTH ? opendir(cgroup) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (d->d_type != DT_DIR || d->d_name[0] == '.')
            continue;
        char *below = str_printf("%s/%s", cgroup, d->d_name);
        remove_below(below, depth + 1);
        rmdir(below);
        free(below);
    }
    if (dir)
        closedir(dir);
}

void proctree_cgroup_remove(const char *cgroup)
{
    if (!cgroup)
        return;
    for (int i = 0; i < REMOVE_TRIES; i++) {
        remove_below(cgroup, 0);
        if (rmdir(cgroup) == 0 || errno != EBUSY)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}
