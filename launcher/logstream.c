/* logstream: see logstream.h. At most one read of each rank is under way, and few in all; what has been printed is never asked for again. */
#include "launcher/logstream.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "common/proof.h"

#define READ_LIMIT   (1 << 20) /* bytes asked for at a time */
#define IN_FLIGHT    16        /* reads at once: a thousand ranks must not become a thousand connections */
#define SOON_MS      20        /* until the next look at a log that just grew … */
#define LATER_MS     320       /* … growing to this while it does not */
#define TAIL_BYTES   (1 << 20) /* how far back --tail looks */
#define LINE_MAX_LEN 65536     /* a longer line is cut in two when lines carry a prefix */
#define LOSSES_MAX   100       /* about half a minute of a belayd that is away */
#define REFUSALS_MAX 10        /* about two seconds of an agent that has not come back yet */

struct stream {
    int64_t rank, attempt, offset, tail;
    int64_t due_ms, pause_ms;
    struct client_request *request;
    bool final_when_asked; /* when the read began, nothing more could be written to this attempt's log */
    int losses, refusals;  /* reads in a row that broke or were refused after that */
    bool ended;
    char *line; /* begun but not ended, when lines carry a prefix */
    size_t line_len;
};

struct logstream {
    struct client *client;
    int64_t job, newest;
    FILE *out;
    bool prefix, over;
    struct stream *streams;
    size_t count;
    int result;
};

struct logstream *logstream_new(struct client *c, int64_t job, FILE *out, bool prefix)
{
    struct logstream *ls = mem_zero(1, sizeof *ls);
    *ls = (struct logstream){.client = c, .job = job, .out = out, .prefix = prefix};
    return ls;
}

void logstream_free(struct logstream *ls)
{
    if (!ls)
        return;
    for (size_t i = 0; i < ls->count; i++) {
        client_drop(ls->client, ls->streams[i].request);
        free(ls->streams[i].line);
    }
    free(ls->streams);
    free(ls);
}

void logstream_add(struct logstream *ls, int64_t rank, int64_t attempt, int64_t tail)
{
    ls->streams = mem_grow(ls->streams, ls->count + 1, sizeof *ls->streams);
    ls->streams[ls->count++] = (struct stream){
        .rank = rank, .attempt = attempt, .tail = tail, .pause_ms = SOON_MS, .offset = tail >= 0 ? -1 : 0};
    if (attempt > ls->newest)
        ls->newest = attempt;
}

void logstream_job(struct logstream *ls, int64_t newest, bool over)
{
    bool news = newest > ls->newest || over != ls->over;
    ls->newest = newest > ls->newest ? newest : ls->newest;
    ls->over = over;
    for (size_t i = 0; news && i < ls->count; i++)
        ls->streams[i].due_ms = 0;
}

/* ---- printing ---- */

static void end_line(struct logstream *ls, struct stream *s)
{
    fprintf(ls->out, "[%lld] ", (long long)s->rank);
    fwrite(s->line, 1, s->line_len, ls->out);
    fputc('\n', ls->out);
    s->line_len = 0;
}

static void print_lines(struct logstream *ls, struct stream *s, const char *data, size_t len)
{
    if (!s->line)
        s->line = mem_zero(LINE_MAX_LEN, 1);
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n' || s->line_len == LINE_MAX_LEN)
            end_line(ls, s);
        if (data[i] != '\n')
            s->line[s->line_len++] = data[i];
    }
}

/* Where the last `lines` lines begin. */
static size_t tail_start(const char *data, size_t len, int64_t lines)
{
    size_t at = len > 0 && data[len - 1] == '\n' ? len - 1 : len;
    if (lines == 0)
        return len;
    while (at > 0) {
        if (data[at - 1] == '\n' && --lines == 0)
            return at;
        at--;
    }
    return 0;
}

static void print_data(struct logstream *ls, struct stream *s, const char *data, size_t len)
{
    if (s->tail >= 0) {
        size_t skip = tail_start(data, len, s->tail);
        data += skip;
        len -= skip;
        s->tail = -1;
    }
    if (ls->prefix)
        print_lines(ls, s, data, len);
    else
        fwrite(data, 1, len, ls->out);
    fflush(ls->out);
}

static void note_gap(const struct stream *s, int64_t from)
{
    if (s->offset >= 0 && from > s->offset)
        fprintf(stderr, "belay: %lld bytes of rank %lld's output are gone: its log was rotated\n",
                (long long)(from - s->offset), (long long)s->rank);
}

/* ---- reading ---- */

static void end_stream(struct logstream *ls, struct stream *s)
{
    if (s->line_len > 0)
        end_line(ls, s);
    s->ended = true;
}

