/* bucket: see bucket.h. */
#include "runtime/bucket.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/log.h"
#include "runtime/exits.h"
#include "runtime/signals.h"
#include "runtime/uploader.h"

#define END_WAIT_MS INT64_C(600000) /* of a run that has come to its end */

static const char *url(const struct run *run)
{
    return run->spec->checkpoint.upload.url;
}

int bucket_fetch(struct run *run, struct err *err)
{
    int64_t step = 0;
    if (!url(run))
        return 0;
    if (uploader_fetch(run->spec, NULL, run->state.attempt, &step, err) != 0)
        return EXIT_ERROR;
    if (step > 0)
        printf("checkpoint step %" PRId64 " was brought from %s\n", step, url(run));
    return 0;
}

static void tell(void *ctx, const struct uploader_result *r)
{
    struct run *run = ctx;
    if (r->end == UPLOADER_DONE) {
        notify_keep(run->notify,
                    "CHECKPOINT_TIER=upload\nCHECKPOINT_DURABLE=%" PRId64 "\nCHECKPOINT_BYTES=%" PRIu64
                    "\nCHECKPOINT_DURABLE_MS=%.0f",
                    r->step, r->sent, r->seconds * 1e3);
        printf("checkpoint step %" PRId64 " uploaded: %.1f MiB in %.2f s\n", r->step,
               (double)r->sent / 1048576, r->seconds);
        return;
    }
    log_warn("the checkpoint of step %" PRId64 " is not in %s: %s", r->step, url(run), r->why);
    notify_keep(run->notify, "CHECKPOINT_TIER=upload\nCHECKPOINT_FAILED=%" PRId64 "\nCHECKPOINT_WHY=%.300s",
                r->step, r->why);
}

int bucket_open(struct run *run, struct err *err)
{
    if (!url(run))
        return 0;
    run->uploader = uploader_new(run->spec, NULL, tell, run, err);
    if (!run->uploader)
        return EXIT_ERROR;
    if (run->saved > 0)
        bucket_add(run, run->saved); /* an upload that broke off goes on */
    return 0;
}

void bucket_add(struct run *run, int64_t step)
{
    if (run->uploader)
        uploader_add(run->uploader, step);
}

int64_t bucket_step(const struct run *run)
{
    return uploader_step(run->uploader);
}

void bucket_poll(struct run *run)
{
    uploader_poll(run->uploader);
}

void bucket_close(struct run *run, int code)
{
    bool stopped = code == EXIT_STOPPED || (code == 0 && signals_stop()); /* by hand, or in a job */
    int64_t limit_ms = stopped ? run->spec->limits.grace_ms / 2 : code == 0 ? END_WAIT_MS : 0;
    if (!uploader_wait(run->uploader, limit_ms, !stopped))
        log_warn("not everything is in %s yet; the next attempt, or the same command again, goes on with it",
                 url(run));
    uploader_free(run->uploader);
    run->uploader = NULL;
}
