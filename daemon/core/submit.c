/* submit: takes a job in. The same key of the same user gives the same job again, so a client may repeat a submit safely. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "daemon/core/directory.h"

static struct job *known_key(const struct core *core, const struct core_submit *request)
{
    if (!request->key)
        return NULL;
    char *key = submit_key(request->uid, request->key);
    struct job *job = idmap_get(core->job_by_key, key);
    free(key);
    return job;
}

static int check_directory(const struct core *core, const struct core_submit *request, enum core_refusal *why,
                           struct err *err)
{
    char *directory = directory_absolute(request->cwd, request->spec->checkpoint.directory);
    const struct job *other = directory ? idmap_get(core->job_by_directory, directory) : NULL;
    if (other) {
        *why = CORE_REFUSED;
        err_set(err,
                "job %lld (%s) already uses the checkpoint directory %s: set checkpoint.directory to another "
                "one, or "
                "cancel that job",
                (long long)other->r.id, other->r.spec->name, directory);
    }
    free(directory);
    return other ? -1 : 0;
}

static struct job_progress no_progress(void)
{
    return (struct job_progress){.step = -1,
                                 .steps = -1,
                                 .loss = (double)NAN,
                                 .tokens_per_second = (double)NAN,
                                 .mfu = (double)NAN,
                                 .checkpoint_step = -1,
                                 .upload_step = -1,
                                 .staged_step = -1,
                                 .memory_step = -1};
}

static struct job *take_in(struct core *core, const struct core_submit *request)
{
    struct job_record r = {
        .id = core->next_job++,
        .key = str_dup(request->key),
        .user = str_dup(request->user),
        .cwd = str_dup(request->cwd),
        .yaml = job_spec_to_yaml(request->spec),
        .uid = request->uid,
        .gid = request->gid,
        .spec = request->spec,
        .state = JOB_PENDING,
        .reason = str_dup("waits for its turn"),
        .submitted_ms = core->t.now_ms,
        .progress = no_progress(),
        .first_failure_rank = -1,
        .exit_code = -1,
    };
    return job_add(core, &r);
}

int core_submit(struct core *core, struct core_time t, const struct core_submit *request, int64_t *id,
                enum core_refusal *why, struct err *err)
{
    core->t = t;
    *why = CORE_OK;
    struct job *job = known_key(core, request);
    if (job) {
        *id = job->r.id;
        job_spec_free(request->spec);
        return 0;
    }
    if (check_directory(core, request, why, err) != 0)
        return -1;
    job = take_in(core, request);
    *id = job->r.id;
    mark_job(core, job);
    struct event_of of = {.kind = "submitted", .job = job->r.id, .rank = -1};
    event_note(core, of, "job %lld (%s) submitted by %s: %s%lld rank%s", (long long)job->r.id,
               job->r.spec->name, job->r.user, job_elastic(job->r.spec) ? "up to " : "",
               (long long)job->r.spec->ranks, job->r.spec->ranks == 1 ? "" : "s");
    queue_add(core, job);
    return 0;
}
