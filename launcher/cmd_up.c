/* belay up: a whole cluster on this host.
 *
 * Level-triggered: it compares what cluster.json says with the processes that live (by pid file) and starts what is missing,
 * so it may be run at any time and any number of times. belayd takes its old port if it can, so living agents find it again. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/cluster.h"
#include "launcher/jobfile.h"
#include "launcher/service.h"

#define START_LIMIT_MS 15000
#define CMDLINE_MAX    65536    /* bytes of an agent's command line */
#define POLL_NS        10000000 /* how often it is looked whether a program is ready */

struct up {
    const char *dir;
    struct cluster cluster;
    struct client *client;
    struct service belayd;
    struct service *agents; /* cluster.nodes of them */
    int64_t started;        /* agents started now */
    int64_t deadline_ms;
};

static int fail(const struct err *err)
{
    return cli_fail(CLI_UNREACHABLE, "up: %s", err->text);
}

static int64_t cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
}

/* ---- belayd ---- */

/* The port of the agent link, kept over restarts; 0 = none yet. */
static int64_t read_port(const char *dir)
{
    char *path = str_printf("%s/belayd.port", dir);
    char *text = fs_read(path, 64, NULL, NULL);
    int64_t port = 0;
    if (text) {
        text[strcspn(text, " \n")] = '\0';
        if (args_int64(text, &port) != 0 || port < 1 || port > 65535)
            port = 0;
    }
    free(text);
    free(path);
    return port;
}

static int start_belayd(struct up *u, struct err *err)
{
    char *program = service_program("belayd", err);
    /* this host's processors stand in for whatever devices the file has */
    const char *argv[] = {program,         "--dir",  u->dir, u->cluster.file ? "--cluster" : NULL,
                          u->cluster.file, "--play", NULL};
    int rc = program ? service_start(&u->belayd, u->dir, (char *const *)(uintptr_t)argv, err) : -1;
    free(program);
    return rc;
}

static bool belayd_answers(struct up *u)
{
    struct client_reply reply;
    bool ok = client_try(u->client, "GET", NULL, &reply, "/v1/cluster") == CLI_DONE && read_port(u->dir) > 0;
    client_reply_clear(&reply);
    return ok;
}

static int bring_up_belayd(struct up *u, struct err *err)
{
    u->belayd.what = str_dup("belayd");
    u->belayd.pid_file = str_printf("%s/belayd.pid", u->dir);
    u->belayd.log = str_printf("%s/belayd.log", u->dir);
    if (!service_alive(&u->belayd) && start_belayd(u, err) != 0)
        return -1;
    while (!belayd_answers(u)) {
        if (service_check(&u->belayd, err) != 0)
            return -1;
        if (clock_boot_ms() > u->deadline_ms) {
            char *tail = service_log_tail(&u->belayd);
            err_set(err, "belayd (pid %d) does not answer after %d s; its log %s ends: %s",
                    (int)u->belayd.id.pid, START_LIMIT_MS / 1000, u->belayd.log, tail);
            free(tail);
            return -1;
        }
        nap();
    }
    return 0;
}

/* ---- agents ---- */

static int start_agent(struct up *u, int64_t i, struct err *err)
{
    const struct cluster *c = &u->cluster;
    char *program = service_program("belay-agent", err), *name = cluster_node_name(c, i);
    char *dir = cluster_agent_dir(u->dir, name), *secret = str_printf("%s/secret", u->dir);
    char *controller = str_printf("127.0.0.1:%lld", (long long)read_port(u->dir));
    char *rack = str_printf("rack%lld", (long long)c->rack[i]);
    char *slots = str_printf("%lld", (long long)cluster_node_slots(c, i));
    const char *argv[] = {program,
                          "--dir",
                          dir,
                          "--name",
                          name,
                          "--controller",
                          controller,
                          "--secret-file",
                          secret,
                          "--rack",
                          c->file ? "" : rack,
                          "--pod", /* the file says it */
                          c->file ? "" : "pod0",
                          cluster_node_slots(c, i) ? "--slots" : NULL,
                          slots,
                          NULL};
    int rc = -1;
    if (program && fs_mkdirs(dir, 0700, err) == 0)
        rc = service_start(&u->agents[i], dir, (char *const *)(uintptr_t)argv, err);
    free(slots);
    free(rack);
    free(controller);
    free(secret);
    free(name);
    free(dir);
    free(program);
    return rc;
}

