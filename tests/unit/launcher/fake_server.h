/* fake_server: a scripted belayd for tests: a child process that answers one request per connection, in the order of a script,
 * and checks what it was asked. */
#ifndef BELAY_TESTS_FAKE_SERVER_H
#define BELAY_TESTS_FAKE_SERVER_H

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/unixsock.h"

struct fake_answer {
    const char *expect; /* must be in the request (head and body) */
    int status;         /* 0 = close without an answer */
    const char *body;   /* NULL with status: announce more than is sent, then close */
};

struct fake_server {
    char dir[64];
    pid_t pid;
};

static inline bool fake_complete(const char *text)
{
    const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "Content-Length:");
    if (!end)
        return false;
    return !length || length > end || strlen(end + 4) >= strtoul(length + 15, NULL, 10);
}

/* A submit's idempotency key must stay the same over all requests of a script. */
static inline bool fake_same_key(const char *text)
{
    static char first[37];
    const char *key = strstr(text, "\"key\":\"");
    if (!key)
        return true;
    if (!first[0])
        snprintf(first, sizeof first, "%.36s", key + 7);
    return strncmp(key + 7, first, 36) == 0;
}

/* Reads one request; false when it does not hold what the script expects. */
static inline bool fake_read(int fd, const char *expect)
{
    char text[65536] = "";
    size_t len = 0;
    ssize_t n = 1;
    while (n > 0 && !fake_complete(text) && len + 1 < sizeof text) {
        n = read(fd, text + len, sizeof text - 1 - len);
        len += n > 0 ? (size_t)n : 0;
        text[len] = '\0';
    }
    if (!strstr(text, expect))
        fprintf(stderr, "fake server: expected \"%s\" in:\n%s\n", expect, text);
    return strstr(text, expect) != NULL && fake_same_key(text);
}

static inline void fake_reply(int fd, const struct fake_answer *a)
{
    if (!a->status)
        return;
    char *text = str_printf("HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", a->status,
                            a->body ? strlen(a->body) : 1000, a->body ? a->body : "{");
    (void)!fs_write_all(fd, text, strlen(text));
    free(text);
}

/* The child: 0 when every request came as expected. A script that waits 10 s for a request has failed. */
static inline int fake_serve(int listener, const struct fake_answer *script, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, 10000) != 1)
            return 2;
        int fd = accept(listener, NULL, NULL);
        bad |= !fake_read(fd, script[i].expect);
        fake_reply(fd, &script[i]);
        close(fd);
    }
    return bad;
}

static inline void fake_start(struct fake_server *s, const struct fake_answer *script, size_t n)
{
    struct err err;
    snprintf(s->dir, sizeof s->dir, "/tmp/belay-cli-XXXXXX");
    if (!mkdtemp(s->dir))
        abort();
    char *path = str_printf("%s/belayd.sock", s->dir);
    int listener = unixsock_listen(path, 0600, &err);
    if (listener < 0)
        abort();
    s->pid = fork();
    if (s->pid == 0)
        _exit(fake_serve(listener, script, n));
    close(listener);
    free(path);
}

/* Waits for the end of the script. 0 = it was followed. */
static inline int fake_end(struct fake_server *s)
{
    int status = -1;
    waitpid(s->pid, &status, 0);
    fs_remove_tree(s->dir, NULL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
