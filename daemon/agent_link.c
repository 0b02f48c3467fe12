/* agent_link: the listener, the peers by node name, and the commit hook.
 *
 * Always holds: at most one logged-in peer a node (the newest); the core hears "link lost" exactly when a node's last peer is
 * gone, not when a newer one took its place; a member on the due list has output waiting for a commit.
 * Strangers are bounded: at most STRANGERS_MAX connections that have not logged in; one more pushes out the oldest, which a real
 * agent, answering in milliseconds, is not. */
#include "daemon/agent_link.h"

#include <event2/listener.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "daemon/agent_peer.h"

#define STRANGERS_MAX 512
#define BUCKETS       4096 /* by node name; the largest cluster planned for has 3,072 nodes */
#define BACKLOG       4096 /* all agents come back at once after a restart */

/* A peer's places: among the strangers, or in a bucket once logged in; and on the due list. */
struct member {
    TAILQ_ENTRY(member) in_strangers; /* oldest first */
    TAILQ_ENTRY(member) in_due;
    LIST_ENTRY(member) in_bucket;
    struct agent_link *link;
    struct agent_peer *peer;
    bool logged_in, is_due, replaced;
};

struct agent_link {
    struct agent_peer_owner owner;
    struct evconnlistener *listener;
    int port;
    LIST_HEAD(bucket, member) bucket[BUCKETS];
    TAILQ_HEAD(members, member) strangers, due;
    size_t n_strangers;
    bool ending; /* links that end now are not lost: belayd goes, nodes do not */
};

static size_t bucket_of(const char *node)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (; *node; node++)
        h = (h ^ (unsigned char)*node) * 1099511628211u;
    return (h ^ h >> 32) % BUCKETS;
}

static struct member *find(struct agent_link *link, const char *node)
{
    for (struct member *m = LIST_FIRST(&link->bucket[bucket_of(node)]); m; m = LIST_NEXT(m, in_bucket)) {
        if (strcmp(agent_peer_node(m->peer), node) == 0)
            return m;
    }
    return NULL;
}

/* ---- what a peer tells its owner ---- */

static void on_logged_in(void *ctx, void *place)
{
    struct agent_link *link = ctx;
    struct member *m = place;
    const char *node = agent_peer_node(m->peer);
    struct member *older = find(link, node);
    if (older) {
        older->replaced = true;
        agent_peer_close(older->peer);
    }
    TAILQ_REMOVE(&link->strangers, m, in_strangers);
    link->n_strangers--;
    LIST_INSERT_HEAD(&link->bucket[bucket_of(node)], m, in_bucket);
    m->logged_in = true;
}

static void on_due(void *ctx, void *place)
{
    struct agent_link *link = ctx;
    struct member *m = place;
    if (!m->is_due)
        TAILQ_INSERT_TAIL(&link->due, m, in_due);
    m->is_due = true;
}

static void on_gone(void *ctx, void *place)
{
    struct agent_link *link = ctx;
    struct member *m = place;
    if (m->is_due)
        TAILQ_REMOVE(&link->due, m, in_due);
    if (m->logged_in) {
        LIST_REMOVE(m, in_bucket);
    } else {
        TAILQ_REMOVE(&link->strangers, m, in_strangers);
        link->n_strangers--;
    }
    if (m->logged_in && !m->replaced && !link->ending) {
        core_node_link_lost(turn_core(link->owner.turn), turn_time(), agent_peer_node(m->peer));
        turn_poke(link->owner.turn);
    }
    free(m);
}

/* ---- after a commit ---- */

static void on_commit(void *ctx, const struct core_changes *changes)
{
    struct agent_link *link = ctx;
    struct member *m;
    while ((m = TAILQ_FIRST(&link->due))) {
        TAILQ_REMOVE(&link->due, m, in_due);
        m->is_due = false;
        agent_peer_flush(m->peer);
    }
    for (size_t i = 0; i < changes->n_order_nodes; i++) {
        m = find(link, changes->order_nodes[i]);
        if (m)
            agent_peer_send_desired(m->peer);
    }
}

