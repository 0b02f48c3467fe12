/* longpoll: see longpoll.h. At most one request is under way; its path is kept, so that asking again asks the same. */
#include "launcher/longpoll.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"

#define RETRY_MS   100
#define GIVE_UP_MS 60000

struct longpoll {
    struct client *client;
    struct client_request *request;
    char *path; /* NULL = nothing asked */
    int64_t due_ms;
    int64_t away_since_ms; /* 0 = not away */
    bool answered;
};

struct longpoll *longpoll_new(struct client *c)
{
    struct longpoll *lp = mem_zero(1, sizeof *lp);
    lp->client = c;
    return lp;
}

void longpoll_free(struct longpoll *lp)
{
    if (!lp)
        return;
    client_drop(lp->client, lp->request);
    free(lp->path);
    free(lp);
}

static void send_due(struct longpoll *lp)
{
    if (lp->path && !lp->request && clock_boot_ms() >= lp->due_ms)
        lp->request = client_start(lp->client, "GET", NULL, "%s", lp->path);
}

void longpoll_ask(struct longpoll *lp, int64_t not_before_ms, const char *path_fmt, ...)
{
    va_list ap;
    va_start(ap, path_fmt);
    char *path = str_vprintf(path_fmt, ap);
    va_end(ap);
    free(lp->path);
    lp->path = path;
    lp->due_ms = not_before_ms;
    send_due(lp);
}

/* Is it worth asking again? */
static bool may_retry(struct longpoll *lp, const struct client_reply *reply)
{
    int64_t now = clock_boot_ms();
    if (reply->exit_code != CLI_UNREACHABLE || !lp->answered)
        return false;
    if (!lp->away_since_ms)
        lp->away_since_ms = now;
    lp->due_ms = now + RETRY_MS;
    return now - lp->away_since_ms < GIVE_UP_MS;
}

static enum longpoll_result take(struct longpoll *lp, struct client_reply *reply)
{
    client_take(lp->client, lp->request, reply);
    lp->request = NULL;
    if (reply->exit_code == CLI_DONE) {
        lp->answered = true;
        lp->away_since_ms = 0;
        free(lp->path);
        lp->path = NULL;
        return LONGPOLL_ANSWER;
    }
    if (!may_retry(lp, reply))
        return LONGPOLL_FAILED;
    client_reply_clear(reply);
    return LONGPOLL_NOTHING;
}

enum longpoll_result longpoll_step(struct longpoll *lp, struct client_reply *reply)
{
    if (lp->request && client_done(lp->request))
        return take(lp, reply);
    send_due(lp);
    return LONGPOLL_NOTHING;
}

int longpoll_pause(const struct longpoll *lp)
{
    if (!lp->path || lp->request)
        return INT_MAX;
    int64_t pause = lp->due_ms - clock_boot_ms();
    return pause > 0 ? (int)pause : 0;
}

bool longpoll_away(const struct longpoll *lp)
{
    return lp->away_since_ms != 0;
}
