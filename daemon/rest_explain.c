/* rest_explain: why a job waits, and whether one that was not submitted could start. Both only look. */
#include "daemon/core/explain.h"
#include "daemon/exchange.h"
#include "daemon/rest_jobfile.h"

enum { PLACES_MAX = 32768 }; /* ranks of a job whose placement is answered: some 140 ms of the only thread */

static void answer(struct exchange *x, struct verdict *verdict)
{
    x->reply = verdict_encode(verdict);
    verdict_clear(verdict);
}

static enum exchange_next render_why(struct exchange *x)
{
    struct verdict verdict;
    if (explain_job(turn_core(x->turn), turn_time(), x->id, &verdict) != 0)
        exchange_refuse(x, 404, "there is no job %lld; belay status lists them", (long long)x->id);
    else
        answer(x, &verdict);
    return EXCHANGE_ANSWER;
}

static enum exchange_next render_plan(struct exchange *x)
{
    struct verdict verdict;
    struct job_spec *spec = rest_jobfile_read(x, true);
    if (!spec)
        return EXCHANGE_ANSWER;
    bool places = json_is_true(json_object_get(x->body, "placement")) && spec->ranks <= PLACES_MAX;
    explain_spec(turn_core(x->turn), turn_time(), spec, places, &verdict);
    answer(x, &verdict);
    job_spec_free(spec);
    return EXCHANGE_ANSWER;
}

const struct route rest_explain_routes[] = {
    {EVHTTP_REQ_GET, "/v1/jobs/#/why", NULL, render_why, NULL},
    {EVHTTP_REQ_POST, "/v1/plan", NULL, render_plan, NULL},
    {EVHTTP_REQ_GET, NULL, NULL, NULL, NULL},
};
