/* belay plan: could a job start, and what will it cost, before it is submitted; needs no cluster. The words are read by planask, the cluster
 * is asked by planverdict, everything else is computed by planner/ and shown by planview. */
#include <stdio.h>
#include <stdlib.h>

#include "launcher/args.h"
#include "launcher/output.h"
#include "launcher/planask.h"
#include "launcher/planverdict.h"
#include "launcher/planview.h"
#include "launcher/verdictview.h"

#define RANKS_MAX  JOB_RANKS_MAX
#define TOP        10
#define MESHES_MAX 1000000

struct planning {
    struct planask ask;
    struct planask_job job;
    struct planverdict verdict;
    const char *dir, *svg, *colour;
    enum args_output output;
    bool search;
    int64_t top;
};

/* A job whose mesh does not fit the device can never run there; else it is as the cluster says. */
static int exit_code(const struct planning *p, const struct plan *plan)
{
    if (plan && !plan->fits)
        return CLI_NEVER;
    return p->verdict.known ? verdictview_exit(&p->verdict.verdict) : CLI_DONE;
}

static void print_verdict(const struct planning *p)
{
    enum verdict_kind kind = p->verdict.verdict.kind;
    bool would = kind == VERDICT_CAPACITY || kind == VERDICT_FRAGMENTED;
    verdictview_print(&p->verdict.verdict, would ? "If it were submitted now: it" : "It");
}

/* Of a program that nobody knows the insides of, where it would go is all there is to say. */
static int report_verdict(const struct planning *p)
{
    if (!p->verdict.known)
        return cli_fail(CLI_USAGE,
                        "plan: only train: jobs have a plan; of others it is said where they would "
                        "go: start a cluster, or name one with --cluster");
    if (p->output == OUTPUT_JSON) {
        json_t *o = json_pack("{s:O}", "verdict", p->verdict.encoded);
        output_json(o);
        json_decref(o);
    } else {
        print_verdict(p);
    }
    return exit_code(p, NULL);
}

static int report(const struct planning *p, const struct plan_request *request)
{
    struct plan plan;
    struct err err = {""};
    if (plan_make(request, &plan, &err) != 0)
        return cli_fail(CLI_USAGE, "plan: %s", err.text);
    if (p->output == OUTPUT_JSON) {
        json_t *o = planview_json(request, &plan);
        if (p->verdict.known)
            json_object_set(o, "verdict", p->verdict.encoded);
        output_json(o);
        json_decref(o);
    } else {
        if (p->verdict.known) {
            print_verdict(p);
            printf("\n");
        }
        planview_report(request, &plan, p->output == OUTPUT_WIDE);
    }
    return exit_code(p, &plan);
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
    return exit_code(p, &meshes[0].plan);
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

static int answer(struct planning *p)
{
    if (!p->job.spec->is_train)
        return report_verdict(p);
    if (p->search || p->job.choose_mesh)
        return search(p);
    planverdict_levels(&p->verdict, &p->job.request);
    return report(p, &p->job.request);
}

static int run(struct planning *p)
{
    int rc = planask_read(&p->ask, &p->job);
    if (rc != CLI_DONE)
        return rc;
    if (!p->search)
        rc = planverdict_ask(&p->ask, &p->job, p->dir, &p->verdict);
    if (rc == CLI_DONE && p->svg)
        rc = planverdict_draw(&p->verdict, &p->job, p->svg, p->colour);
    if (rc == CLI_DONE)
        rc = answer(p);
    planverdict_clear(&p->verdict);
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
        ARGS_OPTION_TEXT("cluster", 0, &p.ask.cluster, "FILE",
                         "ask about the cluster of this file instead of the one that runs"),
        ARGS_OPTION_TEXT("svg", 0, &p.svg, "FILE", "draw the cluster and where the ranks would go"),
        ARGS_OPTION_TEXT("colour", 0, &p.colour, "AXIS", "of the drawing: by tp, pp (default) or dp"),
        ARGS_OPTION_FLAG("search", 0, &p.search, "rank all meshes, with the reason why each loses"),
        ARGS_OPTION_COUNT("top", 0, &p.top, 1, MESHES_MAX, "N", "how many of them (10)"),
    };
    struct args args;
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc == ARGS_GO) {
        p.ask.file = args.n_words > 0 ? args.words[0] : NULL;
        p.output = args.output;
        p.dir = args.dir;
        rc = run(&p);
        args_clear(&args);
    }
    free(p.ask.sets.items);
    return rc;
}

const struct command command_plan = {
    .name = "plan",
    .args = "FILE | --model NAME --gpus N",
    .help = "Says whether a job could start and where, and predicts memory, traffic, step time, MFU, days "
            "and energy",
    .examples = "  belay plan job.yaml --gpu h100\n"
                "  belay plan --model gpt3-175b --gpus 1024 --gpu a100 --tokens 300e9\n"
                "  belay plan --model llama3-405b --gpus 16384 --tp 8 --pp 16 --virtual 8 --global 2048\n"
                "  belay plan --model llama3-70b --gpus 64 --search --top 5\n"
                "  belay plan job.yaml --cluster site.yaml --svg job.svg\n",
    .max_words = 1,
    .listing = true,
    .run = plan,
};
