/* belay down: ends a cluster that `belay up` started.
 *
 * Agents first (SIGINT: each kills its attempts and goes), then what agents that had died left behind, then belayd (SIGTERM).
 * Returns only when the processes are gone; what could not be ended is named. Nothing on disk is removed. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/cluster.h"
#include "launcher/leftovers.h"
#include "launcher/service.h"
#include "schema/states.h"

#define STOP_LIMIT_MS 20000 /* then SIGKILL */
#define KIND_LIMIT_MS 3000
#define KILL_LIMIT_MS 5000
#define POLL_NS       5000000

struct down {
    const char *dir;
    char **agent_dirs;
    struct service *services; /* the agents, then belayd */
    size_t n_agents;
    size_t stopped, survivors;
    int64_t unfinished; /* jobs that go on at the next up; -1 = unknown */
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
}

static void find_agents(struct down *d)
{
    char *path = str_printf("%s/agents", d->dir);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) { // NOLINT(concurrency-mt-unsafe)
        if (e->d_name[0] == '.')
            continue;
        d->agent_dirs = mem_grow(d->agent_dirs, d->n_agents + 1, sizeof *d->agent_dirs);
        d->agent_dirs[d->n_agents++] = str_printf("%s/%s", path, e->d_name);
    }
    if (dir)
        closedir(dir);
    free(path);
}

static void find_services(struct down *d)
{
    find_agents(d);
    d->services = mem_zero(d->n_agents + 1, sizeof *d->services);
    for (size_t i = 0; i < d->n_agents; i++) {
        d->services[i].what = str_printf("the agent of %s", strrchr(d->agent_dirs[i], '/') + 1);
        d->services[i].pid_file = str_printf("%s/agent.pid", d->agent_dirs[i]);
        service_alive(&d->services[i]);
    }
    d->services[d->n_agents].what = str_dup("belayd");
    d->services[d->n_agents].pid_file = str_printf("%s/belayd.pid", d->dir);
    service_alive(&d->services[d->n_agents]);
}

static void count_unfinished(struct down *d)
{
    struct client *client = client_open(d->dir);
    struct client_reply reply;
    size_t i;
    json_t *job;
    d->unfinished = -1;
    if (client_try(client, "GET", NULL, &reply, "/v1/jobs") == CLI_DONE) {
        d->unfinished = 0;
        json_array_foreach(reply.body, i, job)
        {
            int state = job_state_parse(jsonx_str_or(job, "state", ""));
            d->unfinished += state >= 0 && !job_state_final((enum job_state)state);
        }
    }
    client_reply_clear(&reply);
    client_close(client);
}

static bool any_alive(struct service *services, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (services[i].id.pid && procid_alive(&services[i].id))
            return true;
    return false;
}

static void signal_all(struct service *services, size_t n, int sig)
{
    for (size_t i = 0; i < n; i++)
        if (services[i].id.pid)
            procid_kill(&services[i].id, sig); /* one that is gone already is what is wanted */
}

static void wait_gone(struct service *services, size_t n, int64_t limit_ms)
{
    int64_t end = clock_boot_ms() + limit_ms;
    while (any_alive(services, n) && clock_boot_ms() < end)
        nap();
}

/* Ends services kindly, then not; names those that stay. */
static void stop(struct down *d, struct service *services, size_t n, int sig)
{
    signal_all(services, n, sig);
    wait_gone(services, n, STOP_LIMIT_MS);
    if (any_alive(services, n)) {
        signal_all(services, n, SIGKILL);
        wait_gone(services, n, KILL_LIMIT_MS);
    }
    for (size_t i = 0; i < n; i++) {
        if (!services[i].id.pid)
            continue;
        d->stopped++;
        if (procid_alive(&services[i].id)) {
            cli_fail(CLI_REFUSED, "down: %s (pid %d) does not end", services[i].what,
                     (int)services[i].id.pid);
            d->survivors++;
        }
    }
}

/* Until nothing of any agent is left, or the time is over. How many were found alive at the last look. */
static size_t end_leftovers(struct down *d, bool kindly, int64_t limit_ms, pid_t *pid)
{
    int64_t end = clock_boot_ms() + limit_ms;
    for (;;) {
        size_t found = 0;
        for (size_t i = 0; i < d->n_agents; i++)
            found += leftovers_end(d->agent_dirs[i], kindly, pid);
        d->stopped += found;
        if (found == 0 || clock_boot_ms() >= end)
            return found;
        nap();
    }
}

static void stop_leftovers(struct down *d)
{
    int *locks = mem_zero(d->n_agents + 1, sizeof *locks);
    pid_t pid = 0;
    for (size_t i = 0; i < d->n_agents; i++)
        locks[i] = leftovers_lock(d->agent_dirs[i]);
    (void)end_leftovers(d, true, KIND_LIMIT_MS, &pid);
    size_t left = end_leftovers(d, false, KILL_LIMIT_MS, &pid);
    if (left > 0)
        cli_fail(CLI_REFUSED, "down: %zu processes of jobs do not end (one is pid %d)", left, (int)pid);
    for (size_t i = 0; i < d->n_agents; i++) {
        if (left == 0)
            leftovers_clean(d->agent_dirs[i]);
        if (locks[i] >= 0)
            close(locks[i]);
    }
    d->survivors += left;
    free(locks);
}

static void say(const struct down *d)
{
    if (d->stopped == 0)
        printf("No cluster runs at %s.\n", d->dir);
    else
        printf("The cluster at %s is down.\n", d->dir);
    if (d->unfinished > 0)
        printf("%lld unfinished job%s will go on at the next `belay up --dir %s`.\n",
               (long long)d->unfinished, d->unfinished == 1 ? "" : "s", d->dir);
}

static int bring_down(struct down *d)
{
    find_services(d);
    if (d->services[d->n_agents].id.pid)
        count_unfinished(d);
    stop(d, d->services, d->n_agents, SIGINT);
    stop_leftovers(d);
    stop(d, &d->services[d->n_agents], 1, SIGTERM);
    if (d->survivors)
        return CLI_REFUSED;
    say(d);
    return CLI_DONE;
}

static void clear(struct down *d)
{
    for (size_t i = 0; i <= d->n_agents && d->services; i++)
        service_clear(&d->services[i]);
    for (size_t i = 0; i < d->n_agents; i++)
        free(d->agent_dirs[i]);
    free(d->agent_dirs);
    free(d->services);
}

static int down(const struct command *self, int argc, char **argv)
{
    struct args args;
    struct err err = {""};
    int rc = args_parse(self, NULL, 0, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    struct down d = {.dir = args.dir};
    int lock = access(args.dir, F_OK) == 0 ? cluster_lock(args.dir, &err) : -1;
    if (lock >= 0) {
        rc = bring_down(&d);
        close(lock);
    } else if (*err.text) {
        rc = cli_fail(CLI_REFUSED, "down: %s", err.text);
    } else {
        say(&d);
        rc = CLI_DONE;
    }
    clear(&d);
    args_clear(&args);
    return rc;
}

const struct command command_down = {
    .name = "down",
    .args = "",
    .help = "Ends the cluster that `belay up` started; unfinished jobs go on at the next `belay up`",
    .examples = "  belay down\n  belay down --dir /tmp/cluster\n",
    .run = down,
};
