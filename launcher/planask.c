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

/* A positive number such as 15e12. 0 for NULL. */
static int read_real(const char *option, const char *text, double most, double *out)
{
    char *end = NULL;
    *out = 0;
    if (!text)
        return CLI_DONE;
    errno = 0;
    *out = strtod(text, &end);
    if (end == text || *end || errno || !(*out > 0) || *out > most)
        return cli_fail(CLI_USAGE, "plan: --%s \"%s\" is not a number above 0 and up to %g, such as 300e9",
                        option, text, most);
    return CLI_DONE;
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

/* Ranks in all and DP, from whichever of --gpus and --dp are given. */
static int count_ranks(const struct planask *ask, int64_t *dp)
{
    int64_t replica = or_one(ask->tp) * or_one(ask->pp) * or_one(ask->cp);
    int64_t gpus = ask->gpus == PLANASK_NOT_GIVEN ? replica * or_one(ask->dp) : ask->gpus;
    if (gpus % replica != 0)
        return cli_fail(CLI_USAGE, "plan: %lld GPUs cannot be divided by tp x pp x cp = %lld",
                        (long long)gpus, (long long)replica);
    int64_t asked = replica * or_one(ask->dp);
    *dp = gpus / replica;
    if (ask->dp != PLANASK_NOT_GIVEN && ask->dp != *dp)
        return cli_fail(CLI_USAGE,
                        "plan: tp x pp x cp x dp is %lld, not --gpus %lld; leave one of --gpus and --dp away",
                        (long long)asked, (long long)gpus);
    return CLI_DONE;
}

/* About USUAL_TOKENS a step, as a multiple of dp, or of a part of the GPUs that a mesh may have as dp. */
static int64_t usual_batch(const struct planask *ask, int64_t context, int64_t dp)
{
    int64_t wanted = USUAL_TOKENS / context > 0 ? USUAL_TOKENS / context : 1, unit = dp * or_one(ask->micro);
    while (!mesh_given(ask) && unit > wanted && unit % 2 == 0)
        unit /= 2;
    return (wanted + unit - 1) / unit * unit;
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

static char *write_yaml(const struct planask *ask, const struct plan_device *device, int64_t dp,
                        double tokens)
{
    int64_t context = context_of(ask);
    int64_t global = ask->global == PLANASK_NOT_GIVEN ? usual_batch(ask, context, dp) : ask->global;
    double steps = fmin(fmax(ceil(tokens / (double)(global * context)), 1), STEPS_MAX);
    int64_t zero = ask->zero == PLANASK_NOT_GIVEN ? dp * or_one(ask->cp) > 1 : ask->zero;
    bool pieces = ask->virtual_stages > 1;
    return str_printf("name: %s\n"
                      "train:\n"
                      "  model: {preset: %s, context: %lld}\n"
                      "  data: {path: not-read.bin, tokenizer: \"its own\"}\n"
                      "  steps: %.0f\n"
                      "  batch: {global: %lld, micro: %lld}\n"
                      "  precision: %s\n"
                      "  recompute: %s\n"
                      "parallel: {tp: %lld, pp: %lld, cp: %lld, dp: %lld, ep: %lld, zero: %lld, schedule: "
                      "%s, virtual_stages: %lld}\n",
                      ask->model, ask->model, (long long)context, steps, (long long)global,
                      (long long)or_one(ask->micro), device->gpu ? "bf16" : "fp32",
                      ask->recompute ? ask->recompute : "none", (long long)or_one(ask->tp),
                      (long long)or_one(ask->pp), (long long)or_one(ask->cp),
                      (long long)(mesh_given(ask) ? dp : 1), (long long)or_one(ask->ep), (long long)zero,
                      pieces ? "interleaved" : "1f1b", (long long)(pieces ? ask->virtual_stages : 1));
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
    } else if (!mesh_given(ask)) { /* which mesh the devices form is searched for */
        out->choose_mesh = true;
        out->spec->ranks = dp;
        out->spec->dp = dp;
    }
    free(yaml);
    free(d);
    return rc;
}

/* ---- which device ---- */

/* What nobody says is taken from the cluster, then from what the job asks for. */
static const char *device_name(const struct planask *ask, const struct planask_job *job)
{
    const char *said = job->cluster ? plancluster_device(job->cluster) : "";
    if (ask->gpu)
        return ask->gpu;
    if (said[0])
        return said;
    if (job->spec && job->spec->device != DEVICE_GPU &&
        (job->spec->device == DEVICE_CPU || job->spec->train.precision == PRECISION_FP32))
        return "cpu";
    return "h100";
}

/* ---- all ---- */

static int check_words(const struct planask *ask)
{
    bool options = mesh_given(ask) || ask->gpus != PLANASK_NOT_GIVEN || ask->zero != PLANASK_NOT_GIVEN ||
                   ask->micro != PLANASK_NOT_GIVEN || ask->global != PLANASK_NOT_GIVEN ||
                   ask->context != PLANASK_NOT_GIVEN || ask->virtual_stages != PLANASK_NOT_GIVEN ||
                   ask->recompute;
    if (!ask->file && !ask->model)
        return cli_fail(CLI_USAGE, "plan: name a job file, or a model and GPUs: belay plan --model gpt3-175b "
                                   "--gpus 1024 --gpu h100");
    if (ask->file && ask->model)
        return cli_fail(CLI_USAGE, "plan: either a file or --model, not both");
    if (ask->file && options)
        return cli_fail(CLI_USAGE,
                        "plan: the options of the mesh and the batch belong to --model; change a file's with "
                        "--set, e.g. --set parallel.tp=8");
    if (!ask->file && ask->gpus == PLANASK_NOT_GIVEN && !mesh_given(ask))
        return cli_fail(CLI_USAGE, "plan: say how many: --gpus N");
    return CLI_DONE;
}

static int read_spec(const struct planask *ask, const struct plan_device *device, double tokens,
                     struct planask_job *out)
{
    if (!ask->file)
        return make_spec(ask, device, tokens, out);
    out->spec = out->file.spec;
    return CLI_DONE;
}

static int read_device(const struct planask *ask, const struct planask_job *job,
                       const struct plan_device **device)
{
    struct err err = {""};
    *device = plan_device_find(device_name(ask, job), &err);
    return *device ? CLI_DONE : cli_fail(CLI_USAGE, "plan: %s", err.text);
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
    double tokens = 0, watts = 0;
    const struct plan_device *device = NULL;
    *out = (struct planask_job){.choose_mesh = false};
    int rc = check_words(ask);
    if (rc == CLI_DONE)
        rc = read_real("tokens", ask->tokens, TOKENS_MAX, &tokens);
    if (rc == CLI_DONE)
        rc = read_real("watts", ask->watts, WATTS_MAX, &watts);
    if (rc == CLI_DONE)
        rc = read_inputs(ask, out);
    if (rc == CLI_DONE)
        rc = read_device(ask, out, &device);
    if (rc == CLI_DONE)
        rc = read_spec(ask, device, tokens, out);
    if (rc != CLI_DONE) {
        planask_clear(out);
        return rc;
    }
    plan_request_init(out->spec, device, &out->request);
    out->request.tokens = tokens;
    out->request.watts = watts;
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
