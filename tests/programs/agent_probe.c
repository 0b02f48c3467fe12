/* agent_probe PORT SECRET NODE: an agent of the least kind, for tests of belayd's agent port.
 *
 * Logs in as NODE with 2 CPU slots, prints every line that belayd sends, and sends every line it reads from stdin. Ends when either
 * side closes. Exit 0 after a welcome whose proof is right, else 1. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "common/proof.h"
#include "schema/link.h"

static const char *secret, *node;
static char nonce[PROOF_NONCE_SIZE];
static bool welcomed;

static int connect_to(const char *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)strtol(port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    perror("connect");
    return -1;
}

static json_t *inventory(void)
{
    struct link_inventory inv = {.slots = 2, .cores = 2, .memory = (int64_t)1 << 34};
    snprintf(inv.hostname, sizeof(inv.hostname), "localhost");
    snprintf(inv.address, sizeof(inv.address), "127.0.0.1");
    snprintf(inv.rack, sizeof(inv.rack), "rack0");
    snprintf(inv.pod, sizeof(inv.pod), "pod0");
    snprintf(inv.version, sizeof(inv.version), "probe");
    return link_inventory_encode(&inv);
}

static int send_json(int fd, json_t *msg)
{
    char *text = json_dumps(msg, JSON_COMPACT);
    int rc = fs_write_all(fd, text, strlen(text)) == 0 ? fs_write_all(fd, "\n", 1) : -1;
    free(text);
    json_decref(msg);
    return rc;
}

static int hello(int fd, const json_t *challenge)
{
    char proof[PROOF_SIZE];
    char *text = str_printf("agent|%s|%s", jsonx_str_or(challenge, "nonce", ""), node);
    proof_nonce(nonce);
    proof_make(secret, text, proof);
    free(text);
    return send_json(fd, json_pack("{s:s,s:i,s:s,s:s,s:s,s:s,s:i,s:o,s:[]}", "t", "hello", "v", 1, "node",
                                   node, "nonce", nonce, "proof", proof, "boot", "boot-of-probe", "start", 1,
                                   "inventory", inventory(), "attempts"));
}

static int on_line(int fd, const char *line)
{
    json_t *msg = json_loads(line, 0, NULL);
    const char *type = jsonx_str_or(msg, "t", "");
    int rc = 0;
    printf("%s\n", line);
    fflush(stdout);
    if (strcmp(type, "challenge") == 0)
        rc = hello(fd, msg);
    if (strcmp(type, "welcome") == 0) {
        char *text = str_printf("belayd|%s|%s", nonce, node);
        welcomed = proof_check(secret, text, jsonx_str_or(msg, "proof", ""));
        free(text);
    }
    json_decref(msg);
    return rc;
}

/* Prints and handles whole lines in buf; keeps the rest. */
static int take_lines(int fd, char *buf, size_t *have)
{
    char *end;
    while ((end = memchr(buf, '\n', *have))) {
        size_t len = (size_t)(end - buf) + 1;
        *end = '\0';
        if (on_line(fd, buf) != 0)
            return -1;
        memmove(buf, buf + len, *have - len);
        *have -= len;
    }
    return 0;
}

static int copy_stdin(int fd)
{
    char buf[65536];
    ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));
    return n > 0 ? fs_write_all(fd, buf, (size_t)n) : -1;
}

static void talk(int fd)
{
    static char buf[1 << 20];
    size_t have = 0;
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    while (poll(fds, 2, -1) >= 0) {
        if (fds[0].revents) {
            ssize_t n = read(fd, buf + have, sizeof(buf) - have);
            if (n <= 0)
                return;
            have += (size_t)n;
            if (take_lines(fd, buf, &have) != 0)
                return;
        }
        if (fds[1].revents && copy_stdin(fd) != 0)
            return;
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "agent_probe PORT SECRET NODE\n");
        return 2;
    }
    secret = argv[2];
    node = argv[3];
    int fd = connect_to(argv[1]);
    if (fd < 0)
        return 1;
    talk(fd);
    close(fd);
    return welcomed ? 0 : 1;
}
