/* shim_driver: plays the agents and the controller for belay-shim. Writes orders, starts one shim a node, sends go, prints what
 * they report, and acts when a file appears.
 *
 *   shim_driver --shim PATH --dir DIR [--nodes N] [--ranks N] [--uid N --gid N] [--cwd DIR] [--grace MS] [--env K=V]
 *               [--on FILE ACTION]… -- COMMAND…
 *
 * Ranks are --ranks a node. Actions, done in order, each once its FILE exists: stop, stop:MS (grace), kill, checkpoint,
 * kill-shim:NODE, term-shim:NODE, drop:NODE (reconnect). Prints "node N PHASE …" for each report, "progress …" for each
 * progress message, and at the end a line for each rank. Exit 0 when every shim reported gone, refused or was killed. */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "common/unixsock.h"
#include "schema/link.h"

#define NODES_MAX   64
#define ACTIONS_MAX 8
#define TIME_MS     60000

struct node {
    pid_t shim;
    char *dir, *name;
    int fd;
    char *in;
    size_t len;
    struct link_report report;
    bool shim_killed, over, released;
};

struct action {
    const char *file, *what;
};

static struct {
    const char *shim, *dir;
    int64_t nodes, ranks;
    struct link_order order;
    struct node node[NODES_MAX];
    struct action actions[ACTIONS_MAX];
    size_t n_actions, next_action;
    bool went;
} d = {.nodes = 1, .ranks = 2};

static void die(const char *what)
{
    fprintf(stderr, "shim_driver: %s: %s\n", what, strerror(errno));
    for (int64_t n = 0; n < d.nodes; n++)
        if (d.node[n].shim > 0)
            kill(d.node[n].shim, SIGTERM);
    exit(1);
}

/* The order for one node, from the common one. */
static json_t *order_of(int64_t n, const char *type)
{
    struct link_rank_slot slots[LINK_RANKS_PER_NODE_MAX];
    struct link_order o = d.order;
    o.node_rank = n;
    o.n_ranks = (size_t)d.ranks;
    o.ranks = slots;
    for (int64_t i = 0; i < d.ranks; i++)
        slots[i] = (struct link_rank_slot){.rank = n * d.ranks + i, .slot = i};
    return link_order_encode(&o, type);
}

static void send_line(struct node *n, json_t *msg)
{
    char *text = json_dumps(msg, JSON_COMPACT);
    char *line = str_printf("%s\n", text);
    if (n->fd >= 0 && send(n->fd, line, strlen(line), MSG_NOSIGNAL) < 0)
        fprintf(stderr, "shim_driver: %s does not read\n", n->name);
    free(line);
    free(text);
    json_decref(msg);
}

static void send_orders(void)
{
    for (int64_t n = 0; n < d.nodes; n++)
        send_line(&d.node[n], order_of(n, "order"));
}

static void start_shim(int64_t i)
{
    struct node *n = &d.node[i];
    struct err err;
    n->fd = -1;
    n->name = str_printf("node%lld", (long long)i);
    n->dir = str_printf("%s/%s/attempts/%lld.%lld", d.dir, n->name, (long long)d.order.job,
                        (long long)d.order.attempt);
    char *path = str_printf("%s/order.json", n->dir);
    json_t *obj = order_of(i, NULL);
    if (fs_mkdirs(n->dir, 0755, &err) != 0 || jsonx_write_file(path, obj, &err) != 0)
        die(err.text);
    json_decref(obj);
    free(path);
    n->shim = fork();
    if (n->shim < 0)
        die("cannot fork belay-shim");
    if (n->shim == 0) {
        setenv("BELAY_NODE", n->name, 1);
        setenv("BELAY_NODE_ADDRESS", "127.0.0.1", 1);
        execl(d.shim, d.shim, n->dir, (char *)NULL);
        _exit(127);
    }
}

static void connect_shim(struct node *n)
{
    char *path = str_printf("%s/shim.sock", n->dir);
    struct err err;
    if (n->fd >= 0)
        close(n->fd);
    n->len = 0;
    for (int i = 0; i < 1000; i++) {
        n->fd = unixsock_connect(path, 0, &err);
        if (n->fd >= 0 || waitpid(n->shim, NULL, WNOHANG) != 0)
            break;
        poll(NULL, 0, 10);
    }
    if (n->fd < 0)
        die(err.text);
    free(path);
}

/* ---- what shims say ---- */

static void print_report(const struct node *n)
{
    printf("%s %s rev=%lld", n->name, report_phase_name(n->report.phase), (long long)n->report.rev);
    for (size_t i = 0; i < n->report.n_ranks; i++)
        printf(" %lld:%s", (long long)n->report.ranks[i].rank, rank_state_name(n->report.ranks[i].state));
    printf("%s%s\n", *n->report.reason ? " reason: " : "", n->report.reason);
}

