/* arrivals: jobs come in, one entry of the scenario after the other or many times over, each with its own folder for checkpoints. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "planner/saves.h"
#include "sim/sim_private.h"
#include "sim/steptime.h"

static struct random_stream *gaps_of(struct sim *sim, size_t entry)
{
    return &sim->entry_streams[2 * entry];
}

static struct random_stream *works_of(struct sim *sim, size_t entry)
{
    return &sim->entry_streams[2 * entry + 1];
}

static int prepare_entry(struct sim *sim, size_t i, struct err *err)
{
    const struct scenario_job *job = &sim->sc->jobs[i];
    *gaps_of(sim, i) = random_stream(sim->options->seed, 1000 + 2 * i);
    *works_of(sim, i) = random_stream(sim->options->seed, 1001 + 2 * i);
    sim->entry_step_ms[i] = (double)job->step_ms;
    if (job->step_ms == 0 && steptime_plan(sim->sc->cluster, job->spec, &sim->entry_step_ms[i], err) < 0)
        return err_prefix(err, "job %s has no step: in the scenario, and the planner cannot tell it",
                          job->spec->name);
    sim_later(sim, job->first_ms, EVENT_ARRIVAL, (int64_t)i, 0);
    return 0;
}

int arrivals_begin(struct sim *sim, struct err *err)
{
    size_t n = sim->sc->n_jobs;
    sim->arrived = mem_zero(n + 1, sizeof(*sim->arrived));
    sim->entry_streams = mem_zero(2 * n + 2, sizeof(*sim->entry_streams));
    sim->entry_step_ms = mem_zero(n + 1, sizeof(*sim->entry_step_ms));
    for (size_t i = 0; i < n; i++)
        if (prepare_entry(sim, i, err) < 0)
            return -1;
    return 0;
}

static int64_t at_least_one(double x)
{
    return x < 1 ? 1 : x > 1e15 ? INT64_C(1000000000000000) : (int64_t)x;
}

/* As the trainer finds it, once it has measured a save: from what the scenario says of failures of nodes. */
static int64_t automatic(const struct sim *sim, const struct scenario_job *e, double step_ms)
{
    const struct cluster_node *node = &sim->sc->cluster->nodes[0];
    double nodes = ceil((double)e->spec->ranks / (double)(node->slots > 0 ? node->slots : 1));
    struct saves_facts facts = {.cost_s = (double)e->checkpoint.stall_ms / 1000,
                                .durable_s = e->checkpoint.overlap ? (double)e->checkpoint.cost_ms / 1000 : 0,
                                .step_s = step_ms / 1000,
                                .mttf_s = saves_mttf(nodes, sim->config.failures_per_node_day, 0, 0)};
    return saves_every(&facts);
}

static int64_t save_interval(const struct sim *sim, const struct scenario_job *e, double step_ms)
{
    const struct scenario_checkpoint *c = &e->checkpoint;
    if (c->every_steps == JOB_EVERY_AUTO)
        return automatic(sim, e, step_ms);
    if (c->every_steps > 0)
        return c->every_steps;
    return c->every_ms > 0 ? at_least_one(round((double)c->every_ms / step_ms)) : 0;
}

static struct vjob *make_job(struct sim *sim, size_t entry)
{
    const struct scenario_job *e = &sim->sc->jobs[entry];
    struct vjob *job = mem_zero(1, sizeof(*job));
    job->entry = entry;
    job->ranks = e->spec->ranks;
    job->share = 1;
    job->step_ms = sim->entry_step_ms[entry];
    job->steps = e->spec->train.steps;
    job->slowness = 1;
    job->idle_ms = -1;
    job->state = RUN_OVER;
    if (e->work.ms > 0)
        job->steps = at_least_one(round((double)random_time(works_of(sim, entry), &e->work) / job->step_ms));
    job->every = save_interval(sim, e, job->step_ms);
    return job;
}

/* A copy of its own, with a folder of its own: two jobs never share one. */
static struct job_spec *make_spec(const struct sim *sim, const struct vjob *job)
{
    const struct job_spec *from = sim->sc->jobs[job->entry].spec;
    char *yaml = job_spec_to_yaml(from);
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    struct job_spec *spec = NULL;
    (void)job_spec_parse_plan(yaml, strlen(yaml), "job", NULL, 0, &spec, d);
    free(d);
    free(yaml);
    if (!spec)
        return NULL;
    spec->placement.spares = from->placement.spares;
    free(spec->checkpoint.directory);
    spec->checkpoint.directory =
        job->every > 0 || spec->is_train
            ? str_printf("ckpt-%zu-%lld", job->entry, (long long)sim->arrived[job->entry])
            : NULL;
    return spec;
}

static void submit(struct sim *sim, struct vjob *job)
{
    enum core_refusal why = CORE_INVALID;
    struct core_submit request = {.user = "sim", .cwd = "/sim", .spec = make_spec(sim, job)};
    if (!request.spec || core_submit(sim->core, sim_time_now(sim), &request, &job->id, &why, sim->err) < 0) {
        job_spec_free(request.spec);
        free(job);
        sim->failed = true;
        return;
    }
    sim->jobs = mem_one_more(sim->jobs, sim->n_jobs, &sim->jobs_room, sizeof(struct vjob *));
    sim->jobs[sim->n_jobs++] = job;
}

static int64_t gap(struct sim *sim, size_t entry)
{
    const struct scenario_job *e = &sim->sc->jobs[entry];
    return e->random_gaps ? (int64_t)random_exponential(gaps_of(sim, entry), (double)e->every_ms)
                          : e->every_ms;
}

void arrivals_event(struct sim *sim, const struct queue_event *event)
{
    size_t entry = (size_t)event->a;
    submit(sim, make_job(sim, entry));
    if (++sim->arrived[entry] < sim->sc->jobs[entry].count)
        sim_later(sim, gap(sim, entry), EVENT_ARRIVAL, event->a, 0);
}