/* belayd gets its old port unless somebody else has it meanwhile; then an agent of old looks for it in the wrong place. */
static bool knows_port(const struct up *u, const struct service *s)
{
    char *path = str_printf("/proc/%d/cmdline", (int)s->id.pid);
    char *controller = str_printf("127.0.0.1:%lld", (long long)read_port(u->dir));
    size_t len = 0;
    char *text = fs_read(path, CMDLINE_MAX, &len, NULL);
    bool found = false;
    for (const char *at = text; text && !found && at < text + len; at += strlen(at) + 1)
        found = strcmp(at, controller) == 0;
    free(text);
    free(controller);
    free(path);
    return found;
}

/* SIGTERM: its shims and ranks go on, and the next agent takes them up. */
static void stop_stray(struct up *u, struct service *s)
{
    procid_kill(&s->id, SIGTERM); /* one that is gone already is what is wanted */
    while (procid_alive(&s->id) && clock_boot_ms() < u->deadline_ms)
        nap();
}

static int bring_up_agents(struct up *u, struct err *err)
{
    u->agents = mem_zero((size_t)u->cluster.nodes, sizeof *u->agents);
    for (int64_t i = 0; i < u->cluster.nodes; i++) {
        struct service *s = &u->agents[i];
        char *name = cluster_node_name(&u->cluster, i), *dir = cluster_agent_dir(u->dir, name);
        s->what = str_printf("the agent of %s", name);
        s->pid_file = str_printf("%s/agent.pid", dir);
        s->log = str_printf("%s/agent.log", dir);
        free(dir);
        free(name);
        if (service_alive(s) && !knows_port(u, s))
            stop_stray(u, s);
        if (service_alive(s))
            continue;
        if (start_agent(u, i, err) != 0)
            return -1;
        u->started++;
    }
    return 0;
}

/* ---- until every node is there ---- */

static const json_t *find_node(const json_t *nodes, const char *name)
{
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        if (strcmp(jsonx_str_or(node, "name", ""), name) == 0)
            return node;
    }
    return NULL;
}

/* The first node that is not there yet, or -1. Draining and drained nodes are there. */
static int64_t first_missing(const struct up *u, const json_t *nodes)
{
    for (int64_t i = 0; i < u->cluster.nodes; i++) {
        char *name = cluster_node_name(&u->cluster, i);
        const char *state = jsonx_str_or(find_node(nodes, name), "state", "absent");
        free(name);
        if (strcmp(state, "up") != 0 && strcmp(state, "draining") != 0 && strcmp(state, "drained") != 0)
            return i;
    }
    return -1;
}

static int explain_missing(struct up *u, int64_t i, struct err *err)
{
    char *tail = service_log_tail(&u->agents[i]), *name = cluster_node_name(&u->cluster, i);
    err_set(err, "%s is not up after %d s; the log %s ends: %s", name, START_LIMIT_MS / 1000,
            u->agents[i].log, tail);
    free(name);
    free(tail);
    return -1;
}

static int wait_nodes(struct up *u, struct err *err)
{
    for (;;) {
        struct client_reply reply;
        int rc = client_try(u->client, "GET", NULL, &reply, "/v1/nodes");
        int64_t missing = rc == CLI_DONE ? first_missing(u, reply.body) : 0;
        client_reply_clear(&reply);
        if (missing < 0)
            return 0;
        if (service_check(&u->belayd, err) != 0 || service_check(&u->agents[missing], err) != 0)
            return -1;
        if (clock_boot_ms() > u->deadline_ms)
            return explain_missing(u, missing, err);
        nap();
    }
}

/* ---- all of it ---- */

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void say(const struct up *u, bool was_there)
{
    const struct cluster *c = &u->cluster;
    if (!u->belayd.started && !u->started) {
        printf("The cluster at %s is up already", u->dir);
    } else {
        if (was_there && u->belayd.started)
            printf("Started belayd (pid %d).\n", (int)u->belayd.id.pid);
        for (int64_t i = 0; was_there && i < c->nodes; i++)
            if (u->agents[i].started)
                printf("Started %s (pid %d).\n", u->agents[i].what, (int)u->agents[i].id.pid);
        printf("The cluster at %s is up", u->dir);
    }
    printf(": %lld node%s", (long long)c->nodes, plural(c->nodes));
    if (c->slots)
        printf(" with %lld slot%s each", (long long)c->slots, plural(c->slots));
    printf(" in %lld rack%s", (long long)c->racks, plural(c->racks));
    printf(c->file ? " of %s.\n" : ".\n", c->file);
}

