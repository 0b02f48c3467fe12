/* cmd_eval: see cmd_eval.h. */
#include "runtime/cmd_eval.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/evalset.h"
#include "runtime/evaluate.h"
#include "runtime/exits.h"
#include "runtime/inference.h"
#include "runtime/options.h"

#define PROGRESS_INTERVAL_S 0.2

static const char usage[] =
    "usage: belay-train eval --checkpoint PATH (--data PATH | --job FILE) [OPTION]...\n"
    "\n"
    "Measures how well a model predicts: the mean loss in nats, the perplexity, and bits per byte of text. "
    "The "
    "checkpoint is one\n"
    "(ckpt/step-00000100), a checkpoint directory (then its newest), or a folder in Hugging Face's layout.\n"
    "\n"
    "  --data PATH          token files, as for train.data.path; else text, JSON lines, or a folder of them\n"
    "  --job FILE           what this job file holds out (train.data.holdout)\n"
    "  --set KEY=VALUE      replaces one field of it\n"
    "  --stride S           tokens from one window to the next (default: the model's context); with less, "
    "each "
    "token is\n"
    "                       predicted from at least context - S others\n"
    "  --sequences N        only the first N windows\n"
    "  --tokenizer NAME     bytes, a tokenizer.json, tiktoken's ranks, or a folder, instead of the model's "
    "own\n"
    "  --precision NAME     fp32 (default) or bf16\n"
    "  --device NAME        auto (default: a GPU where there is one), cpu or gpu\n"
    "  --json               prints an object instead of a line\n"
    "  --help\n"
    "\n"
    "Threads: OMP_NUM_THREADS, else all cores. Exit codes: 0 done; 1 error; 2 bad usage or job file.\n";

struct options {
    struct inference_request model;
    const char *data, *job;
    const char **sets;
    size_t n_sets;
    int64_t stride, sequences; /* 0 = the default */
    bool json;
};

enum {
    OPT_CHECKPOINT = 256,
    OPT_DATA,
    OPT_JOB,
    OPT_SET,
    OPT_STRIDE,
    OPT_SEQUENCES,
    OPT_TOKENIZER,
    OPT_PRECISION,
    OPT_DEVICE,
    OPT_JSON,
    OPT_HELP
};

static const struct option long_options[] = {{"checkpoint", required_argument, NULL, OPT_CHECKPOINT},
                                             {"from", required_argument, NULL, OPT_CHECKPOINT},
                                             {"data", required_argument, NULL, OPT_DATA},
                                             {"job", required_argument, NULL, OPT_JOB},
                                             {"set", required_argument, NULL, OPT_SET},
                                             {"stride", required_argument, NULL, OPT_STRIDE},
                                             {"sequences", required_argument, NULL, OPT_SEQUENCES},
                                             {"tokenizer", required_argument, NULL, OPT_TOKENIZER},
                                             {"precision", required_argument, NULL, OPT_PRECISION},
                                             {"device", required_argument, NULL, OPT_DEVICE},
                                             {"json", no_argument, NULL, OPT_JSON},
                                             {"help", no_argument, NULL, OPT_HELP},
                                             {NULL, 0, NULL, 0}};

/* ---- options ---- */

/* -1 = go on, else the exit code to end with. */
static int apply_option(int option, void *arg)
{
    struct options *o = arg;
    switch (option) {
    case OPT_CHECKPOINT:
        o->model.path = optarg;
        return -1;
    case OPT_DATA:
        o->data = optarg;
        return -1;
    case OPT_JOB:
        o->job = optarg;
        return -1;
    case OPT_SET:
        o->sets[o->n_sets++] = optarg;
        return -1;
    case OPT_STRIDE:
        return options_whole("stride", 1, INT64_MAX, &o->stride);
    case OPT_SEQUENCES:
        return options_whole("sequences", 1, INT64_MAX, &o->sequences);
    case OPT_TOKENIZER:
        o->model.tokenizer = optarg;
        return -1;
    case OPT_PRECISION:
        return options_precision("eval", &o->model.type);
    case OPT_DEVICE:
        return options_device("eval", &o->model.device);
    case OPT_JSON:
        o->json = true;
        return -1;
    default: /* OPT_HELP */
        return fputs(usage, stdout) < 0 ? EXIT_ERROR : EXIT_DONE;
    }
}

static int parse(int argc, char **argv, struct options *o)
{
    *o = (struct options){.sets = mem_zero((size_t)argc, sizeof *o->sets)};
    int code = options_read("eval", long_options, argc, argv, apply_option, o);
    if (code >= 0)
        return code;
    if (optind < argc)
        return options_bad(
            "eval", "eval takes options only; what to measure on is given by --data PATH or --job FILE");
    if (!o->model.path)
        return options_bad("eval", "eval needs --checkpoint PATH");
    if (!o->data == !o->job)
        return options_bad("eval", "eval needs either --data PATH or --job FILE");
    if (o->job && o->stride)
        return options_bad("eval",
                           "--stride is for --data: what a job holds out is cut as it was for training");
    return -1;
}

/* ---- what is measured on ---- */

