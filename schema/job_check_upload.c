/* job_check_upload: where checkpoints are uploaded to. That the server is there and the keys are right shows when a run begins. */
#include <stddef.h>

#include "common/s3url.h"
#include "schema/job_rules.h"

/* What was given without a url is a job whose checkpoints are not uploaded, while its file looks as if they were. */
static void check_alone(struct job_reader *r)
{
    if (job_given(r, "checkpoint.upload.endpoint"))
        COMPLAIN(r, "checkpoint.upload.endpoint", "has no effect without checkpoint.upload.url");
    if (job_given(r, "checkpoint.upload.region"))
        COMPLAIN(r, "checkpoint.upload.region", "has no effect without checkpoint.upload.url");
    if (job_given(r, "checkpoint.upload.part"))
        COMPLAIN(r, "checkpoint.upload.part", "has no effect without checkpoint.upload.url");
    if (job_given(r, "checkpoint.upload.keep"))
        COMPLAIN(r, "checkpoint.upload.keep", "has no effect without checkpoint.upload.url");
}

void job_check_upload(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    struct s3url where;
    struct err err;
    if (!SOUND(r, "checkpoint.upload", "checkpoint.upload.url"))
        return;
    if (!s->checkpoint.upload.url) {
        check_alone(r);
        return;
    }
    if (!s->is_train && SOUND(r, "train", "run"))
        COMPLAIN(r, "checkpoint.upload.url", "only checkpoints of a train job are uploaded; leave it out");
    else if (s3url_parse(s->checkpoint.upload.url, &where, &err) != 0)
        COMPLAIN(r, "checkpoint.upload.url", "%s", err.text);
    if (s->checkpoint.upload.endpoint && s3url_check_endpoint(s->checkpoint.upload.endpoint, &err) != 0)
        COMPLAIN(r, "checkpoint.upload.endpoint", "%s", err.text);
    if (SOUND(r, "checkpoint.upload.region") && s3url_check_region(s->checkpoint.upload.region, &err) != 0)
        COMPLAIN(r, "checkpoint.upload.region", "%s", err.text);
}
