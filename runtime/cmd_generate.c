/* cmd_generate: see cmd_generate.h. Options, and texts in groups of as many as go on at once. */
#include "runtime/cmd_generate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "runtime/exits.h"
#include "runtime/generate.h"
#include "runtime/inference.h"
#include "runtime/options.h"
#include "runtime/printer.h"
#include "runtime/prompts.h"

#define MAX_TOKENS  128 /* unless told, or the context ends before */
#define WIDTH       32
#define WIDTH_MAX   4096
#define SAMPLES_MAX 1000000

static const char usage[] =
    "usage: belay-train generate --checkpoint PATH [OPTION]...\n"
    "\n"
    "Goes on from a prompt with a model. PATH is a checkpoint (ckpt/step-00000100), a checkpoint directory "
    "(then "
    "its newest),\n"
    "or a folder in Hugging Face's layout (--from PATH is the same).\n"
    "\n"
    "  --prompt TEXT        what to go on from\n"
    "  --prompt-file FILE   the same from a file, without the newline at its end; - or nothing: standard "
    "input\n"
    "  --prompt-ids LIST    the same as token ids, e.g. 15496,11\n"
    "  --begin              puts the tokenizer's begin of text before the prompt, as Llama 3 wants it\n"
    "  --batch              each line of the file is a prompt of its own\n"
    "  --samples N          texts from each prompt (default 1)\n"
    "  --max-tokens N       tokens of each text (default 128, or what is left of the model's context)\n"
    "  --temperature T      0 always takes the most likely token (default 1)\n"
    "  --top-k K            draws from the K most likely tokens (default 0: from all)\n"
    "  --top-p P            draws from the most likely tokens that together have probability P (default 1: "
    "all)\n"
    "  --seed S             the same seed gives the same text from a prompt, whatever else is generated "
    "(default "
    "0)\n"
    "  --ignore-end         goes on after the end of text\n"
    "  --echo               prints the prompt before its text\n"
    "  --logprobs           prints each token's id, the logarithm of its probability, and itself\n"
    "  --json               prints an object for each text, one a line\n"
    "  --stats              tokens per second on standard error\n"
    "  --tokenizer NAME     bytes, a tokenizer.json, tiktoken's ranks, or a folder, instead of the model's "
    "own\n"
    "  --precision NAME     fp32 (default) or bf16\n"
    "  --device NAME        auto (default: a GPU where there is one), cpu or gpu\n"
    "  --width N            texts that are worked on at once (default 32)\n"
    "  --no-cache           computes the whole text anew for each token, to compare with\n"
    "  --help\n"
    "\n"
    "Threads: OMP_NUM_THREADS, else all cores. Exit codes: 0 done; 1 error; 2 bad usage.\n";

struct options {
    struct inference_request model;
    struct prompts_request prompts;
    struct generate_options generate; /* max_tokens 0: the default */
    struct printer printer;
    size_t samples, width;
    bool stats;
};

enum {
    OPT_CHECKPOINT = 256,
    OPT_PROMPT,
    OPT_FILE,
    OPT_IDS,
    OPT_BEGIN,
    OPT_BATCH,
    OPT_SAMPLES,
    OPT_MAX,
    OPT_TEMPERATURE,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_SEED,
    OPT_IGNORE_END,
    OPT_ECHO,
    OPT_LOGPROBS,
    OPT_JSON,
    OPT_STATS,
    OPT_TOKENIZER,
    OPT_PRECISION,
    OPT_DEVICE,
    OPT_WIDTH,
    OPT_NO_CACHE,
    OPT_HELP
};