/* 0 or the exit code, with the reasons printed. */
static int load_job(const struct options *o, struct job_spec **spec)
{
    struct job_diagnostics *diagnostics = mem_zero(1, sizeof *diagnostics);
    int code = job_spec_load(o->job, o->sets, o->n_sets, spec, diagnostics) == 0 ? 0 : EXIT_BAD_CONFIG;
    size_t shown = diagnostics->count < JOB_DIAGNOSTICS_MAX ? diagnostics->count : JOB_DIAGNOSTICS_MAX;
    for (size_t i = 0; i < shown; i++)
        (void)fprintf(stderr, "%s\n", diagnostics->text[i]);
    free(diagnostics);
    if (code == 0 && !(*spec)->is_train)
        code = options_bad("eval", "the job has run:, not train:, and holds nothing out");
    return code;
}

static struct evalset *open_set(const struct options *o, const struct inference *in,
                                const struct job_spec *spec, size_t *context, struct err *err)
{
    *context = (size_t)(spec ? spec->train.model.context : in->config.context);
    struct evalset_request r = {.path = o->data,
                                .train = spec ? &spec->train : NULL,
                                .tokenizer = in->tokenizer,
                                .vocab = in->config.vocab,
                                .context = *context,
                                .stride = o->stride ? (size_t)o->stride : *context};
    if (r.stride <= *context)
        return evalset_open(&r, err);
    err_set(err, "--stride %zu would leave tokens out: the model's context is %zu", r.stride, *context);
    return NULL;
}

/* ---- what people see ---- */

struct bar {
    bool on;
    double drawn;
};

static void on_progress(void *arg, const struct evaluate_result *r, uint64_t windows)
{
    struct bar *bar = arg;
    double now = clock_monotonic_s();
    if (!bar->on || r->counted == 0 || now - bar->drawn < PROGRESS_INTERVAL_S)
        return;
    bar->drawn = now;
    (void)fprintf(stderr, "\r\033[K%" PRIu64 " of %" PRIu64 " windows, loss %.4f", r->windows, windows,
                  r->nats / (double)r->counted);
    (void)fflush(stderr);
}

static void print_json(const struct inference *in, const struct evaluate_result *r, size_t context,
                       double seconds)
{
    double loss = r->nats / (double)r->counted;
    json_t *obj = json_object();
    jsonx_set_str(obj, "checkpoint", in->path);
    jsonx_set(obj, "step", in->step >= 0 ? json_integer(in->step) : json_null());
    jsonx_set_real(obj, "loss", loss);
    jsonx_set_real(obj, "perplexity", exp(loss));
    jsonx_set_real(obj, "bits_per_byte", r->nats / log(2) / (double)r->bytes);
    jsonx_set(obj, "tokens", json_integer((json_int_t)r->counted));
    jsonx_set(obj, "bytes", json_integer((json_int_t)r->bytes));
    jsonx_set(obj, "windows", json_integer((json_int_t)r->windows));
    jsonx_set(obj, "context", json_integer((json_int_t)context));
    jsonx_set_real(obj, "seconds", seconds);
    char *line = json_dumps(obj, JSON_COMPACT);
    if (line)
        (void)puts(line);
    free(line);
    json_decref(obj);
}

static void print_line(const struct inference *in, const struct evaluate_result *r, size_t context,
                       double seconds)
{
    double loss = r->nats / (double)r->counted;
    printf("%s: loss %.6f, perplexity %.4f", in->path, loss, exp(loss));
    if (r->bytes > 0)
        printf(", %.4f bits per byte", r->nats / log(2) / (double)r->bytes);
    printf(", over %" PRIu64 " tokens in %" PRIu64 " windows of %zu (%.1f s, %.0f tokens/s)\n", r->counted,
           r->windows, context, seconds, (double)r->counted / seconds);
}

/* ---- work ---- */

static int measure(const struct options *o, const struct inference *in, const struct job_spec *spec,
                   struct err *err)
{
    size_t context;
    struct evaluate_result result;
    struct bar bar = {.on = isatty(STDERR_FILENO)};
    struct evalset *set = open_set(o, in, spec, &context, err);
    if (!set)
        return -1;
    uint64_t windows = evalset_windows(set), wanted = (uint64_t)o->sequences;
    double begin = clock_monotonic_s();
    int rc = evaluate(in, set, context, wanted > 0 && wanted < windows ? wanted : windows, on_progress, &bar,
                      &result, err);
    double seconds = clock_monotonic_s() - begin;
    if (bar.on && bar.drawn > 0)
        (void)fputs("\r\033[K", stderr);
    evalset_close(set);
    if (rc == 0 && result.counted == 0)
        rc = err_set(err, "none of the tokens is to be counted");
    if (rc == 0)
        (o->json ? print_json : print_line)(in, &result, context, seconds);
    return rc;
}

static int run(const struct options *o)
{
    struct inference in;
    struct err err = {""};
    struct job_spec *spec = NULL;
    int code = o->job ? load_job(o, &spec) : 0;
    if (code == 0) {
        int rc = inference_open(&in, &o->model, &err);
        if (rc == 0)
            rc = measure(o, &in, spec, &err);
        if (rc != 0)
            log_error("%s", err.text);
        code = rc == 0 ? EXIT_DONE : EXIT_ERROR;
        inference_close(&in);
    }
    job_spec_free(spec);
    return code;
}

int cmd_eval(int argc, char **argv)
{
    struct options o;
    int code = parse(argc, argv, &o);
    if (code < 0)
        code = run(&o);
    free(o.sets);
    return code;
}
