/* belay plan: what a job will cost, before it is submitted; needs no cluster. The words are read by planask, everything is computed by
 * planner/, and shown by planview. */
#include <stdlib.h>

#include "launcher/args.h"
#include "launcher/output.h"
#include "launcher/planask.h"
#include "launcher/planview.h"

#define RANKS_MAX  JOB_RANKS_MAX
#define TOP        10
#define MESHES_MAX 1000000

struct planning {
    struct planask ask;
    struct planask_job job;
    enum args_output output;
    bool search;
    int64_t top;
};

/* A job whose mesh does not fit the device can never run there. */
static int verdict_of(const struct plan *plan)
{
    return plan->fits ? CLI_DONE : CLI_NEVER;
}

static int report(const struct planning *p, const struct plan_request *request)
{
    struct plan plan;
    struct err err = {""};
    if (plan_make(request, &plan, &err) != 0)
        return cli_fail(CLI_USAGE, "plan: %s", err.text);
    if (p->output == OUTPUT_JSON) {
        json_t *o = planview_json(request, &plan);
        output_json(o);
        json_decref(o);
    } else {
        planview_report(request, &plan, p->output == OUTPUT_WIDE);
    }
    return verdict_of(&plan);
}

static int list(const struct planning *p, const struct search_result *meshes, size_t count)
{
    if (p->output == OUTPUT_JSON) {
        json_t *o = planview_search_json(meshes, count, (size_t)p->top);
        output_json(o);
        json_decref(o);
    } else {
        planview_search(&p->job.request, meshes, count, (size_t)p->top, p->output == OUTPUT_WIDE);
    }
    return verdict_of(&meshes[0].plan);
}

/* The report of the best mesh. */
static int report_best(struct planning *p, const struct search_result *best)
{
    struct job_spec *s = p->job.spec;
    s->tp = best->tp;
    s->pp = best->pp;
    s->cp = best->cp;
    s->dp = best->dp;
    s->ep = best->ep;
    s->zero = best->zero;
    s->pipeline = best->pipeline;
    s->virtual_stages = best->virtual_stages;
    s->train.batch_micro = best->micro;
    s->train.recompute = best->recompute;
    plan_level_default(s, p->job.request.devices, p->job.request.level);
    return report(p, &p->job.request);
}

static int search(struct planning *p)
{
    struct search_result *meshes = NULL;
    struct err err = {""};
    size_t count = plan_search(&p->job.request, &meshes, &err);
    if (count == 0)
        return cli_fail(CLI_USAGE, "plan: %s", err.text);
    int rc = p->search ? list(p, meshes, count) : report_best(p, &meshes[0]);
    free(meshes);
    return rc;
}

static int run(struct planning *p)
{
    int rc = planask_read(&p->ask, &p->job);
    if (rc != CLI_DONE)
        return rc;
    rc = p->search || p->job.choose_mesh ? search(p) : report(p, &p->job.request);
    planask_clear(&p->job);
    return rc;
}

#define NUMBER(name, member, most, words) ARGS_OPTION_COUNT(name, 0, &p.ask.member, 1, most, "N", words)

static int plan(const struct command *self, int argc, char **argv)
{
    struct planning p = {.ask = {.gpus = PLANASK_NOT_GIVEN,
                                 .tp = PLANASK_NOT_GIVEN,
                                 .pp = PLANASK_NOT_GIVEN,
                                 .cp = PLANASK_NOT_GIVEN,
                                 .dp = PLANASK_NOT_GIVEN,
                                 .ep = PLANASK_NOT_GIVEN,
                                 .zero = PLANASK_NOT_GIVEN,
                                 .micro = PLANASK_NOT_GIVEN,
                                 .global = PLANASK_NOT_GIVEN,
                                 .context = PLANASK_NOT_GIVEN,
                                 .virtual_stages = PLANASK_NOT_GIVEN},
                         .top = TOP};
    const struct args_option options[] = {
        ARGS_OPTION_LIST("set", 0, &p.ask.sets, "KEY=VALUE", "put this in place of what the file says"),
        ARGS_OPTION_TEXT("model", 0, &p.ask.model, "NAME",
                         "plan a preset instead of a file, e.g. llama3-70b"),
        NUMBER("gpus", gpus, RANKS_MAX, "how many devices; without a mesh the best one is chosen"),
        ARGS_OPTION_TEXT("gpu", 0, &p.ask.gpu, "TYPE", "a100-40g, a100-80g, h100, h200, b200, gb200 or cpu"),
        ARGS_OPTION_TEXT("tokens", 0, &p.ask.tokens, "N", "tokens of the whole training, e.g. 300e9"),
        NUMBER("tp", tp, RANKS_MAX, "tensor parallelism"),
        NUMBER("pp", pp, RANKS_MAX, "pipeline parallelism"),
        NUMBER("cp", cp, RANKS_MAX, "context parallelism"),
        NUMBER("dp", dp, RANKS_MAX, "data parallelism"),
        NUMBER("ep", ep, RANKS_MAX, "expert parallelism"),
        ARGS_OPTION_COUNT("zero", 0, &p.ask.zero, 0, 3, "STAGE", "ZeRO stage (1 when there are replicas)"),
        NUMBER("virtual", virtual_stages, 1000, "virtual stages of an interleaved pipeline"),
        NUMBER("micro", micro, 1 << 24, "sequences in a micro-batch"),
        NUMBER("global", global, 1 << 24, "sequences in a step (about 4M tokens)"),
        NUMBER("context", context, 1 << 20, "tokens in a sequence"),
        ARGS_OPTION_TEXT("recompute", 0, &p.ask.recompute, "HOW", "none, selective or full"),
        ARGS_OPTION_TEXT("watts", 0, &p.ask.watts, "W",
                         "power of a device, for the energy (the maker's figure)"),
        ARGS_OPTION_TEXT("cluster", 0, &p.ask.cluster, "FILE", "links and sizes of this cluster file"),
        ARGS_OPTION_FLAG("search", 0, &p.search, "rank all meshes, with the reason why each loses"),
        ARGS_OPTION_COUNT("top", 0, &p.top, 1, MESHES_MAX, "N", "how many of them (10)"),
    };
    struct args args;
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc == ARGS_GO) {
        p.ask.file = args.n_words > 0 ? args.words[0] : NULL;
        p.output = args.output;
        rc = run(&p);
        args_clear(&args);
    }
    free(p.ask.sets.items);
    return rc;
}

const struct command command_plan = {
    .name = "plan",
    .args = "FILE | --model NAME --gpus N",
    .help = "Predicts memory, traffic, step time, MFU, days and energy of a training job; needs no cluster",
    .examples = "  belay plan job.yaml --gpu h100\n"
                "  belay plan --model gpt3-175b --gpus 1024 --gpu a100 --tokens 300e9\n"
                "  belay plan --model llama3-405b --gpus 16384 --tp 8 --pp 16 --virtual 8 --global 2048\n"
                "  belay plan --model llama3-70b --gpus 64 --search --top 5\n",
    .max_words = 1,
    .listing = true,
    .run = plan,
};