/* ---- listening ---- */

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *addr, int len,
                      void *ctx)
{
    struct agent_link *link = ctx;
    char host[48], port[8], from[64] = "somewhere";
    (void)listener;
    if (getnameinfo(addr, (socklen_t)len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(from, sizeof(from), "%s port %s", host, port);
    if (link->n_strangers >= STRANGERS_MAX)
        agent_peer_close(TAILQ_FIRST(&link->strangers)->peer);
    struct member *m = mem_zero(1, sizeof(*m));
    m->link = link;
    TAILQ_INSERT_TAIL(&link->strangers, m, in_strangers);
    link->n_strangers++;
    m->peer = agent_peer_new(&link->owner, m, fd, from);
}

static int bind_one(const struct addrinfo *ai)
{
    const int on = 1;
    int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on,
                     sizeof(on)); /* without it a restart waits for old connections */
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    close(fd);
    return -1;
}

static int bind_port(const char *host, int port, struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[8];
    int fd = -1;
    snprintf(service, sizeof(service), "%d", port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0)
        return err_set(err, "cannot listen at %s: %s", host, gai_strerror(rc));
    for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
        fd = bind_one(ai);
    if (fd < 0)
        err_sys(err, "cannot listen at %s:%d for agents (choose another with --listen)", host, port);
    freeaddrinfo(list);
    return fd;
}

static int bound_port(int fd)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    char port[8] = "0";
    if (getsockname(fd, (struct sockaddr *)&addr, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&addr, len, NULL, 0, port, sizeof(port),
                          NI_NUMERICSERV); /* else "0" */
    return (int)strtol(port, NULL, 10);
}

/* With port 0 the last run's port is taken again if it is free: agents find us at once after a restart. */
static int listen_socket(const struct agent_link_config *config, struct err *err)
{
    int fd = -1;
    if (config->port == 0 && config->preferred_port > 0)
        fd = bind_port(config->host, config->preferred_port, NULL);
    return fd >= 0 ? fd : bind_port(config->host, config->port, err);
}

struct agent_link *agent_link_new(struct event_base *base, struct turn *turn,
                                  const struct agent_link_config *config, struct err *err)
{
    int fd = listen_socket(config, err);
    if (fd < 0)
        return NULL;
    struct agent_link *link = mem_zero(1, sizeof(*link));
    TAILQ_INIT(&link->strangers);
    TAILQ_INIT(&link->due);
    link->owner = (struct agent_peer_owner){.ctx = link,
                                            .base = base,
                                            .turn = turn,
                                            .secret = config->secret,
                                            .heartbeat_ms = config->heartbeat_ms,
                                            .logs = agent_logs_new(base),
                                            .desired = desired_new(),
                                            .logged_in = on_logged_in,
                                            .due = on_due,
                                            .gone = on_gone};
    link->port = bound_port(fd);
    link->listener =
        evconnlistener_new(base, on_accept, link, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!link->listener)
        abort(); /* out of memory */
    turn_on_commit(turn, on_commit, link);
    return link;
}

void agent_link_free(struct agent_link *link)
{
    if (!link)
        return;
    link->ending = true;
    evconnlistener_free(link->listener);
    for (size_t i = 0; i < BUCKETS; i++) {
        while (!LIST_EMPTY(&link->bucket[i]))
            agent_peer_close(LIST_FIRST(&link->bucket[i])->peer);
    }
    while (!TAILQ_EMPTY(&link->strangers))
        agent_peer_close(TAILQ_FIRST(&link->strangers)->peer);
    agent_logs_free(link->owner.logs);
    desired_free(link->owner.desired);
    free(link);
}

int agent_link_port(const struct agent_link *link)
{
    return link->port;
}

int agent_link_read_log(struct agent_link *link, const struct agent_log_request *request,
                        void (*fn)(void *ctx, const struct agent_log *log, const char *error), void *ctx,
                        struct err *err)
{
    struct member *m = find(link, request->node);
    if (!m)
        return err_set(err, "node %s has no link now; its logs can be read again when its agent is back",
                       request->node);
    agent_logs_ask(link->owner.logs, m->peer, request, fn, ctx);
    return 0;
}
