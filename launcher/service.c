/* service: see service.h. A child that could not become its program reports errno through a pipe that exec closes. */
#include "launcher/service.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/text.h"

#define LOG_TAIL 400 /* bytes */

bool service_alive(struct service *s)
{
    struct procid id;
    if (procid_read_file(s->pid_file, &id, NULL) == 0 && procid_alive(&id))
        s->id = id;
    else if (!procid_alive(&s->id))
        s->id = (struct procid){.pid = 0};
    return s->id.pid != 0;
}

void service_clear(struct service *s)
{
    free(s->what);
    free(s->pid_file);
    free(s->log);
    *s = (struct service){.what = NULL};
}

static char *beside_me(const char *name)
{
    char me[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", me, sizeof me - 1);
    if (n <= 0)
        return NULL;
    me[n] = '\0';
    char *slash = strrchr(me, '/');
    return slash ? str_printf("%.*s/%s", (int)(slash - me), me, name) : NULL;
}

static char *on_path(const char *name)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        char *full = str_printf("%.*s/%s", (int)len, path, name);
        if (len && access(full, X_OK) == 0)
            return full;
        free(full);
        path += len + (path[len] == ':');
    }
    return NULL;
}

char *service_program(const char *name, struct err *err)
{
    char *path = beside_me(name);
    if (path && access(path, X_OK) == 0)
        return path;
    char *found = on_path(name);
    if (!found)
        err_set(err, "cannot find the program %s: expected at %s or on PATH; install or build all of Belay",
                name, path ? path : "?");
    free(path);
    return found;
}

/* The program writes its pid file when it is ready. Until then this one stands for it: whoever is killed while starting a cluster leaves
 * nothing that `belay down` does not find (this child holds the cluster's lock until it has become the program). */
static int announce(const struct service *s)
{
    struct procid self;
    struct err err;
    return procid_of(0, &self) == 0 ? procid_write_file(s->pid_file, &self, &err) : -1;
}

/* In the child: becomes the program, or writes errno to the pipe. */
static void become(const struct service *s, const char *dir, char *const argv[], int log_fd, int pipe_fd)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL); /* those that cannot be set are not inherited as ignored either */
    setsid();
    if (null >= 0 && chdir(dir) == 0 && announce(s) == 0 && dup2(null, 0) == 0 && dup2(log_fd, 1) == 1 &&
        dup2(log_fd, 2) == 2)
        execv(argv[0], argv);
    int error = errno;
    (void)!write(pipe_fd, &error, sizeof error); /* its end of file says as much */
    _exit(127);
}

/* Waits until the child has become the program. errno of its failure, or 0. */
static int wait_exec(int fd)
{
    int error = 0;
    ssize_t n;
    do {
        n = read(fd, &error, sizeof error);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof error ? error : 0;
}

static int start(struct service *s, const char *dir, char *const argv[], int log_fd, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(err, "cannot start %s", s->what);
    pid_t pid = fork();
    if (pid == 0)
        become(s, dir, argv, log_fd, ends[1]);
    close(ends[1]);
    errno = pid < 0 ? errno : wait_exec(ends[0]);
    close(ends[0]);
    if (errno != 0)
        return err_sys(err, "cannot start %s (%s)", s->what, argv[0]);
    s->started = true;
    if (procid_of(pid, &s->id) != 0)
        return err_set(err, "%s ended at once: see %s", s->what, s->log);
    return 0;
}

int service_start(struct service *s, const char *dir, char *const argv[], struct err *err)
{
    int log_fd = open(s->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return err_sys(err, "cannot write the log %s", s->log);
    s->log_from = lseek(log_fd, 0, SEEK_END);
    int rc = start(s, dir, argv, log_fd, err);
    close(log_fd);
    return rc;
}

char *service_log_tail(const struct service *s)
{
    char text[LOG_TAIL + 1];
    int fd = open(s->log, O_RDONLY | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    off_t from = s->log_from > 0 && s->log_from <= size ? (off_t)s->log_from : 0;
    bool cut = size - from > LOG_TAIL;
    ssize_t n = size > from ? pread(fd, text, LOG_TAIL, cut ? size - LOG_TAIL : from) : 0;
    if (fd >= 0)
        close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    const char *newline = cut ? strchr(text, '\n') : NULL; /* the first line may be cut */
    return text_clean(newline ? newline + 1 : text);
}

int service_check(struct service *s, struct err *err)
{
    int status;
    if (!s->started || waitpid(s->id.pid, &status, WNOHANG) != s->id.pid)
        return 0;
    char *tail = service_log_tail(s);
    err_set(err, "%s ended at once with %s %d; its log %s ends: %s", s->what,
            WIFEXITED(status) ? "code" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
            s->log, tail);
    free(tail);
    return -1;
}