/* What the command line asks for; 0 and NULL = not said. */
struct wish {
    int64_t nodes, slots, racks;
    const char *file;
};

/* The nodes of a cluster file, from its own path so that it is found from everywhere later. */
static int ask_file(struct up *u, const struct wish *wish, const char *file)
{
    static struct job_diagnostics diagnostics;
    struct cluster_spec *spec = NULL;
    struct err err = {""};
    bool was_there = u->cluster.nodes > 0;
    char *path = realpath(file, NULL);
    int rc = CLI_DONE;
    if (wish->slots || wish->racks) {
        rc = cli_fail(CLI_USAGE,
                      "up: slots and racks are what the cluster file says: leave --slots and --racks away");
    } else if (cluster_spec_load(path ? path : file, &spec, &diagnostics) != 0) {
        jobfile_print_diagnostics(&diagnostics);
        rc = CLI_USAGE;
    } else if (cluster_ask_file(&u->cluster, spec, path, wish->nodes, &err) != 0) {
        rc = cli_fail(was_there ? CLI_REFUSED : CLI_USAGE, "up: %s", err.text);
    }
    cluster_spec_free(spec);
    free(path);
    return rc;
}

static int ask(struct up *u, const struct wish *wish)
{
    struct err err = {""};
    bool was_there = u->cluster.nodes > 0;
    const char *file = wish->file ? wish->file : u->cluster.file;
    if (file)
        return ask_file(u, wish, file);
    if (cluster_ask(&u->cluster, wish->nodes, wish->slots, wish->racks, cores(), &err) != 0)
        return cli_fail(was_there ? CLI_REFUSED : CLI_USAGE, "up: %s", err.text);
    return CLI_DONE;
}

static int bring_up(struct up *u, const struct wish *wish)
{
    struct err err = {""};
    bool was_there;
    if (cluster_read(u->dir, &u->cluster, &err) != 0)
        return cli_fail(CLI_REFUSED, "up: %s", err.text);
    was_there = u->cluster.nodes > 0;
    int rc = ask(u, wish);
    if (rc != CLI_DONE)
        return rc;
    if (cluster_write(u->dir, &u->cluster, &err) != 0)
        return cli_fail(CLI_REFUSED, "up: %s", err.text);
    u->deadline_ms = clock_boot_ms() + START_LIMIT_MS;
    if (bring_up_belayd(u, &err) != 0 || bring_up_agents(u, &err) != 0 || wait_nodes(u, &err) != 0)
        return fail(&err);
    say(u, was_there);
    return CLI_DONE;
}

static void clear(struct up *u)
{
    service_clear(&u->belayd);
    for (int64_t i = 0; u->agents && i < u->cluster.nodes; i++)
        service_clear(&u->agents[i]);
    free(u->agents);
    cluster_clear(&u->cluster);
    client_close(u->client);
}

static int up(const struct command *self, int argc, char **argv)
{
    struct wish wish = {0};
    const struct args_option options[] = {
        ARGS_OPTION_COUNT("nodes", 'n', &wish.nodes, 1, UP_NODES_MAX, "N",
                          "nodes to simulate on this host (1)"),
        ARGS_OPTION_COUNT("slots", 's', &wish.slots, 1, UP_SLOTS_MAX, "M",
                          "CPU slots of each node (GPUs, else cores)"),
        ARGS_OPTION_COUNT("racks", 'r', &wish.racks, 1, UP_NODES_MAX, "R",
                          "racks the nodes are dealt to (1)"),
        ARGS_OPTION_TEXT("cluster", 0, &wish.file, "FILE",
                         "play the first nodes of a cluster file, with its names, places and slots"),
    };
    struct args args;
    struct err err = {""};
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    struct up u = {.dir = args.dir};
    int lock = fs_mkdirs(args.dir, 0700, &err) == 0 ? cluster_lock(args.dir, &err) : -1;
    if (lock < 0) {
        rc = cli_fail(CLI_REFUSED, "up: %s", err.text);
    } else {
        u.client = client_open(args.dir);
        rc = bring_up(&u, &wish);
        close(lock);
    }
    clear(&u);
    args_clear(&args);
    return rc;
}

const struct command command_up = {
    .name = "up",
    .args = "",
    .help =
        "Starts a whole cluster on this host: belayd and its agents; again: starts whatever of it has died",
    .examples = "  belay up\n  belay up --nodes 4 --slots 2 --racks 2 --dir /tmp/cluster\n"
                "  belay up --cluster cluster.yaml --nodes 8\n",
    .run = up,
};