static void hear(struct node *n, const json_t *msg)
{
    struct err err;
    const char *type = jsonx_str_or(msg, "t", "");
    if (strcmp(type, "progress") == 0) {
        char *text = json_dumps(json_object_get(msg, "values"), JSON_COMPACT | JSON_SORT_KEYS);
        printf("progress %lld %s\n", (long long)jsonx_int_or(msg, "rank", -1), text);
        free(text);
    } else if (strcmp(type, "report") == 0) {
        link_report_clear(&n->report);
        if (link_report_decode(msg, &n->report, &err) != 0)
            die(err.text);
        print_report(n);
        n->over = n->report.phase == REPORT_GONE || n->report.phase == REPORT_REFUSED;
    }
    fflush(stdout);
}

static void read_shim(struct node *n)
{
    n->in = mem_grow(n->in, n->len + 65536, 1);
    ssize_t got = recv(n->fd, n->in + n->len, 65536, MSG_DONTWAIT);
    if (got <= 0) {
        if (got < 0 && errno == EAGAIN)
            return;
        close(n->fd);
        n->fd = -1;
        n->over = n->over || n->shim_killed;
        return;
    }
    n->len += (size_t)got;
    for (char *eol; (eol = memchr(n->in, '\n', n->len));) {
        json_t *msg = json_loadb(n->in, (size_t)(eol - n->in), 0, NULL);
        if (!msg)
            die("a shim sent a line that is not JSON");
        n->len -= (size_t)(eol + 1 - n->in);
        hear(n, msg);
        memmove(n->in, eol + 1, n->len);
        json_decref(msg);
    }
}

/* ---- what the driver does ---- */

static void go(void)
{
    struct link_map_node *map = mem_zero((size_t)d.nodes, sizeof *map);
    for (int64_t n = 0; n < d.nodes; n++) {
        if (d.node[n].report.phase != REPORT_READY) {
            free(map);
            return;
        }
    }
    for (int64_t n = 0; n < d.nodes; n++) {
        map[n] = (struct link_map_node){.node = str_dup(d.node[n].name),
                                        .addr = str_dup("127.0.0.1"),
                                        .port = d.node[n].report.port,
                                        .master_port = d.node[n].report.master_port,
                                        .ranks = mem_zero((size_t)d.ranks, sizeof(int64_t)),
                                        .n_ranks = (size_t)d.ranks};
        for (int64_t i = 0; i < d.ranks; i++)
            map[n].ranks[i] = n * d.ranks + i;
    }
    d.order.map = map;
    d.order.n_map = (size_t)d.nodes;
    d.order.phase = ORDER_GO;
    d.went = true;
    send_orders();
}

static void stop(int64_t grace_ms, bool hard)
{
    d.order.phase = ORDER_STOP;
    d.order.grace_ms = grace_ms;
    d.order.kill = hard;
    send_orders();
}

static struct node *node_in(const char *what)
{
    long n = strtol(strchr(what, ':') + 1, NULL, 10);
    return &d.node[n < d.nodes ? n : 0];
}

static void act(const char *what)
{
    printf("action %s\n", what);
    fflush(stdout); /* a test waits for this line, and no report need follow it */
    if (strncmp(what, "stop:", 5) == 0)
        stop(strtol(what + 5, NULL, 10), false);
    else if (strcmp(what, "stop") == 0)
        stop(d.order.grace_ms, false);
    else if (strcmp(what, "kill") == 0)
        stop(d.order.grace_ms, true);
    else if (strcmp(what, "checkpoint") == 0) {
        d.order.checkpoint++;
        send_orders();
    } else if (strncmp(what, "drop:", 5) == 0)
        connect_shim(node_in(what));
    else if (strncmp(what, "kill-shim:", 10) == 0 || strncmp(what, "term-shim:", 10) == 0) {
        node_in(what)->shim_killed = true;
        kill(node_in(what)->shim, what[0] == 'k' ? SIGKILL : SIGTERM);
    }
}

static bool all_over(void)
{
    bool over = true;
    for (int64_t n = 0; n < d.nodes; n++)
        over = over && d.node[n].over;
    return over;
}

/* A shim that refused ends the attempt everywhere, as the controller would do it. */
static void end_refused(void)
{
    for (int64_t n = 0; n < d.nodes; n++)
        if (d.node[n].report.phase == REPORT_REFUSED && d.order.phase != ORDER_STOP)
            stop(d.order.grace_ms, true);
}

static void turn(void)
{
    struct pollfd fds[NODES_MAX];
    for (int64_t n = 0; n < d.nodes; n++)
        fds[n] = (struct pollfd){.fd = d.node[n].fd, .events = POLLIN};
    poll(fds, (nfds_t)d.nodes, 10);
    for (int64_t n = 0; n < d.nodes; n++)
        if (fds[n].revents)
            read_shim(&d.node[n]);
    if (!d.went)
        go();
    end_refused();
    if (d.next_action < d.n_actions && access(d.actions[d.next_action].file, F_OK) == 0)
        act(d.actions[d.next_action++].what);
}

