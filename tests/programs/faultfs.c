/* faultfs.so: a file system that fails, for a program that is started with LD_PRELOAD=faultfs.so.
 *
 * Calls that change something below BELAY_FAULTFS_BELOW (an absolute path) are counted and compared with the rules in BELAY_FAULTFS, which spaces
 * separate: CALL:PATH:TIMES:ACTION. CALL is open (that can make or change a file), write, fsync, close (of what is open for writing), rename, unlink,
 * mkdir, link, truncate, or *; PATH is part of the path (either one of rename), or *; TIMES is 3 (the third call that fits), 3- (and all later ones)
 * or 3-5. ACTIONs:
 *   kill        the process is killed before the call
 *   half        the same, but half of a write is made
 *   power       kill, and what the disk had not been asked to keep is gone: bytes without fsync, renames without fsync of their folder
 *   short       half of the write is made, and reported so
 *   gate=FILE   FILE.reached is made, and the call waits until FILE is there (when FILE.reached goes, the process ends)
 *   ENOSPC, EIO, EDQUOT, EROFS   the call fails so
 * BELAY_FAULTFS_RANK: only in this rank. BELAY_FAULTFS_LOG: a file to which each call is told in a line. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

#define RULES_MAX   16
#define FILES_MAX   4096
#define RENAMES_MAX 256

enum action { PASS, KILL, HALF, POWER, SHORT, GATE, FAIL };

struct rule {
    char call[16], path[128], gate[PATH_MAX];
    long from, to, seen;
    enum action action;
    int error;
};

/* A file that was open for writing, and how much of it would survive. */
struct dirty {
    dev_t dev;
    ino_t ino;
    off_t synced;
};

/* A rename that would not survive. */
struct moved {
    char from[PATH_MAX], to[PATH_MAX], folder[PATH_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over all of this */
static struct rule rules[RULES_MAX];
static size_t n_rules;
static char below[PATH_MAX];
static int log_fd = -1;
static struct dirty files[FILES_MAX];
static size_t n_files;
static struct moved renames[RENAMES_MAX];
static size_t n_renames;

/* ---- the rules ---- */

static __attribute__((noreturn)) void refuse(const char *what, const char *text)
{
    fprintf(stderr, "faultfs: %s: %s\n", what, text);
    _exit(99);
}

static enum action parse_action(const char *text, struct rule *r)
{
    static const char *const names[] = {
        [KILL] = "kill", [HALF] = "half", [POWER] = "power", [SHORT] = "short"};
    static const struct {
        const char *name;
        int error;
    } errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}};
    for (int a = KILL; a <= SHORT; a++)
        if (strcmp(text, names[a]) == 0)
            return (enum action)a;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(text, errors[i].name) == 0) {
            r->error = errors[i].error;
            return FAIL;
        }
    if (strncmp(text, "gate=", 5) != 0)
        refuse("no such action", text);
    (void)snprintf(r->gate, sizeof r->gate, "%s", text + 5);
    return GATE;
}

static void parse_rule(char *text)
{
    char *field[4], *rest = text;
    struct rule *r = &rules[n_rules++];
    for (int i = 0; i < 4; i++)
        if (!(field[i] = i < 3 ? strsep(&rest, ":") : rest))
            refuse("a rule is CALL:PATH:TIMES:ACTION", text);
    (void)snprintf(r->call, sizeof r->call, "%s", field[0]);
    (void)snprintf(r->path, sizeof r->path, "%s", field[1]);
    char *end;
    r->from = r->to = strtol(field[2], &end, 10);
    if (*end == '-')
        r->to = end[1] ? strtol(end + 1, NULL, 10) : LONG_MAX;
    r->action = parse_action(field[3], r);
}