static const struct option long_options[] = {{"checkpoint", required_argument, NULL, OPT_CHECKPOINT},
                                             {"from", required_argument, NULL, OPT_CHECKPOINT},
                                             {"prompt", required_argument, NULL, OPT_PROMPT},
                                             {"prompt-file", required_argument, NULL, OPT_FILE},
                                             {"prompt-ids", required_argument, NULL, OPT_IDS},
                                             {"begin", no_argument, NULL, OPT_BEGIN},
                                             {"batch", no_argument, NULL, OPT_BATCH},
                                             {"samples", required_argument, NULL, OPT_SAMPLES},
                                             {"max-tokens", required_argument, NULL, OPT_MAX},
                                             {"temperature", required_argument, NULL, OPT_TEMPERATURE},
                                             {"top-k", required_argument, NULL, OPT_TOP_K},
                                             {"top-p", required_argument, NULL, OPT_TOP_P},
                                             {"seed", required_argument, NULL, OPT_SEED},
                                             {"ignore-end", no_argument, NULL, OPT_IGNORE_END},
                                             {"echo", no_argument, NULL, OPT_ECHO},
                                             {"logprobs", no_argument, NULL, OPT_LOGPROBS},
                                             {"json", no_argument, NULL, OPT_JSON},
                                             {"stats", no_argument, NULL, OPT_STATS},
                                             {"tokenizer", required_argument, NULL, OPT_TOKENIZER},
                                             {"precision", required_argument, NULL, OPT_PRECISION},
                                             {"device", required_argument, NULL, OPT_DEVICE},
                                             {"width", required_argument, NULL, OPT_WIDTH},
                                             {"no-cache", no_argument, NULL, OPT_NO_CACHE},
                                             {"help", no_argument, NULL, OPT_HELP},
                                             {NULL, 0, NULL, 0}};

/* ---- options ---- */

/* -1 = go on, else the exit code. */
static int whole(const char *option, int64_t min, int64_t max, size_t *out)
{
    int64_t value = 0;
    int code = options_whole(option, min, max, &value);
    if (code < 0)
        *out = (size_t)value;
    return code;
}

/* Of those that take a word or a number. */
static int apply_value(int option, struct options *o)
{
    struct sampling *s = &o->generate.sampling;
    size_t seed;
    int code;
    switch (option) {
    case OPT_CHECKPOINT:
        o->model.path = optarg;
        return -1;
    case OPT_PROMPT:
        o->prompts.text = optarg;
        return -1;
    case OPT_FILE:
        o->prompts.file = optarg;
        return -1;
    case OPT_IDS:
        o->prompts.ids = optarg;
        return -1;
    case OPT_TOKENIZER:
        o->model.tokenizer = optarg;
        return -1;
    case OPT_PRECISION:
        return options_precision("generate", &o->model.type);
    case OPT_DEVICE:
        return options_device("generate", &o->model.device);
    case OPT_SAMPLES:
        return whole("samples", 1, SAMPLES_MAX, &o->samples);
    case OPT_MAX:
        return whole("max-tokens", 1, INT32_MAX, &o->generate.max_tokens);
    case OPT_TOP_K:
        return whole("top-k", 0, INT32_MAX, &s->top_k);
    case OPT_WIDTH:
        return whole("width", 1, WIDTH_MAX, &o->width);
    case OPT_SEED:
        code = whole("seed", 0, INT64_MAX, &seed);
        s->seed = code < 0 ? seed : 0;
        return code;
    case OPT_TEMPERATURE:
        return options_real("temperature", 1e6, &s->temperature);
    default:
        return options_real("top-p", 1, &s->top_p);
    }
}

/* -1 = go on, else the exit code to end with. */
static int apply_option(int option, void *arg)
{
    struct options *o = arg;
    switch (option) {
    case OPT_BEGIN:
        o->prompts.begin = true;
        return -1;
    case OPT_BATCH:
        o->prompts.lines = true;
        return -1;
    case OPT_IGNORE_END:
        o->generate.stop = false;
        return -1;
    case OPT_ECHO:
        o->printer.echo = true;
        return -1;
    case OPT_LOGPROBS:
        o->printer.log_probabilities = true;
        return -1;
    case OPT_JSON:
        o->printer.json = true;
        return -1;
    case OPT_STATS:
        o->stats = true;
        return -1;
    case OPT_NO_CACHE:
        o->generate.cache = false;
        return -1;
    case OPT_HELP:
        return fputs(usage, stdout) < 0 ? EXIT_ERROR : EXIT_DONE;
    default:
        return apply_value(option, o);
    }
}