static void print_ranks(void)
{
    for (int64_t n = 0; n < d.nodes; n++) {
        const struct link_report *r = &d.node[n].report;
        for (size_t i = 0; i < r->n_ranks; i++)
            printf("rank %lld %s pid=%lld code=%d signal=%d connected=%d finalized=%d why=%s\n",
                   (long long)r->ranks[i].rank, rank_state_name(r->ranks[i].state),
                   (long long)r->ranks[i].pid, r->ranks[i].code, r->ranks[i].signal, r->ranks[i].connected,
                   r->ranks[i].finalized, r->ranks[i].why);
    }
}

static int finish(void)
{
    int bad = 0;
    for (int64_t n = 0; n < d.nodes; n++)
        send_line(&d.node[n], json_pack("{s:s}", "t", "release"));
    for (int64_t n = 0; n < d.nodes; n++) {
        int status = 0;
        int64_t until_ms = clock_boot_ms() + 10000;
        pid_t got;
        while ((got = waitpid(d.node[n].shim, &status, WNOHANG)) == 0 && clock_boot_ms() < until_ms)
            poll(NULL, 0, 5);
        if (got == 0)
            kill(d.node[n].shim, SIGKILL);
        if (!d.node[n].shim_killed && (got <= 0 || status != 0))
            bad = 1;
        printf("shim %lld %s\n", (long long)n, got > 0 ? "exited" : "DID NOT EXIT");
        link_report_clear(&d.node[n].report);
        free(d.node[n].in);
        free(d.node[n].dir);
        free(d.node[n].name);
    }
    return bad;
}

static void add_env(const char *text)
{
    const char *eq = strchr(text, '=');
    size_t n = d.order.n_env++;
    d.order.env_keys = mem_grow(d.order.env_keys, n + 1, sizeof(char *));
    d.order.env_values = mem_grow(d.order.env_values, n + 1, sizeof(char *));
    d.order.env_keys[n] = str_printf("%.*s", (int)(eq ? eq - text : 0), text);
    d.order.env_values[n] = str_dup(eq ? eq + 1 : "");
}

static void option(const char *name, char **value)
{
    if (strcmp(name, "--shim") == 0)
        d.shim = value[0];
    else if (strcmp(name, "--dir") == 0)
        d.dir = value[0];
    else if (strcmp(name, "--nodes") == 0)
        d.nodes = strtol(value[0], NULL, 10);
    else if (strcmp(name, "--ranks") == 0)
        d.ranks = strtol(value[0], NULL, 10);
    else if (strcmp(name, "--uid") == 0)
        d.order.uid = strtol(value[0], NULL, 10);
    else if (strcmp(name, "--gid") == 0)
        d.order.gid = strtol(value[0], NULL, 10);
    else if (strcmp(name, "--grace") == 0)
        d.order.grace_ms = strtol(value[0], NULL, 10);
    else if (strcmp(name, "--cwd") == 0)
        d.order.cwd = value[0];
    else if (strcmp(name, "--device") == 0)
        d.order.device = value[0];
    else if (strcmp(name, "--env") == 0)
        add_env(value[0]);
    else if (strcmp(name, "--on") == 0 && d.n_actions < ACTIONS_MAX)
        d.actions[d.n_actions++] = (struct action){.file = value[0], .what = value[1]};
    else
        die(name);
}

int main(int argc, char **argv)
{
    d.order = (struct link_order){.job = 7,
                                  .attempt = 1,
                                  .token = str_printf("%016llx%016llx", (unsigned long long)clock_utc_ms(),
                                                      (unsigned long long)getpid()),
                                  .name = (char *)"drive",
                                  .user = (char *)"tester",
                                  .cwd = (char *)"/",
                                  .spec = (char *)"name: drive\n",
                                  .device = (char *)"cpu",
                                  .reason = (char *)"",
                                  .uid = getuid(),
                                  .gid = getgid(),
                                  .cpus = 1,
                                  .memory = 1 << 20,
                                  .grace_ms = 5000};
    int i = 1;
    for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += strcmp(argv[i], "--on") == 0 ? 3 : 2)
        option(argv[i], argv + i + 1);
    d.order.argv = argv + i + 1;
    d.order.argc = argc > i ? (size_t)(argc - i - 1) : 0;
    d.order.nodes = d.nodes;
    d.order.world = d.nodes * d.ranks;
    for (int64_t n = 0; n < d.nodes; n++)
        start_shim(n);
    for (int64_t n = 0; n < d.nodes; n++)
        connect_shim(&d.node[n]);
    int64_t until_ms = clock_boot_ms() + TIME_MS;
    while (!all_over() && clock_boot_ms() < until_ms)
        turn();
    bool over = all_over();
    print_ranks();
    if (!over) {
        printf("NOT OVER after %d ms\n", TIME_MS);
        die("time is up");
    }
    return finish();
}
