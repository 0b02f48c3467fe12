/* follow: a long poll for the job beside one for its events (training) or reads of its output (programs).
 *
 * Which of the two is known with the first answer. Nothing here sleeps: it waits for whatever comes first, so a program that
 * ends at once is seen to end at once. */
#include "launcher/follow.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/eventview.h"
#include "launcher/format.h"
#include "launcher/interrupt.h"
#include "launcher/jobview.h"
#include "launcher/logstream.h"
#include "launcher/longpoll.h"
#include "launcher/progress.h"
#include "schema/states.h"

#define SAY_WAITING_MS  1000 /* a program that waits longer than this is told why */
#define NOT_FASTER_MS   100  /* between two looks at a job that changes all the time, after … */
#define BURST           16   /* … this many without a pause */
#define TAIL_OF_FAILURE 10   /* lines of the first failing rank that are shown */

struct follow {
    struct client *client;
    int64_t id;
    const struct follow_options *options;
    struct longpoll *job_poll, *event_poll;
    struct logstream *logs;
    struct progress *progress;
    json_t *job;
    int64_t last_event, state_since_ms, asked_ms, burst;
    char *said; /* the newest reason that was printed */
    int interrupt_fd;
    int interrupts;
    bool was_away, over, left;
    bool end_told; /* the newest event shown is the job's end */
    int exit_code;
};

static bool is_program(const struct follow *f)
{
    return strcmp(jsonx_str_or(f->job, "kind", "train"), "run") == 0;
}

static const char *state_of(const json_t *job)
{
    return jsonx_str_or(job, "state", "");
}

/* ---- the job ---- */

/* Asks at once while few answers have come lately, so that a job that ends at once is seen to; a job that reports progress
 * all the time is asked about ten times a second. */
static int64_t when_to_ask(struct follow *f)
{
    int64_t now = clock_boot_ms(), refill = (now - f->asked_ms) / NOT_FASTER_MS;
    f->burst = f->burst + refill > BURST ? BURST : f->burst + refill;
    f->asked_ms = now;
    if (f->burst == 0)
        return now + NOT_FASTER_MS;
    f->burst--;
    return 0;
}

static void ask_job(struct follow *f)
{
    if (!f->job)
        longpoll_ask(f->job_poll, 0, "/v1/jobs/%lld", (long long)f->id);
    else
        longpoll_ask(f->job_poll, when_to_ask(f), "/v1/jobs/%lld?rev=%lld&wait=%d", (long long)f->id,
                     (long long)jsonx_int_or(f->job, "rev", 0), CLIENT_POLL_S);
}

/* An empty answer before its time means that the server has too many who wait. */
static void ask_events(struct follow *f, bool empty)
{
    longpoll_ask(f->event_poll, empty ? clock_boot_ms() + NOT_FASTER_MS : 0,
                 "/v1/events?after=%lld&wait=%d&job=%lld", (long long)f->last_event, CLIENT_POLL_S,
                 (long long)f->id);
}

static void add_ranks(struct follow *f)
{
    int64_t ranks = f->options->all_ranks ? jsonx_int_or(f->job, "ranks", 1) : 1;
    for (int64_t r = 0; r < ranks; r++)
        logstream_add(f->logs, r, 1, -1);
}

static void update_logs(struct follow *f)
{
    int64_t attempt = jsonx_int_or(f->job, "attempt", 0);
    bool started = strcmp(state_of(f->job), "pending") != 0 && strcmp(state_of(f->job), "starting") != 0;
    if (attempt < 1 || (!f->logs && !started))
        return;
    if (!f->logs) {
        f->logs = logstream_new(f->client, f->id, stdout, f->options->all_ranks);
        add_ranks(f);
    }
    logstream_job(f->logs, attempt, f->over);
}

/* Programs: a word only when something is not as it should be. */
static void say_state(struct follow *f)
{
    const char *state = state_of(f->job), *reason = jsonx_str_or(f->job, "reason", "");
    bool waits =
        strcmp(state, "pending") == 0 || strcmp(state, "held") == 0 || strcmp(state, "preempted") == 0;
    bool late = clock_boot_ms() - f->state_since_ms >= SAY_WAITING_MS;
    bool restarts = strcmp(state, "restarting") == 0;
    if (!(restarts || (waits && late)) || (f->said && strcmp(f->said, reason) == 0))
        return;
    fprintf(stderr, "belay: job %lld is %s: %s\n", (long long)f->id, state, reason);
    free(f->said);
    f->said = str_dup(reason);
}

