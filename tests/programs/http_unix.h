/* http_unix: the least HTTP/1.1 client that tests need: one request at a time over a unix socket, blocking, kept alive. */
#ifndef BELAY_TESTS_HTTP_UNIX_H
#define BELAY_TESTS_HTTP_UNIX_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/unixsock.h"

#define HTTP_REPLY_MAX (64u << 20)

/* Reads until `need` bytes are there (or, with need 0, until the header ends). New length, or -1 when the peer is gone. */
static inline ssize_t http_fill(int fd, char **buf, size_t have, size_t need)
{
    while (need ? have < need : !(have && strstr(*buf, "\r\n\r\n"))) {
        *buf = mem_grow(*buf, have + 65536 + 1, 1);
        ssize_t n = have > HTTP_REPLY_MAX ? -1 : read(fd, *buf + have, 65536);
        if (n <= 0)
            return -1;
        have += (size_t)n;
        (*buf)[have] = '\0';
    }
    return (ssize_t)have;
}

/* Sends one request; *reply is the body (fresh, the caller frees). The status, or -1 when the connection broke. */
static inline int http_unix(int fd, const char *method, const char *path, const char *body, char **reply)
{
    char *request = str_printf("%s %s HTTP/1.1\r\nHost: belayd\r\nContent-Length: %zu\r\n\r\n%s", method,
                               path, strlen(body), body);
    char *buf = NULL;
    ssize_t have = -1;
    int status = -1;
    *reply = NULL;
    if (fs_write_all(fd, request, strlen(request)) == 0)
        have = http_fill(fd, &buf, 0, 0);
    free(request);
    if (have > 0) {
        const char *length = strcasestr(buf, "\r\nContent-Length:");
        size_t header = (size_t)(strstr(buf, "\r\n\r\n") - buf) + 4;
        size_t total = header + (length ? strtoul(length + 17, NULL, 10) : 0);
        if (http_fill(fd, &buf, (size_t)have, total) >= 0 && sscanf(buf, "HTTP/1.%*d %d", &status) == 1)
            *reply = str_dup(buf + header);
        else
            status = -1;
    }
    free(buf);
    return status;
}

#endif
