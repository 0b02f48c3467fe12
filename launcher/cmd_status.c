/* belay status: all jobs as a table, or one as a block; --watch keeps showing.
 *
 * Watching waits for the next event (any job) or the next change (one job), so it is quick without asking often. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/eventview.h"
#include "launcher/find.h"
#include "launcher/format.h"
#include "launcher/jobview.h"
#include "launcher/longpoll.h"
#include "launcher/output.h"

#define REDRAW_MS     1000                        /* progress is no event: look at least this often */
#define NOT_FASTER_MS 200                         /* and at most this often */
#define RECENT_MS     (INT64_C(24) * 3600 * 1000) /* jobs that ended longer ago are shown by --all */
#define AWAY_MS       60000                       /* how long belayd may be away before watching ends */
#define STEP_LINE_MS  5000                        /* without a terminal: a line for progress alone */

struct status {
    struct client *client;
    struct args args;
    bool watch, all;
    bool redraws;
};

/* ---- once ---- */

static bool recent(const json_t *job)
{
    int64_t ended = format_parse_time(jsonx_str_or(job, "ended", NULL));
    return !jobview_final(job) || ended < 0 || clock_utc_ms() - ended < RECENT_MS;
}

static json_t *select_jobs(const struct status *s, const json_t *jobs)
{
    json_t *chosen = json_array(), *job;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        if (s->all || recent(job))
            json_array_append(chosen, job);
    }
    return chosen;
}

static void show_table(const struct status *s, const json_t *jobs, size_t of)
{
    size_t shown = json_array_size(jobs);
    if (shown > 0)
        table_show(jobview_table(jobs, s->args.output == OUTPUT_WIDE));
    else if (of > 0)
        printf("No job is unfinished or ended within a day; `belay status --all` shows %zu older ones.\n",
               of);
    else
        printf("No jobs yet: hand one in with `belay submit FILE`.\n");
}

static void show_jobs(const struct status *s, const json_t *all)
{
    json_t *jobs = select_jobs(s, all);
    if (s->args.output == OUTPUT_JSON)
        output_json(jobs);
    else
        show_table(s, jobs, json_array_size(all));
    json_decref(jobs);
}

static int status_all(const struct status *s)
{
    json_t *jobs = NULL;
    int rc = client_call(s->client, "GET", NULL, &jobs, "/v1/jobs%s", s->all ? "?all=1" : "");
    if (rc == CLI_DONE)
        show_jobs(s, jobs);
    json_decref(jobs);
    return rc;
}

static void show_job(const struct status *s, const json_t *job)
{
    if (s->args.output == OUTPUT_JSON)
        output_json(job);
    else
        jobview_block(stdout, job, s->args.output == OUTPUT_WIDE);
}

static int status_one(const struct status *s, int64_t id)
{
    json_t *job = NULL;
    int rc = client_call(s->client, "GET", NULL, &job, "/v1/jobs/%lld", (long long)id);
    if (rc == CLI_DONE)
        show_job(s, job);
    json_decref(job);
    return rc;
}

/* ---- watching: what was shown of each job before, so that only news is printed without a terminal ---- */

/* What makes a line worth printing at once. */
static bool news(const json_t *old, const json_t *job)
{
    static const char *const keys[] = {"state", "attempt", "reason", "restarts"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!old || !json_equal(json_object_get(old, keys[i]), json_object_get(job, keys[i])))
            return true;
    return false;
}

static bool stepped(const json_t *old, const json_t *job)
{
    return !json_equal(json_object_get(old, "step"), json_object_get(job, "step"));
}

static const json_t *find_old(const json_t *old, const json_t *job)
{
    size_t i;
    json_t *o;
    json_array_foreach(old, i, o)
    {
        if (json_equal(json_object_get(o, "id"), json_object_get(job, "id")))
            return o;
    }
    return NULL;
}

/* Prints a line per job with news and keeps in *shown what was printed. */
static void print_news(const struct status *s, json_t **shown, const json_t *jobs, bool steps_too)
{
    json_t *now = json_array(), *job;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        const json_t *old = find_old(*shown, job);
        bool print = news(old, job) || (steps_too && stepped(old, job));
        if (print && s->args.output == OUTPUT_JSON)
            output_json_line(job);
        else if (print)
            jobview_row(stdout, job);
        json_array_append_new(now, print || !old ? json_incref(job) : json_incref((json_t *)(uintptr_t)old));
    }
    fflush(stdout);
    json_decref(*shown);
    *shown = now;
}

static void clear_screen(void)
{
    printf("\033[H\033[J");
}

static int look_once(const struct status *s, int64_t id, struct client_reply *reply)
{
    if (id)
        return client_try(s->client, "GET", NULL, reply, "/v1/jobs/%lld", (long long)id);
    return client_try(s->client, "GET", NULL, reply, "/v1/jobs%s", s->all ? "?all=1" : "");
}

