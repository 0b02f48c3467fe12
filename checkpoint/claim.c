/* claim: see claim.h. Each taker draws a random instance word; comparing that word tells whether a claim is still one's own.
 *
 * Attempts of one job are ordered by their number. Different jobs are not ordered: belayd lets only one live job use a directory. */
#include "checkpoint/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/procid.h"
#include "common/proof.h"

#define CLAIM_BYTES_MAX 65536
#define LOCK_WAIT_S     30 /* a commit holds the lock for a rename and a purge */

struct claim {
    char *path;
    int lock; /* fd of claim.lock */
    char *job;
    int64_t attempt;
    char instance[PROOF_NONCE_SIZE];
};

static int lock_file(struct claim *c, struct err *err)
{
    double until = clock_monotonic_s() + LOCK_WAIT_S;
    while (flock(c->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_sys(err, "cannot lock %s.lock", c->path);
        if (clock_monotonic_s() > until)
            return err_set(err, "%s.lock has been held by another process for %d s; end that process",
                           c->path, LOCK_WAIT_S);
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* woken early is fine */
    }
    return 0;
}

/* The present claim: a new reference, or NULL with *err "" when there is none. */
static json_t *read_claim(const struct claim *c, struct err *err)
{
    err->text[0] = 0;
    if (access(c->path, F_OK) != 0 && errno == ENOENT)
        return NULL;
    return jsonx_read_file(c->path, CLAIM_BYTES_MAX, err);
}

static int write_claim(const struct claim *c, bool done, struct err *err)
{
    struct procid self;
    char stamp[CLOCK_UTC_SIZE];
    json_t *obj = json_object();
    jsonx_set_str(obj, "job", c->job);
    jsonx_set(obj, "attempt", json_integer(c->attempt));
    jsonx_set_str(obj, "instance", c->instance);
    jsonx_set(obj, "done", json_boolean(done));
    jsonx_set_str(obj, "time", clock_format_utc(clock_utc_ms(), stamp));
    if (procid_of(0, &self) == 0)
        jsonx_set(obj, "process", procid_to_json(&self));
    int rc = jsonx_write_file(c->path, obj, err);
    json_decref(obj);
    return rc;
}

static void warn_if_alive(const json_t *old, const char *path)
{
    struct procid other;
    if (procid_from_json(json_object_get(old, "process"), &other) == 0 && procid_alive(&other))
        log_warn("%s was held by process %d, which is still running; it will stop at its next checkpoint",
                 path, (int)other.pid);
}

/* May this claim replace the old one? */
static enum claim_result compare(const struct claim *c, const json_t *old, struct err *err)
{
    const char *job = jsonx_str_or(old, "job", "");
    int64_t attempt = jsonx_int_or(old, "attempt", 0);
    if (strcmp(job, c->job) == 0 && attempt > c->attempt) {
        err_set(err, "attempt %" PRId64 " is superseded: attempt %" PRId64 " of the same job has claimed %s",
                c->attempt, attempt, c->path);
        return CLAIM_SUPERSEDED;
    }
    if (!*c->job && *job && !jsonx_bool_or(old, "done", false)) {
        err_set(err,
                "%s belongs to attempt %" PRId64
                " of job %s, which has not ended; use another checkpoint.directory, or "
                "remove that file when the job is gone",
                c->path, attempt, job);
        return CLAIM_SUPERSEDED;
    }
    if (!*job && !jsonx_bool_or(old, "done", false))
        warn_if_alive(old, c->path);
    return CLAIM_OK;
}

/* With the lock held. */
static enum claim_result take_locked(struct claim *c, struct err *err)
{
    struct err unreadable;
    json_t *old = read_claim(c, &unreadable);
    if (!old && unreadable.text[0])
        log_warn("%s; it is replaced", unreadable.text);
    enum claim_result rc = old ? compare(c, old, err) : CLAIM_OK;
    json_decref(old);
    if (rc == CLAIM_OK && write_claim(c, false, err) != 0)
        rc = CLAIM_ERROR;
    return rc;
}

/* Opens the lock, unlocked. NULL with a sentence. */
static struct claim *open_claim(const char *directory, struct err *err)
{
    struct claim *c = mem_zero(1, sizeof *c);
    char *lock_path = str_printf("%s/claim.lock", directory);
    c->path = str_printf("%s/claim", directory);
    c->lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (c->lock < 0) {
        err_sys(err, "cannot open %s; make checkpoint.directory writable", lock_path);
        claim_close(c, false);
        c = NULL;
    }
    free(lock_path);
    return c;
}

enum claim_result claim_take(const char *directory, const char *job, int64_t attempt, struct claim **out,
                             struct err *err)
{
    enum claim_result rc = CLAIM_ERROR;
    struct claim *c = open_claim(directory, err);
    if (c) {
        c->job = str_dup(job ? job : "");
        c->attempt = attempt;
        proof_nonce(c->instance);
    }
    if (c && lock_file(c, err) == 0) {
        rc = take_locked(c, err);
        claim_unlock(c);
    }
    *out = c;
    if (rc != CLAIM_OK) {
        claim_close(c, false);
        *out = NULL;
    }
    return rc;
}

struct claim *claim_borrow(const char *directory, struct err *err)
{
    struct claim *c = open_claim(directory, err);
    if (c && lock_file(c, err) == 0)
        return c;
    claim_close(c, false);
    return NULL;
}

/* A process of another host, or of before this one was started, may be alive. */
static bool may_be_alive(const json_t *claim)
{
    struct procid other, self;
    if (procid_from_json(json_object_get(claim, "process"), &other) != 0 || procid_of(0, &self) != 0)
        return true;
    return strcmp(other.boot, self.boot) != 0 || procid_alive(&other);
}

int claim_look(const char *directory, struct claim_view *out, struct err *err)
{
    char *path = str_printf("%s/claim", directory);
    const struct claim c = {.path = path};
    struct err unreadable;
    json_t *now = read_claim(&c, &unreadable);
    *out = (struct claim_view){.attempt = jsonx_int_or(now, "attempt", 0)};
    (void)snprintf(out->job, sizeof out->job, "%s",
                   jsonx_str_or(now, "job", "")); /* cut, it is still shown */
    out->live = now && !jsonx_bool_or(now, "done", false) && (out->job[0] || may_be_alive(now));
    int rc = !now && unreadable.text[0] ? err_set(err, "%s", unreadable.text) : 0;
    json_decref(now);
    free(path);
    return rc;
}

static enum claim_result check_mine(const struct claim *c, struct err *err)
{
    json_t *now = read_claim(c, err);
    if (!now) {
        if (!err->text[0])
            err_set(err,
                    "%s is gone: somebody removed it, and nothing more is saved until the job is started "
                    "again (belay requeue, or belay-train once more)",
                    c->path);
        return CLAIM_ERROR;
    }
    enum claim_result rc = CLAIM_OK;
    if (strcmp(jsonx_str_or(now, "instance", ""), c->instance) != 0) {
        err_set(err, "attempt %" PRId64 " is superseded: job \"%s\" attempt %" PRId64 " has claimed %s",
                c->attempt, jsonx_str_or(now, "job", ""), jsonx_int_or(now, "attempt", 0), c->path);
        rc = CLAIM_SUPERSEDED;
    }
    json_decref(now);
    return rc;
}

enum claim_result claim_lock(struct claim *claim, struct err *err)
{
    if (lock_file(claim, err) != 0)
        return CLAIM_ERROR;
    enum claim_result rc = check_mine(claim, err);
    if (rc != CLAIM_OK)
        claim_unlock(claim);
    return rc;
}

void claim_unlock(struct claim *claim)
{
    (void)flock(claim->lock, LOCK_UN); /* cannot fail on an open descriptor */
}

void claim_close(struct claim *claim, bool done)
{
    if (!claim)
        return;
    struct err err;
    if (done && claim_lock(claim, &err) == CLAIM_OK) {
        if (write_claim(claim, true, &err) != 0)
            log_warn("%s", err.text);
        claim_unlock(claim);
    }
    if (claim->lock >= 0)
        close(claim->lock);
    free(claim->path);
    free(claim->job);
    free(claim);
}