static __attribute__((constructor)) void set_up(void)
{
    const char *text = getenv("BELAY_FAULTFS"), *where = getenv("BELAY_FAULTFS_BELOW");
    const char *only = getenv("BELAY_FAULTFS_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *log = getenv("BELAY_FAULTFS_LOG");
    if (!where || (only && rank && strcmp(only, rank) != 0))
        return;
    (void)snprintf(below, sizeof below, "%s/", where);
    char *copy = strdup(text ? text : ""), *rest = copy;
    for (char *one; (one = strsep(&rest, " "));)
        if (*one && n_rules < RULES_MAX)
            parse_rule(one);
    free(copy);
    if (log)
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* ---- paths ---- */

/* The absolute path of `path` below the folder open as dirfd; "" when it cannot be told. */
static void resolve(int dirfd, const char *path, char out[PATH_MAX])
{
    char link[64], base[PATH_MAX] = "";
    if (*path == '/') {
        (void)snprintf(out, PATH_MAX, "%s", path);
        return;
    }
    if (dirfd == AT_FDCWD) {
        if (!getcwd(base, sizeof base))
            base[0] = 0;
    } else {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
        ssize_t n = readlink(link, base, sizeof base - 1);
        base[n > 0 ? n : 0] = 0;
    }
    size_t len = strlen(base), more = strlen(path);
    if (len + more + 2 > PATH_MAX)
        out[0] = 0;
    else {
        memcpy(out, base, len);
        out[len] = '/';
        memcpy(out + len + 1, path, more + 1);
    }
    if (!*path)
        out[len] = 0;
}

static void path_of(int fd, char out[PATH_MAX])
{
    resolve(fd, "", out);
}

static bool watched(const char *path)
{
    size_t len = strlen(below);
    return len > 0 && (strncmp(path, below, len) == 0 || strncmp(path, below, len - 1) == 0) &&
           (path[len - 1] == '/' || path[len - 1] == 0);
}

/* ---- what would survive a power cut ---- */

static struct dirty *find_file(const struct stat *st)
{
    for (size_t i = 0; i < n_files; i++)
        if (files[i].dev == st->st_dev && files[i].ino == st->st_ino)
            return &files[i];
    return NULL;
}

/* fd has been opened for writing. */
static void note_open(int fd, bool emptied)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    pthread_mutex_lock(&lock);
    struct dirty *f = find_file(&st);
    bool fresh = !f;
    if (fresh && n_files < FILES_MAX)
        f = &files[n_files++];
    if (f && (fresh || emptied || st.st_size == 0)) /* the number of a removed file comes back, empty */
        *f = (struct dirty){st.st_dev, st.st_ino, emptied ? 0 : st.st_size};
    pthread_mutex_unlock(&lock);
}

static void note_sync(int fd, const char *path)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return;
    pthread_mutex_lock(&lock);
    struct dirty *f = find_file(&st);
    if (f)
        f->synced = st.st_size;
    if (S_ISDIR(st.st_mode)) {
        size_t kept = 0;
        for (size_t i = 0; i < n_renames; i++)
            if (strcmp(renames[i].folder, path) != 0)
                renames[kept++] = renames[i];
        n_renames = kept;
    }
    pthread_mutex_unlock(&lock);
}

static void note_rename(const char *from, const char *to)
{
    pthread_mutex_lock(&lock);
    if (n_renames < RENAMES_MAX) {
        struct moved *m = &renames[n_renames++];
        (void)snprintf(m->from, sizeof m->from, "%s", from);
        (void)snprintf(m->to, sizeof m->to, "%s", to);
        (void)snprintf(m->folder, sizeof m->folder, "%s", to);
        *strrchr(m->folder, '/') = 0;
    }
    pthread_mutex_unlock(&lock);
}

static int cut_file(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)where;
    const struct dirty *f = type == FTW_F ? find_file(st) : NULL;
    if (f && f->synced < st->st_size)
        (void)syscall(SYS_truncate, path, f->synced);
    return 0;
}

static void cut_power(void)
{
    for (size_t i = n_renames; i-- > 0;)
        (void)syscall(SYS_renameat2, AT_FDCWD, renames[i].to, AT_FDCWD, renames[i].from, RENAME_NOREPLACE);
    (void)nftw(below, cut_file, 16, FTW_PHYS);
}

/* ---- what happens to a call ---- */

static void wait_at(const char *gate)
{
    char reached[PATH_MAX + 16];
    (void)snprintf(reached, sizeof reached, "%s.reached", gate);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, reached, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)syscall(SYS_close, fd);
    while (access(gate, F_OK) != 0) {
        if (access(reached, F_OK) != 0)
            _exit(98); /* the test is over */
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static bool fits(struct rule *r, const char *call, const char *path, const char *other)
{
    if (strcmp(r->call, "*") != 0 && strcmp(r->call, call) != 0)
        return false;
    if (strcmp(r->path, "*") != 0 && !strstr(path, r->path) && !strstr(other, r->path))
        return false;
    r->seen++;
    return r->seen >= r->from && r->seen <= r->to;
}

/* The first rule that fits decides. */
static struct rule *judge(const char *call, const char *path, const char *other)
{
    struct rule *found = NULL;
    char line[2 * PATH_MAX + 32];
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_rules; i++)
        if (fits(&rules[i], call, path, other) && !found)
            found = &rules[i];
    if (log_fd >= 0) {
        int n = snprintf(line, sizeof line, "%s %s%s%s\n", call, path, *other ? " " : "", other);
        (void)syscall(SYS_write, log_fd, line, n);
    }
    if (found && found->action == POWER)
        cut_power();
    if (found && (found->action == KILL || found->action == POWER))
        (void)kill(getpid(), SIGKILL); /* with the lock held: nobody else gets anything done */
    pthread_mutex_unlock(&lock);
    return found;
}

/* What is to be done about a call: PASS, HALF, SHORT, or FAIL with errno set. */
static enum action meet(const char *call, const char *path, const char *other)
{
    if (!watched(path) && !watched(other))
        return PASS;
    struct rule *r = judge(call, path, other);
    if (!r)
        return PASS;
    if (r->action == GATE) {
        wait_at(r->gate);
        return PASS;
    }
    errno = r->error;
    return r->action;
}

static enum action meet_fd(const char *call, int fd)
{
    char path[PATH_MAX];
    if (!*below)
        return PASS;
    path_of(fd, path);
    return meet(call, path, "");
}

