/* planask: see planask.h. A job that is made of options goes through the same reader as a file, as a few lines of YAML, so both obey
 * the same rules. */
#include "launcher/planask.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/plancluster.h"
#include "schema/suggest.h"

#define PRESETS_MAX    64
#define TOKENS_MAX     1e18
#define WATTS_MAX      1e6
#define STEPS_MAX      1000000000.0
#define USUAL_TOKENS   4194304 /* in a step, when nobody says: what models of this size are trained with */
#define MADE_FILE_NAME "options"

/* A positive number such as `example`. 0 for NULL. */
static int read_real(const char *option, const char *text, double most, const char *example, double *out)
{
    char *end = NULL;
    *out = 0;
    if (!text)
        return CLI_DONE;
    errno = 0;
    *out = strtod(text, &end);
    if (end == text || *end || errno || !(*out > 0) || *out > most)
        return cli_fail(CLI_USAGE, "plan: --%s \"%s\" is not a number above 0 and up to %g, such as %s",
                        option, text, most, example);
    return CLI_DONE;
}

/* The numbers that go into the request as they are. */
static int read_reals(const struct planask *ask, struct plan_request *out)
{
    int rc = read_real("tokens", ask->tokens, TOKENS_MAX, "300e9", &out->tokens);
    if (rc == CLI_DONE)
        rc = read_real("watts", ask->watts, WATTS_MAX, "700", &out->watts);
    return rc == CLI_DONE ? read_real("mfu", ask->mfu, 1, "0.5", &out->mfu) : rc;
}

/* ---- a job made of options ---- */

static int check_model(const char *model)
{
    const char *names[PRESETS_MAX];
    size_t n = 0;
    for (; n < PRESETS_MAX && job_preset_name(n); n++) {
        names[n] = job_preset_name(n);
        if (strcmp(names[n], model) == 0)
            return CLI_DONE;
    }
    const char *near = suggest_nearest(model, names, n);
    if (near)
        return cli_fail(CLI_USAGE, "plan: there is no model called \"%s\": did you mean %s?", model, near);
    return cli_fail(
        CLI_USAGE,
        "plan: there is no model called \"%s\": docs/job-file.md lists the presets; for any other write a "
        "job file with train.model and plan that",
        model);
}

static int64_t or_one(int64_t given)
{
    return given == PLANASK_NOT_GIVEN ? 1 : given;
}

static bool mesh_given(const struct planask *ask)
{
    return ask->tp != PLANASK_NOT_GIVEN || ask->pp != PLANASK_NOT_GIVEN || ask->cp != PLANASK_NOT_GIVEN ||
           ask->dp != PLANASK_NOT_GIVEN || ask->ep != PLANASK_NOT_GIVEN;
}

/* Is one searched for? A file says one. */
static bool mesh_chosen(const struct planask *ask)
{
    return ask->search || (ask->model && !mesh_given(ask));
}

/* a x b, or one more than there may be ranks; both are at most that. */
static int64_t ranks_of(int64_t a, int64_t b)
{
    return a > JOB_RANKS_MAX / b ? JOB_RANKS_MAX + 1 : a * b;
}

/* Ranks in all and DP, from whichever of --gpus and --dp are given; of a search, whose meshes have --dp or any, the ranks. */
static int count_ranks(const struct planask *ask, int64_t *dp)
{
    int64_t replica = ranks_of(ranks_of(or_one(ask->tp), or_one(ask->pp)), or_one(ask->cp));
    int64_t asked = ranks_of(replica, or_one(ask->dp));
    int64_t gpus = ask->gpus == PLANASK_NOT_GIVEN ? asked : ask->gpus;
    if (asked > JOB_RANKS_MAX)
        return cli_fail(
            CLI_USAGE,
            "plan: tp x pp x cp x dp are more than %d ranks, which is the most that a job may have",
            JOB_RANKS_MAX);
    if (gpus % replica != 0)
        return cli_fail(CLI_USAGE, "plan: %lld GPUs cannot be divided by tp x pp x cp = %lld",
                        (long long)gpus, (long long)replica);
    *dp = gpus / replica;
    if (mesh_chosen(ask) && gpus % asked == 0)
        return CLI_DONE;
    if (ask->dp != PLANASK_NOT_GIVEN && ask->dp != *dp)
        return cli_fail(CLI_USAGE,
                        "plan: tp x pp x cp x dp is %lld, not --gpus %lld; leave one of --gpus and --dp away",
                        (long long)asked, (long long)gpus);
    return CLI_DONE;
}

