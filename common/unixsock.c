/* unixsock: a path longer than sun_path (108 bytes) is reached through an open fd of its folder: /proc/self/fd/N/name. */
#include "common/unixsock.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/mem.h"

/* Fills addr for path; *dirfd is an fd to be closed after bind or connect, or -1. */
static int fill(const char *path, struct sockaddr_un *addr, int *dirfd, struct err *err)
{
    *dirfd = -1;
    memset(addr, 0, sizeof *addr);
    addr->sun_family = AF_UNIX;
    if (strlen(path) < sizeof addr->sun_path) {
        snprintf(addr->sun_path, sizeof addr->sun_path, "%s", path);
        return 0;
    }
    char *dir = str_dup(path), *base = str_dup(path);
    int rc = 0;
    *dirfd = open(dirname(dir), O_PATH | O_DIRECTORY | O_CLOEXEC);
    int n = snprintf(addr->sun_path, sizeof addr->sun_path, "/proc/self/fd/%d/%s", *dirfd, basename(base));
    if (*dirfd < 0)
        rc = err_sys(err, "cannot open the folder of the socket %s", path);
    else if (n >= (int)sizeof addr->sun_path)
        rc = err_set(err, "the file name of the socket %s is too long; choose one below 80 bytes", path);
    free(dir);
    free(base);
    return rc;
}

static int open_socket(int type, const char *path, struct err *err)
{
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        err_sys(err, "cannot make a socket for %s", path);
    return fd;
}

static void close_if(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int listen_at(int type, const char *path, mode_t mode, struct err *err)
{
    struct sockaddr_un addr;
    int dirfd, fd = -1;
    if (unlink(path) < 0 && errno != ENOENT)
        return err_sys(err, "cannot replace the old socket %s", path);
    if (fill(path, &addr, &dirfd, err) == 0 && (fd = open_socket(type | SOCK_NONBLOCK, path, err)) >= 0 &&
        (bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || chmod(path, mode) < 0 ||
         listen(fd, SOMAXCONN) < 0)) {
        err_sys(err, "cannot listen at %s", path);
        close(fd);
        fd = -1;
    }
    close_if(dirfd);
    return fd;
}

/* flags: those of the file once it is connected */
static int connect_to(int type, int flags, const char *path, struct err *err)
{
    struct sockaddr_un addr;
    int dirfd, fd = -1;
    if (fill(path, &addr, &dirfd, err) == 0 && (fd = open_socket(type, path, err)) >= 0) {
        int rc = connect(fd, (struct sockaddr *)&addr, sizeof addr);
        if (rc == 0)
            rc = fcntl(fd, F_SETFL, flags);
        if (rc < 0) {
            err_sys(err, "cannot connect to %s", path);
            close(fd);
            fd = -1;
        }
    }
    close_if(dirfd);
    return fd;
}

int unixsock_listen(const char *path, mode_t mode, struct err *err)
{
    return listen_at(SOCK_STREAM, path, mode, err);
}

int unixsock_connect(const char *path, int nonblocking, struct err *err)
{
    return connect_to(SOCK_STREAM, nonblocking ? O_NONBLOCK : 0, path, err);
}

int unixsock_listen_packets(const char *path, mode_t mode, struct err *err)
{
    return listen_at(SOCK_SEQPACKET, path, mode, err);
}

int unixsock_connect_packets(const char *path, struct err *err)
{
    return connect_to(SOCK_SEQPACKET | SOCK_NONBLOCK, 0, path, err);
}

int unixsock_datagram(const char *path, struct err *err)
{
    return connect_to(SOCK_DGRAM, 0, path, err);
}
