/* belay logs: what ranks have written, of any attempt; -f goes on to the job's end, also over restarts. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/jsonx.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/find.h"
#include "launcher/jobview.h"
#include "launcher/logstream.h"
#include "launcher/longpoll.h"

#define TAIL_MAX 100000 /* lines */

struct logs {
    struct client *client;
    struct args args;
    int64_t rank, attempt, tail; /* -1 = not given */
    bool all, follow;
    int64_t id;
    json_t *job;
};

/* ---- to the end of what is there ---- */

static struct logstream *open_ranks(const struct logs *l, int64_t first, int64_t last, int64_t attempt)
{
    struct logstream *ls = logstream_new(l->client, l->id, stdout, l->all);
    for (int64_t rank = first; rank <= last; rank++)
        logstream_add(ls, rank, attempt, l->tail);
    return ls;
}

/* Rank after rank, so that each one's output stays together. */
static int print_once(const struct logs *l, int64_t first, int64_t last, int64_t attempt)
{
    int rc = CLI_DONE;
    for (int64_t rank = first; rank <= last; rank++) {
        struct logstream *ls = open_ranks(l, rank, rank, attempt);
        int result = logstream_finish(ls);
        rc = rc ? rc : result;
        logstream_free(ls);
    }
    return rc;
}

/* ---- as it grows ---- */

struct following {
    const struct logs *logs;
    struct longpoll *poll;
    struct logstream *stream;
    bool over;
    int exit_code;
};

static void ask(struct following *f, const json_t *job)
{
    longpoll_ask(f->poll, 0, "/v1/jobs/%lld?rev=%lld&wait=%d", (long long)f->logs->id,
                 (long long)jsonx_int_or(job, "rev", 0), CLIENT_POLL_S);
}

static void step(struct following *f)
{
    struct client_reply reply;
    enum longpoll_result result = longpoll_step(f->poll, &reply);
    if (result == LONGPOLL_NOTHING)
        return;
    f->over = result == LONGPOLL_FAILED || jobview_final(reply.body);
    if (result == LONGPOLL_FAILED)
        f->exit_code = cli_fail(reply.exit_code, "%s", reply.err.text);
    else
        logstream_job(f->stream, jsonx_int_or(reply.body, "attempt", 0), f->over);
    if (!f->over)
        ask(f, reply.body);
    client_reply_clear(&reply);
}

static int follow_ranks(const struct logs *l, int64_t first, int64_t last, int64_t attempt)
{
    struct following f = {
        .logs = l, .poll = longpoll_new(l->client), .stream = open_ranks(l, first, last, attempt)};
    f.over = jobview_final(l->job);
    if (!f.over)
        ask(&f, l->job);
    while (!f.over) {
        int pause = logstream_step(f.stream), poll = longpoll_pause(f.poll);
        pause = poll < pause ? poll : pause;
        client_wait(l->client, -1, pause < 1000 ? pause : 1000);
        step(&f);
    }
    if (f.exit_code == CLI_DONE)
        f.exit_code = logstream_finish(f.stream);
    logstream_free(f.stream);
    longpoll_free(f.poll);
    return f.exit_code;
}

/* ---- which ---- */

static int show(struct logs *l)
{
    int64_t world = jsonx_int_or(l->job, "ranks", 1), newest = jsonx_int_or(l->job, "attempt", 0);
    int64_t attempt = l->attempt > 0 ? l->attempt : newest;
    int64_t first = l->rank > 0 ? l->rank : 0, last = l->all ? world - 1 : first;
    if (first >= world)
        return cli_fail(CLI_NO_SUCH, "job %lld has no rank %lld: its ranks are 0 to %lld", (long long)l->id,
                        (long long)first, (long long)world - 1);
    if (newest == 0 && !l->follow)
        return cli_fail(CLI_NO_SUCH, "job %lld has not started yet (%s): `belay logs -f %lld` waits for it",
                        (long long)l->id, jsonx_str_or(l->job, "reason", "pending"), (long long)l->id);
    if (attempt > newest && l->attempt > 0)
        return cli_fail(CLI_NO_SUCH, "job %lld has no attempt %lld: the newest is %lld", (long long)l->id,
                        (long long)attempt, (long long)newest);
    if (l->follow && l->attempt < 0)
        return follow_ranks(l, first, last, attempt > 0 ? attempt : 1);
    return print_once(l, first, last, attempt);
}

static int find_and_show(struct logs *l)
{
    if (l->all && l->rank >= 0)
        return cli_fail(CLI_USAGE, "logs: give --rank or --all, not both");
    if (l->follow && l->attempt >= 0)
        return cli_fail(
            CLI_USAGE, "logs: give --attempt or --follow, not both: following goes on to the newest attempt");
    int rc = find_job(l->client, l->args.words[0], true, &l->id);
    if (rc == CLI_DONE)
        rc = client_call(l->client, "GET", NULL, &l->job, "/v1/jobs/%lld", (long long)l->id);
    if (rc == CLI_DONE)
        rc = show(l);
    json_decref(l->job);
    return rc;
}

static int logs(const struct command *self, int argc, char **argv)
{
    struct logs l = {.rank = -1, .attempt = -1, .tail = -1};
    const struct args_option options[] = {
        ARGS_OPTION_COUNT("rank", 'r', &l.rank, 0, INT_MAX, "R", "which rank (0)"),
        ARGS_OPTION_FLAG("all", 'a', &l.all, "every rank, each line with its rank before it"),
        ARGS_OPTION_COUNT("attempt", 0, &l.attempt, 1, INT_MAX, "A", "which attempt (the newest)"),
        ARGS_OPTION_FLAG("follow", 'f', &l.follow, "go on to the job's end, also over restarts"),
        ARGS_OPTION_COUNT("tail", 'n', &l.tail, 0, TAIL_MAX, "N", "begin with the last N lines"),
    };
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &l.args);
    if (rc != ARGS_GO)
        return rc;
    l.client = client_open(l.args.dir);
    rc = find_and_show(&l);
    client_close(l.client);
    args_clear(&l.args);
    return rc;
}

const struct command command_logs = {
    .name = "logs",
    .args = "JOB",
    .help = "Prints what a job's ranks have written to standard output and standard error",
    .examples = "  belay logs 7\n  belay logs 7 --rank 3 --attempt 1\n  belay logs 7 --all -f --tail 20\n",
    .min_words = 1,
    .max_words = 1,
    .run = logs,
};
