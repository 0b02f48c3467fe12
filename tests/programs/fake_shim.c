/* fake_shim: stands for belay-shim in tests of belay-agent: same files, same socket, but its ranks only wait.
 *
 * usage: fake_shim FOLDER. The job's name in the order chooses what goes wrong: "exits" ends at once, "mute" never listens, "deaf"
 * ignores orders to stop; "sheds" starts in each rank a process that has left session and environment behind. */
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "common/procid.h"
#include "common/unixsock.h"
#include "schema/link.h"

static const char *folder;
static char scratch[128];
static struct link_order order;
static struct link_report report;
static int conn = -1;
static char input[1 << 20];
static size_t input_len;

static void give_up(const struct err *err)
{
    fprintf(stderr, "fake_shim: %s\n", err->text);
    exit(1);
}

static void write_state(void)
{
    struct procid self;
    struct err err;
    char *path = str_printf("%s/state.json", folder);
    json_t *obj = link_report_encode(&report, NULL);
    if (procid_of(0, &self) < 0)
        exit(1);
    jsonx_set(obj, "shim", procid_to_json(&self));
    jsonx_set_str(obj, "scratch", scratch);
    if (jsonx_write_file(path, obj, &err) < 0)
        give_up(&err);
    json_decref(obj);
    free(path);
}

static void say(json_t *msg)
{
    char *text = json_dumps(msg, JSON_COMPACT);
    if (conn >= 0 && (fs_write_all(conn, text, strlen(text)) < 0 || fs_write_all(conn, "\n", 1) < 0)) {
        close(conn);
        conn = -1;
    }
    free(text);
    json_decref(msg);
}

static void enter(enum report_phase phase)
{
    report.phase = phase;
    report.rev++;
    write_state();
    say(link_report_encode(&report, "report"));
}

static void shed(void)
{
    if (fork() == 0 && setsid() >= 0 && fork() == 0 && clearenv() == 0)
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
}

static void start_rank(struct link_rank *rank)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("BELAY_TOKEN", order.token, 1);
        if (strcmp(order.name, "sheds") == 0)
            shed();
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        _exit(127);
    }
    if (pid < 0)
        exit(1); /* never keep -1 where a pid is to be killed later: it means every process */
    rank->pid = pid;
    rank->state = RANK_RUNNING;
    rank->started_ms = clock_utc_ms();
}

static void go(void)
{
    for (size_t i = 0; i < report.n_ranks; i++)
        start_rank(&report.ranks[i]);
    enter(REPORT_RUNNING);
    for (size_t i = 0; i < report.n_ranks; i++) {
        json_t *msg = json_pack("{s:s,s:I,s:I,s:I,s:{s:s}}", "t", "progress", "job", (json_int_t)order.job,
                                "attempt", (json_int_t)order.attempt, "rank",
                                (json_int_t)report.ranks[i].rank, "values", "STEP", "1");
        say(msg);
    }
}

static void stop(void)
{
    for (size_t i = 0; i < report.n_ranks; i++) {
        struct link_rank *rank = &report.ranks[i];
        if (rank->state != RANK_RUNNING)
            continue;
        kill((pid_t)rank->pid, SIGKILL);
        waitpid((pid_t)rank->pid, NULL, 0);
        rank->state = RANK_EXITED;
        rank->signal = SIGKILL;
    }
    enter(REPORT_GONE);
}

static void obey(const json_t *msg)
{
    struct err err;
    enum order_phase was = order.phase;
    link_order_clear(&order);
    if (link_order_decode(msg, &order, &err) < 0)
        give_up(&err);
    if (order.phase == ORDER_GO && was == ORDER_PREPARE)
        go();
    if (order.phase == ORDER_STOP && report.phase != REPORT_GONE && strcmp(order.name, "deaf") != 0)
        stop();
}

static void on_line(const char *line)
{
    json_t *msg = json_loads(line, 0, NULL);
    const char *type = jsonx_str_or(msg, "t", "");
    if (strcmp(type, "order") == 0)
        obey(msg);
    if (strcmp(type, "release") == 0) {
        rmdir(scratch);
        exit(0);
    }
    json_decref(msg);
}

static void pump(void)
{
    ssize_t n = read(conn, input + input_len, sizeof input - input_len - 1);
    if (n <= 0) {
        close(conn);
        conn = -1;
        return;
    }
    input_len += (size_t)n;
    for (char *end; (end = memchr(input, '\n', input_len));) {
        *end = '\0';
        on_line(input);
        size_t used = (size_t)(end - input) + 1;
        memmove(input, input + used, input_len -= used);
    }
}

static void serve(int listener)
{
    for (;;) {
        struct pollfd p[2] = {{listener, POLLIN, 0}, {conn, POLLIN, 0}};
        if (poll(p, 2, -1) < 0)
            exit(1);
        if (p[1].revents && conn >= 0)
            pump();
        if (!p[0].revents)
            continue;
        if (conn >= 0)
            close(conn);
        conn = accept(listener, NULL, NULL);
        input_len = 0;
        say(link_report_encode(&report, "report"));
    }
}

static void begin(void)
{
    struct err err;
    char *path = str_printf("%s/order.json", folder);
    json_t *obj = jsonx_read_file(path, 1u << 24, &err);
    if (!obj || link_order_decode(obj, &order, &err) < 0)
        give_up(&err);
    json_decref(obj);
    free(path);
    report =
        (struct link_report){.job = order.job, .attempt = order.attempt, .port = 1, .n_ranks = order.n_ranks};
    report.ranks = mem_zero(order.n_ranks + 1, sizeof *report.ranks);
    for (size_t i = 0; i < order.n_ranks; i++)
        report.ranks[i] = (struct link_rank){.rank = order.ranks[i].rank, .slot = order.ranks[i].slot};
}

int main(int argc, char **argv)
{
    struct err err;
    if (argc != 2)
        return 2;
    folder = argv[1];
    begin();
    if (strcmp(order.name, "exits") == 0) {
        fputs("there is no room for this job\n", stderr);
        return 3;
    }
    if (strcmp(order.name, "mute") == 0)
        for (;;)
            pause();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(scratch, sizeof scratch, "/dev/shm/belay-%ld.%ld-XXXXXX", (long)order.job, (long)order.attempt);
    if (!mkdtemp(scratch))
        return 1;
    char *sock = str_printf("%s/shim.sock", folder);
    int listener = unixsock_listen(sock, 0600, &err);
    if (listener < 0)
        give_up(&err);
    free(sock);
    enter(REPORT_PREPARING);
    enter(REPORT_READY);
    serve(listener);
}