static void take_job(struct follow *f, json_t *job)
{
    bool first = !f->job, changed = first || strcmp(state_of(f->job), state_of(job)) != 0;
    json_decref(f->job);
    f->job = json_incref(job);
    if (changed)
        f->state_since_ms = clock_boot_ms();
    f->over = jobview_final(job);
    if (first && !is_program(f))
        ask_events(f, false);
    if (is_program(f) && f->options->output)
        update_logs(f);
    if (!is_program(f))
        progress_job(f->progress, job, clock_boot_ms());
    if (!f->over)
        ask_job(f);
}

static void fail(struct follow *f, const struct client_reply *reply)
{
    f->left = true;
    f->exit_code = cli_fail(reply->exit_code, "%s", reply->err.text);
}

static void step_job(struct follow *f)
{
    struct client_reply reply;
    switch (longpoll_step(f->job_poll, &reply)) {
    case LONGPOLL_ANSWER:
        take_job(f, reply.body);
        client_reply_clear(&reply);
        break;
    case LONGPOLL_FAILED:
        fail(f, &reply);
        client_reply_clear(&reply);
        break;
    case LONGPOLL_NOTHING:
        break;
    }
}

/* ---- events ---- */

/* The steps between that `belay events` shows but that say little to somebody who waits. */
static bool small_step(const char *kind)
{
    static const char *const kinds[] = {"starting", "go",           "running",
                                        "stopping", "job_stopping", "attempt_ended"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

static void show_event(struct follow *f, const json_t *event)
{
    char time[FORMAT_SIZE];
    const char *kind = jsonx_str_or(event, "kind", "");
    if (!small_step(kind))
        progress_note(f->progress, "%s  %s", format_time(jsonx_str_or(event, "time", NULL), time),
                      jsonx_str_or(event, "text", ""));
    int state = job_state_parse(kind);
    f->end_told |= state >= 0 && job_state_final((enum job_state)state);
}

static void show_events(struct follow *f, const json_t *events)
{
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        show_event(f, event);
    }
    f->last_event = eventview_last(events, f->last_event);
}

static void step_events(struct follow *f)
{
    struct client_reply reply;
    enum longpoll_result result = longpoll_step(f->event_poll, &reply);
    if (result == LONGPOLL_NOTHING)
        return;
    if (result == LONGPOLL_ANSWER) {
        show_events(f, reply.body);
        ask_events(f, json_array_size(reply.body) == 0);
    } /* else the job's own poll meets the same and says so */
    client_reply_clear(&reply);
}

/* What has happened up to the end. */
static void last_events(struct follow *f)
{
    struct client_reply reply;
    if (client_try(f->client, "GET", NULL, &reply, "/v1/events?after=%lld&job=%lld", (long long)f->last_event,
                   (long long)f->id) == CLI_DONE)
        show_events(f, reply.body);
    client_reply_clear(&reply);
}

/* ---- Ctrl-C ---- */

static void leave(struct follow *f)
{
    bool cancelled = f->options->cancel_on_interrupt;
    long long id = f->id;
    f->left = true;
    f->exit_code = cancelled ? CLI_JOB_FAILED : CLI_DONE;
    progress_end(f->progress);
    if (cancelled)
        fprintf(stderr, "belay: left job %lld while it ends: `belay status %lld` shows it\n", id, id);
    else
        fprintf(stderr,
                "belay: left job %lld, which goes on: `belay status %lld` shows it, `belay cancel %lld` ends "
                "it\n",
                id, id, id);
}

static void ask_cancel(struct follow *f)
{
    struct client_reply reply;
    progress_end(f->progress);
    if (client_try(f->client, "POST", NULL, &reply, "/v1/jobs/%lld/cancel", (long long)f->id) == CLI_DONE)
        fprintf(stderr, "belay: asked job %lld to end; press Ctrl-C again to leave at once\n",
                (long long)f->id);
    else
        cli_fail(reply.exit_code, "job %lld cannot be cancelled: %s", (long long)f->id, reply.err.text);
    client_reply_clear(&reply);
}

static void on_interrupt(struct follow *f)
{
    if (!interrupt_take(f->interrupt_fd))
        return;
    f->interrupts++;
    if (f->options->cancel_on_interrupt && f->interrupts == 1)
        ask_cancel(f);
    else
        leave(f);
}

/* ---- the loop ---- */

static void say_away(struct follow *f)
{
    bool away = longpoll_away(f->job_poll);
    if (away != f->was_away) {
        progress_end(f->progress);
        fprintf(stderr, away ? "belay: belayd is away; the job goes on, waiting for belayd\n"
                             : "belay: belayd is back\n");
    }
    f->was_away = away;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int step(struct follow *f)
{
    int pause = SAY_WAITING_MS;
    step_job(f);
    step_events(f);
    say_away(f);
    if (f->logs)
        pause = least(pause, logstream_step(f->logs));
    if (f->job && is_program(f))
        say_state(f);
    else if (f->job && !f->over)
        progress_job(f->progress, f->job, clock_boot_ms());
    return least(pause, least(longpoll_pause(f->job_poll), longpoll_pause(f->event_poll)));
}

static void show_tail(struct follow *f, int64_t rank, int64_t attempt)
{
    struct logstream *tail = logstream_new(f->client, f->id, stderr, true);
    logstream_add(tail, rank, attempt, TAIL_OF_FAILURE);
    logstream_finish(tail);
    logstream_free(tail);
}

/* Of a training rank 0 speaks for all: why all ranks stop together stands in its log, whichever of them was seen to end first. */
static void show_failure(struct follow *f)
{
    int64_t rank = jsonx_int_or(f->job, "first_failure", -1), attempt = jsonx_int_or(f->job, "attempt", 0);
    if (rank < 0 || attempt < 1 || (f->logs && (rank == 0 || f->options->all_ranks)))
        return;
    fprintf(stderr, "belay: rank %lld failed first; its last lines:\n", (long long)rank);
    show_tail(f, rank, attempt);
    if (!f->logs && rank != 0) {
        fprintf(stderr, "belay: the last lines of rank 0:\n");
        show_tail(f, 0, attempt);
    }
}

static void say_end(struct follow *f)
{
    const char *state = state_of(f->job), *reason = jsonx_str_or(f->job, "reason", "");
    bool good = jobview_exit_code(f->job) == CLI_DONE;
    if (is_program(f) && good)
        return;
    if (!good && strcmp(state, "failed") == 0)
        show_failure(f);
    if (is_program(f))
        fprintf(stderr, "belay: job %lld %s: %s\n", (long long)f->id, state, reason);
    else if (!f->end_told)
        progress_note(f->progress, "job %lld %s: %s", (long long)f->id, state, reason);
}

static void finish(struct follow *f)
{
    if (f->logs)
        logstream_finish(f->logs);
    if (!is_program(f)) {
        last_events(f);
        progress_job(f->progress, f->job, clock_boot_ms());
        progress_end(f->progress);
    }
    say_end(f);
    f->exit_code = jobview_exit_code(f->job);
}

static void clear(struct follow *f)
{
    interrupt_close(f->interrupt_fd);
    longpoll_free(f->job_poll);
    longpoll_free(f->event_poll);
    logstream_free(f->logs);
    progress_free(f->progress);
    json_decref(f->job);
    free(f->said);
}

int follow_job(struct client *c, int64_t id, FILE *view, const struct follow_options *options)
{
    struct follow f = {
        .client = c, .id = id, .options = options, .state_since_ms = clock_boot_ms(), .burst = BURST};
    f.interrupt_fd = interrupt_open();
    f.job_poll = longpoll_new(c);
    f.event_poll = longpoll_new(c);
    f.progress = progress_new(view);
    ask_job(&f);
    while (!f.over && !f.left) {
        int pause = step(&f);
        if (f.over || f.left)
            break;
        if (client_wait(c, f.interrupt_fd, pause))
            on_interrupt(&f);
    }
    if (f.over && !f.left)
        finish(&f);
    clear(&f);
    return f.exit_code;
}
