/* rest DIR METHOD PATH [BODY]: one request to DIR/belayd.sock; prints the status, a space, and the body. BODY "@N" sends N bytes. */
#include <signal.h>

#include "common/mem.h"
#include "tests/programs/http_unix.h"

static char *make_body(const char *arg)
{
    if (arg[0] != '@')
        return str_dup(arg);
    size_t n = strtoul(arg + 1, NULL, 10);
    char *body = mem_zero(n + 1, 1);
    memset(body, 'x', n);
    return body;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    signal(SIGPIPE, SIG_IGN);
    char *reply = NULL;
    if (argc < 4) {
        fprintf(stderr, "rest DIR METHOD PATH [BODY]\n");
        return 2;
    }
    char *path = str_printf("%s/belayd.sock", argv[1]), *body = make_body(argc > 4 ? argv[4] : "");
    int fd = unixsock_connect(path, 0, &err), status = -1;
    if (fd < 0)
        fprintf(stderr, "%s\n", err.text);
    else
        status = http_unix(fd, argv[2], argv[3], body, &reply);
    printf("%d %s\n", status, reply ? reply : "");
    free(path);
    free(body);
    free(reply);
    if (fd >= 0)
        close(fd);
    return status < 0;
}