/* One look at the jobs being watched, as an array. A belayd that has answered before may be away for a while. */
static int look(const struct status *s, int64_t id, bool answered, json_t **jobs)
{
    struct client_reply reply;
    int64_t end = clock_boot_ms() + AWAY_MS;
    int rc = look_once(s, id, &reply);
    while (rc == CLI_UNREACHABLE && answered && clock_boot_ms() < end) {
        client_reply_clear(&reply);
        client_wait(s->client, -1, NOT_FASTER_MS);
        rc = look_once(s, id, &reply);
    }
    if (rc != CLI_DONE)
        cli_fail(rc, "%s", reply.err.text);
    *jobs = rc != CLI_DONE ? NULL : id ? json_pack("[O]", reply.body) : select_jobs(s, reply.body);
    client_reply_clear(&reply);
    return rc;
}

static void show_watched(const struct status *s, int64_t id, const json_t *jobs)
{
    clear_screen();
    if (id)
        show_job(s, json_array_get(jobs, 0));
    else
        show_jobs(s, jobs);
    fflush(stdout);
}

static void ask_events(struct longpoll *events, int64_t id, int64_t last)
{
    int64_t not_before = clock_boot_ms() + NOT_FASTER_MS;
    if (id)
        longpoll_ask(events, not_before, "/v1/events?after=%lld&wait=%d&job=%lld", (long long)last,
                     CLIENT_POLL_S, (long long)id);
    else
        longpoll_ask(events, not_before, "/v1/events?after=%lld&wait=%d", (long long)last, CLIENT_POLL_S);
}

/* Has an event of the watched jobs come? */
static bool take_events(struct longpoll *events, int64_t id, int64_t *last)
{
    struct client_reply reply;
    if (longpoll_step(events, &reply) == LONGPOLL_NOTHING)
        return false;
    bool any = json_array_size(reply.body) > 0;
    *last = eventview_last(reply.body, *last);
    client_reply_clear(&reply);
    ask_events(events, id, *last);
    return any;
}

/* Waits for an event of the watched jobs, between NOT_FASTER_MS and REDRAW_MS. */
static void wait_news(const struct status *s, struct longpoll *events, int64_t id, int64_t *last)
{
    int64_t start = clock_boot_ms(), passed = 0, limit = REDRAW_MS;
    while (passed < limit) {
        int pause = longpoll_pause(events);
        client_wait(s->client, -1, pause < limit - passed ? pause : (int)(limit - passed));
        if (take_events(events, id, last))
            limit = NOT_FASTER_MS;
        passed = clock_boot_ms() - start;
    }
}

static int watch_loop(const struct status *s, int64_t id, struct longpoll *events)
{
    json_t *jobs = NULL, *shown = NULL;
    int64_t last = 0, line_ms = 0;
    bool over = false;
    int rc = CLI_DONE;
    longpoll_ask(events, 0, "/v1/events?limit=1");
    if (!s->redraws && s->args.output != OUTPUT_JSON)
        jobview_row_titles(stdout);
    for (bool answered = false; !over && (rc = look(s, id, answered, &jobs)) == CLI_DONE; answered = true) {
        bool due = clock_boot_ms() - line_ms >= STEP_LINE_MS;
        if (s->redraws)
            show_watched(s, id, jobs);
        else
            print_news(s, &shown, jobs, due);
        line_ms = due ? clock_boot_ms() : line_ms;
        over = id && jobview_final(json_array_get(jobs, 0));
        json_decref(jobs);
        if (!over)
            wait_news(s, events, id, &last);
    }
    json_decref(shown);
    return rc;
}

static int watch(const struct status *s, int64_t id)
{
    struct longpoll *events = longpoll_new(s->client);
    int rc = watch_loop(s, id, events);
    longpoll_free(events);
    return rc;
}

static int show(struct status *s)
{
    int64_t id = 0;
    int rc = s->args.n_words ? find_job(s->client, s->args.words[0], true, &id) : CLI_DONE;
    if (rc != CLI_DONE)
        return rc;
    s->redraws = terminal_redraws(stdout) && s->args.output != OUTPUT_JSON;
    if (s->watch)
        return watch(s, id);
    return id ? status_one(s, id) : status_all(s);
}

static int status(const struct command *self, int argc, char **argv)
{
    struct status s = {.client = NULL};
    const struct args_option options[] = {
        ARGS_OPTION_FLAG("watch", 'w', &s.watch, "keep showing; ends with the job when one is named"),
        ARGS_OPTION_FLAG("all", 'a', &s.all, "also jobs that ended more than a day ago"),
    };
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &s.args);
    if (rc != ARGS_GO)
        return rc;
    s.client = client_open(s.args.dir);
    rc = show(&s);
    client_close(s.client);
    args_clear(&s.args);
    return rc;
}

const struct command command_status = {
    .name = "status",
    .args = "[JOB]",
    .help = "Shows the jobs, or one job in detail (JOB: its id, or its name while only one live job has it)",
    .examples = "  belay status\n  belay status 7 --watch\n  belay status shakespeare -o json\n",
    .max_words = 1,
    .listing = true,
    .run = status,
};