/* This attempt's log is read: go on with the next one, or end. */
static void next_attempt(struct logstream *ls, struct stream *s)
{
    if (s->attempt >= ls->newest) {
        end_stream(ls, s);
        return;
    }
    s->attempt++;
    s->offset = 0;
    s->tail = -1;
    s->due_ms = 0;
    s->pause_ms = SOON_MS;
    s->losses = s->refusals = 0;
}

static void wait_longer(struct stream *s)
{
    s->due_ms = clock_boot_ms() + s->pause_ms;
    s->pause_ms = s->pause_ms * 2 > LATER_MS ? LATER_MS : s->pause_ms * 2;
}

static void take_data(struct logstream *ls, struct stream *s, const json_t *body)
{
    size_t len = 0;
    int64_t next = jsonx_int_or(body, "next", s->offset);
    char *data = base64_decode(jsonx_str_or(body, "data", ""), &len);
    note_gap(s, jsonx_int_or(body, "offset", s->offset));
    if (data && len)
        print_data(ls, s, data, len);
    free(data);
    bool grew = len > 0;
    s->offset = next > 0 ? next : s->offset < 0 ? 0 : s->offset;
    s->tail = -1;
    if (grew) {
        s->pause_ms = SOON_MS;
        s->due_ms = s->offset < jsonx_int_or(body, "size", 0) || ls->over ? 0 : clock_boot_ms() + SOON_MS;
    } else if (s->final_when_asked) {
        next_attempt(ls, s);
    } else {
        wait_longer(s);
    }
}

static void say_unreadable(struct logstream *ls, const struct stream *s, const struct client_reply *reply)
{
    bool newest = s->attempt == ls->newest;
    if (!newest && reply->exit_code == CLI_NO_SUCH)
        return; /* an attempt that was replaced before this rank ran */
    cli_fail(reply->exit_code, "the output of rank %lld in attempt %lld cannot be read: %s",
             (long long)s->rank, (long long)s->attempt, reply->err.text);
    if (newest && !ls->result)
        ls->result = reply->exit_code;
}

/* Worth another try? Somebody who was killed may be on his way back: belayd, or the node's agent. */
static bool may_retry(struct stream *s, const struct client_reply *reply)
{
    if (reply->loss != CLIENT_ANSWERED)
        return ++s->losses < LOSSES_MAX;
    return reply->exit_code == CLI_REFUSED && ++s->refusals < REFUSALS_MAX;
}

/* While more may come, no such log yet is no failure. */
static void take_failure(struct logstream *ls, struct stream *s, const struct client_reply *reply)
{
    if (!s->final_when_asked || may_retry(s, reply)) {
        wait_longer(s);
        return;
    }
    say_unreadable(ls, s, reply);
    next_attempt(ls, s);
}

static void take(struct logstream *ls, struct stream *s)
{
    struct client_reply reply;
    client_take(ls->client, s->request, &reply);
    s->request = NULL;
    if (reply.exit_code == CLI_DONE)
        take_data(ls, s, reply.body);
    else
        take_failure(ls, s, &reply);
    client_reply_clear(&reply);
}

static void ask(struct logstream *ls, struct stream *s)
{
    s->final_when_asked = ls->over || ls->newest > s->attempt;
    s->request = client_start(ls->client, "GET", NULL,
                              "/v1/jobs/%lld/logs?rank=%lld&attempt=%lld&offset=%lld&limit=%d",
                              (long long)ls->job, (long long)s->rank, (long long)s->attempt,
                              (long long)s->offset, s->tail >= 0 ? TAIL_BYTES : READ_LIMIT);
}

int logstream_step(struct logstream *ls)
{
    int64_t now = clock_boot_ms(), soonest = INT_MAX;
    size_t in_flight = 0;
    for (size_t i = 0; i < ls->count; i++) {
        struct stream *s = &ls->streams[i];
        if (s->request && client_done(s->request))
            take(ls, s);
        in_flight += s->request != NULL;
    }
    for (size_t i = 0; i < ls->count; i++) {
        struct stream *s = &ls->streams[i];
        if (s->ended || s->request)
            continue;
        if (s->due_ms <= now && in_flight < IN_FLIGHT) {
            ask(ls, s);
            in_flight++;
        } else if (in_flight < IN_FLIGHT && s->due_ms - now < soonest) {
            soonest = s->due_ms - now;
        }
    }
    return (int)soonest;
}

bool logstream_drained(const struct logstream *ls)
{
    for (size_t i = 0; i < ls->count; i++)
        if (!ls->streams[i].ended)
            return false;
    return true;
}

int logstream_finish(struct logstream *ls)
{
    logstream_job(ls, ls->newest, true);
    while (!logstream_drained(ls)) {
        int pause = logstream_step(ls);
        if (!logstream_drained(ls))
            client_wait(ls->client, -1, pause < 1000 ? pause : 1000);
    }
    return ls->result;
}