/* About USUAL_TOKENS a step, as a multiple of dp, or of a part of the GPUs that a mesh may have as dp. */
static int64_t usual_batch(const struct planask *ask, int64_t context, int64_t dp)
{
    int64_t wanted = USUAL_TOKENS / context > 0 ? USUAL_TOKENS / context : 1, micro = or_one(ask->micro);
    bool any_dp = mesh_chosen(ask) && ask->dp == PLANASK_NOT_GIVEN;
    dp = mesh_chosen(ask) && !any_dp ? ask->dp : dp;
    while (any_dp && dp * micro > wanted && dp % 2 == 0)
        dp /= 2;
    return (wanted + dp * micro - 1) / (dp * micro) * dp * micro;
}

/* The model alone, to know its context. */
static int64_t context_of(const struct planask *ask)
{
    struct job_diagnostics *d = mem_zero(1, sizeof *d);
    struct job_spec *spec = NULL;
    int64_t context = 1;
    char *yaml = str_printf(
        "name: x\ntrain: {model: {preset: %s}, data: {path: x}, steps: 1, batch: {global: 1}}\n", ask->model);
    if (job_spec_parse_plan(yaml, strlen(yaml), MADE_FILE_NAME, NULL, 0, &spec, d) == 0)
        context = spec->train.model.context;
    job_spec_free(spec);
    free(yaml);
    free(d);
    return ask->context == PLANASK_NOT_GIVEN ? context : ask->context;
}

/* The line of the mesh; of one that is searched for, none. */
static char *mesh_yaml(const struct planask *ask, int64_t dp)
{
    int64_t zero = ask->zero == PLANASK_NOT_GIVEN ? dp * or_one(ask->cp) > 1 : ask->zero;
    bool pieces = ask->virtual_stages > 1;
    if (mesh_chosen(ask))
        return str_dup("");
    return str_printf("parallel: {tp: %lld, pp: %lld, cp: %lld, dp: %lld, ep: %lld, zero: %lld, schedule: "
                      "%s, virtual_stages: %lld}\n",
                      (long long)or_one(ask->tp), (long long)or_one(ask->pp), (long long)or_one(ask->cp),
                      (long long)dp, (long long)or_one(ask->ep), (long long)zero,
                      pieces ? "interleaved" : "1f1b", (long long)(pieces ? ask->virtual_stages : 1));
}

static char *write_yaml(const struct planask *ask, const struct plan_device *device, int64_t dp,
                        double tokens)
{
    int64_t context = context_of(ask);
    int64_t global = ask->global == PLANASK_NOT_GIVEN ? usual_batch(ask, context, dp) : ask->global;
    double steps = fmin(fmax(ceil(tokens / (double)(global * context)), 1), STEPS_MAX);
    bool chosen = mesh_chosen(ask);
    char *mesh = mesh_yaml(ask, dp);
    char *yaml =
        str_printf("name: %s\n"
                   "train:\n"
                   "  model: {preset: %s, context: %lld}\n"
                   "  data: {path: not-read.bin, tokenizer: \"its own\"}\n"
                   "  steps: %.0f\n"
                   "  batch: {global: %lld, micro: %lld}\n"
                   "  precision: %s\n"
                   "  recompute: %s\n"
                   "resources: {device: %s}\n"
                   "%s",
                   ask->model, ask->model, (long long)context, steps, (long long)global,
                   (long long)or_one(ask->micro), device->gpu ? "bf16" : "fp32",
                   ask->recompute && !chosen ? ask->recompute : "none", device->gpu ? "gpu" : "cpu", mesh);
    free(mesh);
    return yaml;
}

/* Without their place: there is no file to look into. */
static void print_sentences(const struct job_diagnostics *d)
{
    for (size_t i = 0; i < d->count && i < JOB_DIAGNOSTICS_MAX; i++) {
        const char *text = d->text[i];
        if (strncmp(text, MADE_FILE_NAME ":", sizeof MADE_FILE_NAME) == 0) {
            text = strstr(text, ": ");
            text = text ? text + 2 : d->text[i];
        }
        (void)cli_fail(CLI_USAGE, "plan: %s", text);
    }
}