/* ---- calls ---- */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Nothing but a write has halves: elsewhere that is a kill. */
static bool fails(enum action a)
{
    if (a == HALF)
        (void)kill(getpid(), SIGKILL);
    return a == FAIL;
}

static int open_it(int dirfd, const char *path, int flags, mode_t mode)
{
    char full[PATH_MAX];
    bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
    if (!*below || !changes)
        return REAL(openat)(dirfd, path, flags, mode);
    resolve(dirfd, path, full);
    if (fails(meet("open", full, "")))
        return -1;
    int fd = REAL(openat)(dirfd, path, flags, mode);
    if (fd >= 0 && watched(full))
        note_open(fd, flags & O_TRUNC);
    return fd;
}

#define TAKE_MODE(mode, flags)                                                                               \
    mode_t mode = 0;                                                                                         \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                   \
        va_list args;                                                                                        \
        va_start(args, flags);                                                                               \
        mode = va_arg(args, mode_t);                                                                         \
        va_end(args);                                                                                        \
    }

int open(const char *path, int flags, ...)
{
    TAKE_MODE(mode, flags)
    return open_it(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    TAKE_MODE(mode, flags)
    return open_it(AT_FDCWD, path, flags, mode);
}

int openat(int dirfd, const char *path, int flags, ...)
{
    TAKE_MODE(mode, flags)
    return open_it(dirfd, path, flags, mode);
}

FILE *fopen(const char *restrict path, const char *restrict how)
{
    char full[PATH_MAX];
    if (!*below || *how == 'r')
        return REAL(fopen)(path, how);
    resolve(AT_FDCWD, path, full);
    if (fails(meet("open", full, "")))
        return NULL;
    FILE *f = REAL(fopen)(path, how);
    if (f && watched(full))
        note_open(fileno(f), *how == 'w');
    return f;
}

int fflush(FILE *f)
{
    return f && fails(meet_fd("write", fileno(f))) ? EOF : REAL(fflush)(f);
}

static ssize_t write_some(int fd, const void *data, size_t len, off_t at)
{
    return at < 0 ? syscall(SYS_write, fd, data, len) : syscall(SYS_pwrite64, fd, data, len, at);
}

static ssize_t write_it(int fd, const void *data, size_t len, off_t at)
{
    enum action a = meet_fd("write", fd);
    if (a == FAIL)
        return -1;
    if (a == HALF || a == SHORT)
        len = len / 2 + (a == SHORT && len == 1);
    ssize_t n = write_some(fd, data, len, at);
    if (a == HALF)
        (void)kill(getpid(), SIGKILL);
    return n;
}

ssize_t write(int fd, const void *data, size_t len)
{
    return write_it(fd, data, len, -1);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    return write_it(fd, data, len, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
    return write_it(fd, data, len, at);
}

static int sync_it(int fd, int (*real)(int fd))
{
    char path[PATH_MAX];
    if (!*below)
        return real(fd);
    path_of(fd, path);
    if (fails(meet("fsync", path, "")))
        return -1;
    int rc = real(fd);
    if (rc == 0 && watched(path))
        note_sync(fd, path);
    return rc;
}

int fsync(int fd)
{
    return sync_it(fd, REAL(fsync));
}

int fdatasync(int fd)
{
    return sync_it(fd, REAL(fdatasync));
}

int close(int fd)
{
    int flags = *below ? fcntl(fd, F_GETFL) : -1;
    bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
    if (writes && fails(meet_fd("close", fd))) {
        int error = errno;
        (void)syscall(SYS_close, fd);
        errno = error;
        return -1;
    }
    return (int)syscall(SYS_close, fd);
}

int ftruncate(int fd, off_t len)
{
    return fails(meet_fd("truncate", fd)) ? -1 : REAL(ftruncate)(fd, len);
}

static int rename_it(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    char a[PATH_MAX], b[PATH_MAX];
    resolve(from_fd, from, a);
    resolve(to_fd, to, b);
    if (*below && fails(meet("rename", a, b)))
        return -1;
    bool replaces = access(b, F_OK) == 0; /* what was there cannot be brought back */
    int rc = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    if (rc == 0 && !replaces && *below && watched(b))
        note_rename(a, b);
    return rc;
}

int rename(const char *from, const char *to)
{
    return rename_it(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return rename_it(from_fd, from, to_fd, to, flags);
}

static bool path_fails(const char *call, int dirfd, const char *path)
{
    char full[PATH_MAX];
    if (!*below)
        return false;
    resolve(dirfd, path, full);
    return fails(meet(call, full, ""));
}

int unlink(const char *path)
{
    return path_fails("unlink", AT_FDCWD, path) ? -1 : REAL(unlink)(path);
}

int unlinkat(int dirfd, const char *path, int flags)
{
    return path_fails("unlink", dirfd, path) ? -1 : REAL(unlinkat)(dirfd, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return path_fails("mkdir", AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode);
}

int link(const char *from, const char *to)
{
    return path_fails("link", AT_FDCWD, to) ? -1 : REAL(link)(from, to);
}
