/* belay plan: could a job start, and what will it cost, before it is submitted; needs no cluster. The words are read by planask, the cluster
 * is asked by planverdict, everything else is computed by planner/ and shown by planview. */
#include <stdio.h>
#include <stdlib.h>

#include "common/mem.h"
#include "daemon/core/explain.h"
#include "launcher/args.h"
#include "launcher/output.h"
#include "launcher/planask.h"
#include "launcher/plandevices.h"
#include "launcher/planverdict.h"
#include "launcher/planview.h"
#include "launcher/verdictview.h"

#define RANKS_MAX  JOB_RANKS_MAX
#define TOP        10
#define TRIES      5 /* meshes that the cluster is asked about */
#define MESHES_MAX 1000000

struct planning {
    struct planask ask;
    struct planask_job job;
    struct planverdict verdict;
    const char *dir, *svg, *colour;
    enum args_output output;
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

static void print_report(const struct planning *p, const struct plan *plan, const struct plannotes *notes)
{
    if (p->output == OUTPUT_JSON) {
        json_t *o = planview_json(&p->job.request, plan, notes);
        if (p->verdict.known)
            json_object_set(o, "verdict", p->verdict.encoded);
        output_json(o);
        json_decref(o);
        return;
    }
    if (p->verdict.known) {
        print_verdict(p);
        printf("\n");
    }
    planview_report(&p->job.request, plan, notes, p->output == OUTPUT_WIDE);
}

/* Of the mesh that the job has, on the devices and over the links that its placement would use. */
static int report(struct planning *p)
{
    struct plan plan;
    struct err err = {""};
    struct plannotes notes = {.count = 0};
    struct plan_request *request = &p->job.request;
    plannotes_add(&notes, plandevices_apply(&p->verdict, &p->ask, &p->job, request));
    planverdict_levels(&p->verdict, request);
    int rc = plan_make(request, &plan, &err);
    if (rc == 0) {
        planverdict_memory(&p->verdict, request, &plan);
        plannotes_caution(&notes, request, &plan);
        print_report(p, &plan, &notes);
        rc = exit_code(p, &plan);
    } else {
        rc = cli_fail(CLI_USAGE, "plan: %s", err.text);
    }
    plannotes_clear(&notes);
    return rc;
}

/* ---- a mesh that is searched for ---- */

static void adopt(struct job_spec *s, const struct search_result *mesh)
{
    s->tp = mesh->tp;
    s->pp = mesh->pp;
    s->cp = mesh->cp;
    s->dp = s->dp_min = s->dp_max = mesh->dp;
    s->ep = mesh->ep;
    s->zero = mesh->zero;
    s->pipeline = mesh->pipeline;
    s->virtual_stages = mesh->virtual_stages;
    s->train.batch_micro = mesh->micro;
    s->train.recompute = mesh->recompute;
}

static int ask_and_draw(struct planning *p)
{
    int rc = planverdict_ask(&p->ask, &p->job, p->dir, &p->verdict);
    if (rc == CLI_DONE && p->svg)
        rc = planverdict_draw(&p->verdict, &p->job, p->svg, p->colour);
    return rc;
}

/* The best mesh, and where the cluster can never place it, the best of the next few that it can. */
static int report_best(struct planning *p, const struct search_result *meshes, size_t count)
{
    struct verdict v;
    size_t best = 0;
    for (size_t i = 0; p->job.cluster && i < count && i < TRIES && meshes[i].plan.fits; i++) {
        adopt(p->job.spec, &meshes[i]);
        explain_cluster(p->job.cluster, p->job.spec, false, &v);
        bool never = v.kind == VERDICT_NEVER;
        verdict_clear(&v);
        if (!never) {
            best = i;
            break;
        }
    }
    adopt(p->job.spec, &meshes[best]);
    plan_level_default(p->job.spec, p->job.request.devices, p->job.request.level);
    int rc = ask_and_draw(p);
    return rc == CLI_DONE ? report(p) : rc;
}

/* Of the meshes that are shown; NULL without a cluster. */
static struct verdict *verdicts_of(const struct planning *p, const struct search_result *meshes, size_t n)
{
    if (!p->job.cluster)
        return NULL;
    struct verdict *all = mem_zero(n + 1, sizeof(*all));
    for (size_t i = 0; i < n; i++) {
        adopt(p->job.spec, &meshes[i]);
        explain_cluster(p->job.cluster, p->job.spec, false, &all[i]);
    }
    return all;
}

/* 0 when one of the shown meshes could start now, 6 when one would only have to wait, else 7. */
static int search_exit(const struct search_result *meshes, const struct verdict *verdicts, size_t n)
{
    int best = CLI_NEVER;
    for (size_t i = 0; i < n && meshes[i].plan.fits; i++) {
        int rc = verdicts ? verdictview_exit(&verdicts[i]) : CLI_DONE;
        best = rc < best ? rc : best;
    }
    return best;
}

static int list(const struct planning *p, const struct search_result *meshes, size_t count)
{
    size_t top = (size_t)p->top < count ? (size_t)p->top : count;
    struct verdict *verdicts = verdicts_of(p, meshes, top);
    if (p->output == OUTPUT_JSON) {
        json_t *o = planview_search_json(meshes, count, top, verdicts);
        output_json(o);
        json_decref(o);
    } else {
        planview_search(&p->job.request, meshes, count, top, verdicts, p->output == OUTPUT_WIDE);
    }
    int rc = search_exit(meshes, verdicts, top);
    for (size_t i = 0; verdicts && i < top; i++)
        verdict_clear(&verdicts[i]);
    free(verdicts);
    return rc;
}

static int search(struct planning *p)
{
    struct search_result *meshes = NULL;
    struct err err = {""};
    size_t count = plan_search(&p->job.request, &p->job.limits, &meshes, &err);
    if (count == 0)
        return cli_fail(CLI_USAGE, "plan: %s", err.text);
    int rc = p->ask.search ? list(p, meshes, count) : report_best(p, meshes, count);
    free(meshes);
    return rc;
}

static int answer(struct planning *p)
{
    if (p->job.choose_mesh)
        return search(p);
    int rc = ask_and_draw(p);
    if (rc != CLI_DONE)
        return rc;
    return p->job.spec->is_train ? report(p) : report_verdict(p);
}

static int run(struct planning *p)
{
    if (p->svg && p->ask.search)
        return cli_fail(CLI_USAGE, "plan: --svg draws one mesh and --search ranks many: leave one away");
    int rc = planask_read(&p->ask, &p->job);
    if (rc != CLI_DONE)
        return rc;
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
        ARGS_OPTION_TEXT("mfu", 0, &p.ask.mfu, "SHARE",
                         "say the days at this utilisation too, e.g. 0.5, by 6 x parameters x tokens"),
        ARGS_OPTION_TEXT("cluster", 0, &p.ask.cluster, "FILE",
                         "ask about the cluster of this file instead of the one that runs"),
        ARGS_OPTION_TEXT("svg", 0, &p.svg, "FILE", "draw the cluster and where the ranks would go"),
        ARGS_OPTION_TEXT("colour", 0, &p.colour, "AXIS", "of the drawing: by tp, pp (default) or dp"),
        ARGS_OPTION_FLAG("search", 0, &p.ask.search, "rank all meshes, with the reason why each loses"),
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