static int make_spec(const struct planask *ask, const struct plan_device *device, double tokens,
                     struct planask_job *out)
{
    int64_t dp = 1;
    int rc = check_model(ask->model);
    if (rc == CLI_DONE)
        rc = count_ranks(ask, &dp);
    if (rc != CLI_DONE)
        return rc;
    struct job_diagnostics *d = mem_zero(1, sizeof *d);
    char *yaml = write_yaml(ask, device, dp, tokens);
    if (job_spec_parse_plan(yaml, strlen(yaml), MADE_FILE_NAME, ask->sets.items, ask->sets.count, &out->spec,
                            d) != 0) {
        print_sentences(d);
        rc = CLI_USAGE;
    } else if (mesh_chosen(ask)) {
        out->spec->ranks = ask->gpus;
        out->spec->dp = out->spec->dp_min = out->spec->dp_max = ask->gpus;
    }
    free(yaml);
    free(d);
    return rc;
}

/* ---- which device ---- */

/* What nobody says is taken from the job when it is for CPUs, then from the cluster, then from what the job computes in. */
static const char *device_name(const struct planask *ask, const struct planask_job *job)
{
    const struct job_spec *s = job->spec;
    const char *said = job->cluster ? plancluster_device(job->cluster, s ? s->device : DEVICE_AUTO) : "";
    if (ask->gpu)
        return ask->gpu;
    if (s && s->device == DEVICE_CPU)
        return "cpu";
    if (said[0])
        return said;
    return s && s->device == DEVICE_AUTO && s->train.precision == PRECISION_FP32 ? "cpu" : "h100";
}

/* ---- what the words may be ---- */

static const char *const recomputes[] = {"none", "selective", "full"};

/* An enum job_recompute, or SEARCH_FREE for NULL and for anything else. */
static int64_t recompute_of(const char *word)
{
    for (int64_t r = RECOMPUTE_NONE; word && r <= RECOMPUTE_FULL; r++)
        if (strcmp(recomputes[r], word) == 0)
            return r;
    return SEARCH_FREE;
}

static struct search_limits limits_of(const struct planask *ask)
{
    return (struct search_limits){
        .tp = ask->tp,
        .pp = ask->pp,
        .cp = ask->cp,
        .dp = ask->dp,
        .ep = ask->ep,
        .zero = ask->zero,
        .micro = ask->micro,
        .virtual_stages = ask->virtual_stages,
        .recompute = recompute_of(ask->recompute),
    };
}

/* What a search chooses cannot be said by --set, which changes a mesh that is there. The ranks of a file may be. */
static int check_set(const struct planask *ask, const char *set)
{
    static const char *const chosen[] = {
        "parallel.tp=",       "parallel.pp=",       "parallel.cp=",
        "parallel.ep=",       "parallel.zero=",     "parallel.virtual_stages=",
        "parallel.schedule=", "train.batch.micro=", "train.recompute=",
        "parallel.dp=",       "parallel=",          "train="};
    size_t n = sizeof chosen / sizeof *chosen - (ask->file ? 3 : 0);
    for (size_t i = 0; i < n; i++)
        if (strncmp(set, chosen[i], strlen(chosen[i])) == 0)
            return cli_fail(
                CLI_USAGE,
                "plan: --set %s says what is searched for here: use --tp, --pp, --cp, --dp, --ep, "
                "--zero, --virtual, --micro or --recompute instead",
                set);
    return CLI_DONE;
}

static int check_sets(const struct planask *ask)
{
    int rc = CLI_DONE;
    for (size_t i = 0; rc == CLI_DONE && mesh_chosen(ask) && i < ask->sets.count; i++)
        rc = check_set(ask, ask->sets.items[i]);
    return rc;
}

static int check_file_words(const struct planask *ask)
{
    bool size = ask->global != PLANASK_NOT_GIVEN || ask->context != PLANASK_NOT_GIVEN;
    bool mesh = ask->gpus != PLANASK_NOT_GIVEN || mesh_given(ask) || ask->zero != PLANASK_NOT_GIVEN ||
                ask->micro != PLANASK_NOT_GIVEN || ask->virtual_stages != PLANASK_NOT_GIVEN || ask->recompute;
    if (size || (mesh && !ask->search))
        return cli_fail(
            CLI_USAGE,
            "plan: the options of the mesh and the batch belong to --model%s; change a file's with "
            "--set, e.g. --set %s",
            ask->search ? "" : " or --search", size && !mesh ? "train.batch.global=64" : "parallel.tp=8");
    return CLI_DONE;
}

