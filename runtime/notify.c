/* notify: one connected datagram socket, sends with MSG_DONTWAIT. Lines that should arrive wait in `pending` until a send succeeds. */
#include "runtime/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/mem.h"

#define DATAGRAM_MAX  4096 /* docs/protocols.md */
#define CLOSE_WAIT_MS 1000

struct notify {
    pthread_mutex_t lock; /* a send is of one thread, and so is what waits */
    int fd;               /* -1 = nobody listens */
    int rank;
    char pending[DATAGRAM_MAX / 2]; /* "KEY=value\n" lines */
};

/* The path goes through /proc/self/fd when it is longer than an address holds. */
static int connect_to(int fd, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int link = -1;
    if (strlen(path) < sizeof address.sun_path) {
        memcpy(address.sun_path, path, strlen(path) + 1);
    } else {
        link = open(path, O_PATH | O_CLOEXEC);
        (void)snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", link);
    }
    int rc = connect(fd, (struct sockaddr *)&address, sizeof address);
    if (link >= 0)
        close(link);
    return rc;
}

struct notify *notify_open(const char *path, int rank)
{
    struct notify *n = mem_zero(1, sizeof *n);
    pthread_mutex_init(&n->lock, NULL);
    n->rank = rank;
    n->fd = path && *path ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (n->fd >= 0 && connect_to(n->fd, path) != 0) {
        close(n->fd);
        n->fd = -1;
    }
    return n;
}

/* Sends the pending lines and these. 0 when the datagram went out. */
static int send_lines(struct notify *n, const char *lines)
{
    char text[DATAGRAM_MAX];
    int len = snprintf(text, sizeof text, "RANK=%d\n%s%s", n->rank, n->pending, lines);
    if (n->fd < 0 || len < 0 || (size_t)len >= sizeof text)
        return -1;
    if (send(n->fd, text, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL) != len)
        return -1;
    n->pending[0] = 0;
    return 0;
}

void notify_close(struct notify *notify)
{
    if (!notify)
        return;
    struct pollfd room = {.fd = notify->fd, .events = POLLOUT};
    if (notify->fd >= 0 && notify->pending[0] && poll(&room, 1, CLOSE_WAIT_MS) == 1)
        (void)send_lines(notify, ""); /* the last chance; nobody is left to tell */
    if (notify->fd >= 0)
        close(notify->fd);
    pthread_mutex_destroy(&notify->lock);
    free(notify);
}

void notify_send(struct notify *notify, const char *fmt, ...)
{
    char lines[DATAGRAM_MAX / 2 - 32];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(lines, sizeof lines, fmt, args); /* a cut line is the receiver's to ignore */
    va_end(args);
    pthread_mutex_lock(&notify->lock);
    (void)send_lines(notify, lines); /* lossy by contract */
    pthread_mutex_unlock(&notify->lock);
}

void notify_keep(struct notify *notify, const char *fmt, ...)
{
    char lines[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(lines, sizeof lines, fmt, args);
    va_end(args);
    pthread_mutex_lock(&notify->lock);
    bool sent = send_lines(notify, lines) == 0;
    size_t used = strlen(notify->pending);
    if (!sent && used + strlen(lines) + 2 < sizeof notify->pending)
        (void)snprintf(notify->pending + used, sizeof notify->pending - used, "%s\n", lines);
    pthread_mutex_unlock(&notify->lock);
}