static int parse(int argc, char **argv, struct options *o)
{
    *o = (struct options){
        .generate = {.sampling = {.temperature = 1, .top_p = 1}, .stop = true, .cache = true},
        .samples = 1,
        .width = WIDTH,
        .stats = isatty(STDERR_FILENO)};
    int code = options_read("generate", long_options, argc, argv, apply_option, o);
    if (code >= 0)
        return code;
    const struct prompts_request *p = &o->prompts;
    if (optind < argc)
        return options_bad("generate", "generate takes options only; a prompt is given by --prompt TEXT");
    if (!o->model.path)
        return options_bad("generate", "generate needs --checkpoint PATH");
    if ((p->text != NULL) + (p->file != NULL) + (p->ids != NULL) > 1)
        return options_bad("generate", "--prompt, --prompt-file and --prompt-ids exclude each other");
    if (p->begin && p->ids)
        return options_bad("generate",
                           "--prompt-ids are taken as they are: write the begin of text among them");
    if (p->lines && (p->text || p->ids))
        return options_bad("generate", "--batch reads prompts from --prompt-file or standard input");
    return -1;
}

/* ---- work ---- */

/* As many tokens as there is room for after the longest prompt, when none were asked for. At least 1: generate() says when that is too many. */
static size_t default_max(const struct inference *in, const struct prompts *prompts)
{
    size_t context = (size_t)in->config.context, left = context;
    for (size_t i = 0; i < prompts->n; i++) {
        size_t n = prompts->list[i].n;
        left = n >= context ? 1 : context - n < left ? context - n : left;
    }
    return left < MAX_TOKENS ? left : MAX_TOKENS;
}

/* Texts first..first+count-1 of all, prompt after prompt. */
static int run_group(struct options *o, const struct inference *in, const struct prompts *prompts,
                     size_t first, size_t count, struct generate_times *times, struct err *err)
{
    struct generate_text *texts = mem_zero(count, sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        const struct prompt *p = &prompts->list[(first + i) / o->samples];
        texts[i].prompt = p->ids;
        texts[i].n_prompt = p->n;
        texts[i].sample = (first + i) % o->samples;
    }
    printer_begin(&o->printer, texts);
    int rc = generate(in, &o->generate, texts, count, printer_token, &o->printer, times, err);
    for (size_t i = 0; i < count; i++) {
        if (rc == 0)
            printer_text(&o->printer, &texts[i], (first + i) / o->samples, (first + i) % o->samples);
        free(texts[i].tokens);
        free(texts[i].log_probabilities);
    }
    free(texts);
    return rc;
}

static int run_all(struct options *o, const struct inference *in, const struct prompts *prompts,
                   struct err *err)
{
    struct generate_times t = {0, 0, 0, 0};
    size_t all = prompts->n * o->samples;
    o->printer.tokenizer = in->tokenizer;
    o->printer.alone = all == 1;
    if (o->generate.max_tokens == 0)
        o->generate.max_tokens = default_max(in, prompts);
    for (size_t at = 0; at < all; at += o->width) {
        size_t count = all - at < o->width ? all - at : o->width;
        if (run_group(o, in, prompts, at, count, &t, err) != 0)
            return -1;
    }
    if (o->stats)
        (void)fprintf(stderr, "%zu tokens read in %.2f s, %zu generated in %.2f s: %.1f tokens/s\n", t.prompt,
                      t.prompt_s, t.tokens, t.tokens_s, t.tokens_s > 0 ? (double)t.tokens / t.tokens_s : 0);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : err_set(err, "the text could not be written");
}

int cmd_generate(int argc, char **argv)
{
    struct options o;
    struct inference in;
    struct prompts prompts = {NULL, 0};
    struct err err = {""};
    int code = parse(argc, argv, &o);
    if (code >= 0)
        return code;
    int rc = inference_open(&in, &o.model, &err);
    if (rc == 0)
        rc = prompts_load(&o.prompts, in.tokenizer, &prompts, &err);
    if (rc == 0)
        rc = run_all(&o, &in, &prompts, &err);
    if (rc != 0)
        log_error("%s", err.text);
    prompts_clear(&prompts);
    inference_close(&in);
    return rc == 0 ? EXIT_DONE : EXIT_ERROR;
}
