/* fake_belayd: a controller for tests of belay-agent: logs one agent in, prints what it says, sends what it is told.
 *
 * usage: fake_belayd PORT SECRET ok|refuse|badproof|silent
 * First line out: {"t":"listening","port":N}; then every line of the agent. Lines on stdin that begin with { go to the agent as they
 * are; "close" ends the connection; end of stdin ends the program. */
#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/proof.h"

struct lines {
    char *text;
    size_t len;
};

static const char *secret, *mode;
static int conn = -1;
static char nonce[PROOF_NONCE_SIZE];
static struct lines from_agent, from_stdin;

static void say(const char *line)
{
    if (conn >= 0 && (fs_write_all(conn, line, strlen(line)) < 0 || fs_write_all(conn, "\n", 1) < 0))
        perror("fake_belayd: write");
}

static void send_json(json_t *msg)
{
    char *text = json_dumps(msg, JSON_COMPACT);
    say(text);
    free(text);
    json_decref(msg);
}

static void hang_up(void)
{
    if (conn >= 0)
        close(conn);
    conn = -1;
    from_agent.len = 0;
}

static void answer_hello(json_t *hello)
{
    char text[256], proof[PROOF_SIZE];
    const char *node = json_string_value(json_object_get(hello, "node"));
    const char *its = json_string_value(json_object_get(hello, "nonce"));
    const char *claim = json_string_value(json_object_get(hello, "proof"));
    snprintf(text, sizeof text, "agent|%s|%s", nonce, node);
    if (strcmp(mode, "refuse") == 0 || !proof_check(secret, text, claim)) {
        send_json(json_pack("{s:s,s:s}", "t", "refused", "reason", "the proof does not fit the secret"));
        puts("{\"t\":\"wrong-proof\"}");
        hang_up();
        return;
    }
    snprintf(text, sizeof text, "belayd|%s|%s", its, node);
    proof_make(strcmp(mode, "badproof") == 0 ? "some other secret" : secret, text, proof);
    send_json(json_pack("{s:s,s:i,s:s,s:i}", "t", "welcome", "v", 1, "proof", proof, "heartbeat_ms", 200));
}

static void agent_line(char *line)
{
    json_t *msg = json_loads(line, 0, NULL);
    const char *type = json_string_value(json_object_get(msg, "t"));
    puts(line);
    if (type && strcmp(type, "hello") == 0)
        answer_hello(msg);
    json_decref(msg);
}

static void stdin_line(char *line)
{
    if (line[0] == '{')
        say(line);
    else if (strcmp(line, "close") == 0)
        hang_up();
}

/* Reads what is there; false at the end. */
static bool pump(int fd, struct lines *l, void (*fn)(char *line))
{
    l->text = mem_grow(l->text, l->len + 65537, 1);
    ssize_t n = read(fd, l->text + l->len, 65536);
    if (n <= 0)
        return false;
    l->len += (size_t)n;
    for (char *end; (end = memchr(l->text, '\n', l->len));) {
        size_t used = (size_t)(end - l->text) + 1;
        char *line = mem_zero(used, 1);
        memcpy(line, l->text, used - 1);
        memmove(l->text, l->text + used, l->len -= used);
        fn(line);
        free(line);
    }
    return true;
}

static int listen_at(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
        perror("fake_belayd: listen");
        exit(1);
    }
    printf("{\"t\":\"listening\",\"port\":%d}\n", ntohs(a.sin_port));
    return fd;
}

static void take(int listener)
{
    hang_up();
    conn = accept(listener, NULL, NULL);
    proof_nonce(nonce);
    if (strcmp(mode, "silent") != 0)
        send_json(json_pack("{s:s,s:i,s:s}", "t", "challenge", "v", 1, "nonce", nonce));
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    (void)signal(SIGPIPE, SIG_IGN); /* agents are killed while they are spoken to */
    setvbuf(stdout, NULL, _IOLBF, 0);
    secret = argv[2];
    mode = argv[3];
    int listener = listen_at((int)strtol(argv[1], NULL, 10));
    for (;;) {
        struct pollfd p[3] = {{0, POLLIN, 0}, {listener, POLLIN, 0}, {conn, POLLIN, 0}};
        if (poll(p, 3, -1) < 0)
            return 1;
        if (p[0].revents && !pump(0, &from_stdin, stdin_line))
            return 0;
        if (p[2].revents && p[2].fd == conn && !pump(conn, &from_agent, agent_line))
            hang_up();
        if (p[1].revents)
            take(listener);
    }
}