static int check_mesh_words(const struct planask *ask)
{
    if (ask->recompute && recompute_of(ask->recompute) == SEARCH_FREE)
        return cli_fail(CLI_USAGE, "plan: --recompute must be none, selective or full, not \"%s\"",
                        ask->recompute);
    if (ask->virtual_stages > 1 && (ask->pp == 1 || (!mesh_chosen(ask) && ask->pp == PLANASK_NOT_GIVEN)))
        return cli_fail(CLI_USAGE,
                        "plan: --virtual %lld cuts the ranks of a pipeline: it needs a --pp above 1",
                        (long long)ask->virtual_stages);
    return CLI_DONE;
}

static int check_words(const struct planask *ask)
{
    if (!ask->file && !ask->model)
        return cli_fail(CLI_USAGE, "plan: name a job file, or a model and GPUs: belay plan --model gpt3-175b "
                                   "--gpus 1024 --gpu h100");
    if (ask->file && ask->model)
        return cli_fail(CLI_USAGE, "plan: either a file or --model, not both");
    if (ask->model && ask->gpus == PLANASK_NOT_GIVEN && mesh_chosen(ask))
        return cli_fail(CLI_USAGE, "plan: say how many: --gpus N");
    int rc = ask->file ? check_file_words(ask) : CLI_DONE;
    if (rc == CLI_DONE)
        rc = check_mesh_words(ask);
    return rc == CLI_DONE ? check_sets(ask) : rc;
}

/* ---- all ---- */

static int read_spec(const struct planask *ask, const struct plan_device *device, double tokens,
                     struct planask_job *out)
{
    if (!ask->file)
        return make_spec(ask, device, tokens, out);
    out->spec = out->file.spec;
    if (ask->search && ask->gpus != PLANASK_NOT_GIVEN) {
        out->spec->ranks = ask->gpus;
        out->spec->dp = out->spec->dp_min = out->spec->dp_max = ask->gpus;
    }
    return CLI_DONE;
}

/* A program of its own is placed, not predicted, so any kind of device will do. */
static int read_device(const struct planask *ask, const struct planask_job *job,
                       const struct plan_device **device)
{
    struct err err = {""};
    const char *name = device_name(ask, job);
    *device = plan_device_find(name, &err);
    if (!*device && job->spec && !job->spec->is_train && !ask->gpu)
        *device = plan_device_at(0);
    if (!*device && job->cluster && !ask->gpu)
        return cli_fail(
            CLI_USAGE,
            "plan: %s has devices of type %s, of which the planner has no figures: name one that is "
            "like them with --gpu; known are " PLAN_DEVICE_NAMES,
            ask->cluster, name);
    if (!*device)
        return cli_fail(CLI_USAGE, "plan: %s", err.text);
    return job->cluster && ask->gpu ? plancluster_check(job->cluster, ask->cluster, *device) : CLI_DONE;
}

static int read_inputs(const struct planask *ask, struct planask_job *out)
{
    int rc = ask->cluster ? plancluster_load(ask->cluster, &out->cluster) : CLI_DONE;
    if (rc == CLI_DONE && ask->file) {
        rc = jobfile_load_plan(ask->file, &ask->sets, &out->file);
        out->spec = out->file.spec;
    }
    return rc;
}

int planask_read(const struct planask *ask, struct planask_job *out)
{
    struct plan_request reals = {.tokens = 0};
    const struct plan_device *device = NULL;
    *out = (struct planask_job){.choose_mesh = mesh_chosen(ask), .limits = limits_of(ask)};
    int rc = check_words(ask);
    if (rc == CLI_DONE)
        rc = read_reals(ask, &reals);
    if (rc == CLI_DONE)
        rc = read_inputs(ask, out);
    if (rc == CLI_DONE)
        rc = read_device(ask, out, &device);
    if (rc == CLI_DONE)
        rc = read_spec(ask, device, reals.tokens, out);
    if (rc != CLI_DONE) {
        planask_clear(out);
        return rc;
    }
    plan_request_init(out->spec, device, &out->request);
    out->request.tokens = reals.tokens;
    out->request.watts = reals.watts;
    out->request.mfu = reals.mfu;
    if (out->cluster)
        plancluster_apply(out->cluster, &out->request);
    return CLI_DONE;
}

void planask_clear(struct planask_job *job)
{
    if (job->spec != job->file.spec)
        job_spec_free(job->spec);
    jobfile_clear(&job->file);
    cluster_spec_free(job->cluster);
    *job = (struct planask_job){.choose_mesh = false};
}
