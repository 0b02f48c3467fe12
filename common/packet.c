/* packet: see packet.h. */
#include "common/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union passing { /* room for two: whoever sends two is told so, and both are closed */
    char space[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
};

int packet_send(int fd, const json_t *msg, int passed, int flags, struct err *err)
{
    union passing control = {{0}};
    char *text = json_dumps(msg, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0;
    struct iovec iov = {.iov_base = text, .iov_len = len};
    struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};
    if (passed >= 0) {
        head.msg_control = control.space;
        head.msg_controllen = CMSG_SPACE(sizeof passed);
        struct cmsghdr *c = CMSG_FIRSTHDR(&head);
        *c = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof passed)};
        memcpy(CMSG_DATA(c), &passed, sizeof passed);
    }
    ssize_t sent = -1;
    errno = EMSGSIZE;
    if (len > 0 && len <= PACKET_MAX)
        sent = sendmsg(fd, &head, flags | MSG_NOSIGNAL);
    int why = errno;
    free(text);
    errno = why;
    if (sent < 0)
        err_sys(err, "cannot send a packet of %zu bytes", len);
    errno = why;
    return sent < 0 ? -1 : 0;
}

/* How many descriptors came; the first is *passed, all others are closed. */
static size_t take_passed(struct msghdr *head, int *passed)
{
    size_t n = 0;
    *passed = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int), n++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
            if (n == 0)
                *passed = fd;
            else
                close(fd);
        }
    }
    return n;
}

static int take_message(const char *text, size_t len, const struct msghdr *head, size_t n_passed,
                        json_t **msg, struct err *err)
{
    json_error_t why;
    if (head->msg_flags & MSG_TRUNC)
        return err_set(err, "a packet of more than %d bytes", PACKET_MAX);
    if (n_passed > 1 || (head->msg_flags & MSG_CTRUNC))
        return err_set(err, "a packet with more than one descriptor");
    *msg = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!*msg)
        return err_set(err, "a packet that is not JSON: %s", why.text);
    return json_is_object(*msg) ? 1 : err_set(err, "a packet that is not a JSON object");
}

int packet_receive(int fd, int flags, json_t **msg, int *passed, struct err *err)
{
    char text[PACKET_MAX];
    union passing control;
    struct iovec iov = {.iov_base = text, .iov_len = sizeof text};
    struct msghdr head = {.msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.space,
                          .msg_controllen = sizeof control.space};
    *msg = NULL;
    *passed = -1;
    ssize_t len = recvmsg(fd, &head, flags | MSG_CMSG_CLOEXEC);
    if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (len < 0)
        return err_sys(err, "cannot receive");
    size_t n_passed = take_passed(&head, passed);
    if (len == 0 && n_passed == 0)
        return err_set(err, PACKET_CLOSED);
    if (take_message(text, (size_t)len, &head, n_passed, msg, err) == 1)
        return 1;
    if (*passed >= 0)
        close(*passed);
    json_decref(*msg);
    *passed = -1;
    *msg = NULL;
    return -1;
}
