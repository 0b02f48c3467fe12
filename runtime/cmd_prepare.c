/* cmd_prepare: see cmd_prepare.h. Options, a progress bar on a terminal, and a summary; the work is in runtime/data/prepare.h. */
#include "runtime/cmd_prepare.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/data/prepare.h"
#include "runtime/exits.h"
#include "runtime/options.h"

#define SHARD_TOKENS   100000000 /* 200 MB of 16 bits: what llm.c's scripts make */
#define JOBS_MAX       1024
#define BAR_WIDTH      32
#define BAR_INTERVAL_S 0.1

static const char usage[] =
    "usage: belay-train prepare --out FOLDER [OPTION]... INPUT...\n"
    "\n"
    "Makes token files for train.data.path from text. An INPUT is a text file (one document), a file of JSON "
    "lines\n"
    "(*.jsonl, a document each), or a folder, of which all files are taken in the order of their names.\n"
    "\n"
    "  --out FOLDER           a new or empty folder for the token files, index.json and tokenizer.json\n"
    "  --tokenizer NAME       bytes (default), a tokenizer.json, tiktoken's ranks, or a folder with one\n"
    "  --train-tokenizer N    train a byte-level BPE of N tokens on the inputs instead\n"
    "  --split NAME           how that cuts text before merging: gpt2 (default) or llama3\n"
    "  --field NAME           the member of each JSON line to take. Without it: \"text\", else \"prompt\" "
    "and\n"
    "                         \"completion\", of which the prompt is not counted as something to predict\n"
    "  --skip-bad-lines       leave out JSON lines that have no such member, instead of stopping\n"
    "  --shard-tokens N       tokens in a file (default 100000000)\n"
    "  --jobs N               threads (default: one a core); the files are the same for every number\n"
    "  --help\n"
    "\n"
    "Exit codes: 0 done; 1 error; 2 bad usage. An interrupted run is begun anew by the same command.\n";

enum {
    OPT_OUT = 256,
    OPT_TOKENIZER,
    OPT_TRAIN,
    OPT_SPLIT,
    OPT_FIELD,
    OPT_SKIP,
    OPT_SHARD,
    OPT_JOBS,
    OPT_HELP
};

static const struct option long_options[] = {{"out", required_argument, NULL, OPT_OUT},
                                             {"tokenizer", required_argument, NULL, OPT_TOKENIZER},
                                             {"train-tokenizer", required_argument, NULL, OPT_TRAIN},
                                             {"split", required_argument, NULL, OPT_SPLIT},
                                             {"field", required_argument, NULL, OPT_FIELD},
                                             {"skip-bad-lines", no_argument, NULL, OPT_SKIP},
                                             {"shard-tokens", required_argument, NULL, OPT_SHARD},
                                             {"jobs", required_argument, NULL, OPT_JOBS},
                                             {"help", no_argument, NULL, OPT_HELP},
                                             {NULL, 0, NULL, 0}};

static int split(enum presplit *out)
{
    for (int kind = PRESPLIT_GPT2; kind < PRESPLIT_COUNT; kind++) {
        *out = (enum presplit)kind;
        if (strcmp(optarg, presplit_name(*out)) == 0)
            return -1;
    }
    return options_bad("prepare", "--split must be gpt2 or llama3");
}

/* -1 = go on, else the exit code to end with. */
static int apply_option(int option, void *arg)
{
    struct prepare_options *o = arg;
    int64_t value = 0;
    int code = -1;
    switch (option) {
    case OPT_OUT:
        o->out = optarg;
        return -1;
    case OPT_TOKENIZER:
        o->tokenizer = optarg;
        return -1;
    case OPT_TRAIN:
        return options_whole("train-tokenizer", 257, 16777216, &o->train_vocab);
    case OPT_SPLIT:
        return split(&o->split);
    case OPT_FIELD:
        o->field = optarg;
        return -1;
    case OPT_SKIP:
        o->skip_bad_lines = true;
        return -1;
    case OPT_SHARD:
        code = options_whole("shard-tokens", 1, INT64_C(1) << 40, &value);
        o->shard_tokens = (uint64_t)value;
        return code;
    case OPT_JOBS:
        code = options_whole("jobs", 1, JOBS_MAX, &value);
        o->jobs = (int)value;
        return code;
    default: /* OPT_HELP */
        return fputs(usage, stdout) < 0 ? EXIT_ERROR : EXIT_DONE;
    }
}

static int cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > JOBS_MAX ? JOBS_MAX : (int)n;
}

static int parse(int argc, char **argv, struct prepare_options *o)
{
    *o = (struct prepare_options){.shard_tokens = SHARD_TOKENS, .jobs = cores(), .split = PRESPLIT_GPT2};
    int code = options_read("prepare", long_options, argc, argv, apply_option, o);
    if (code >= 0)
        return code;
    if (!o->out)
        return options_bad("prepare", "prepare needs --out FOLDER");
    if (optind >= argc)
        return options_bad("prepare", "prepare needs text: give files or folders");
    if (o->train_vocab > 0 && o->tokenizer)
        return options_bad("prepare", "--tokenizer and --train-tokenizer cannot both be given");
    if (!o->tokenizer)
        o->tokenizer = "bytes";
    o->inputs = (const char *const *)argv + optind;
    o->n_inputs = (size_t)(argc - optind);
    return -1;
}

/* ---- what people see ---- */

struct bar {
    bool on;
    const char *full, *rest; /* one column of it */
    double begin, drawn;
    const char *phase; /* that `begin` belongs to */
};

/* "12.3M" */
static void print_count(char *out, size_t room, double n)
{
    static const char units[] = " kMGT";
    size_t unit = 0;
    for (; n >= 999.5 && unit < 4; unit++)
        n /= 1000;
    if (unit == 0)
        (void)snprintf(out, room, "%.0f", n);
    else
        (void)snprintf(out, room, "%.*f%c", n < 9.995 ? 2 : n < 99.95 ? 1 : 0, n, units[unit]);
}

static void print_time(char *out, size_t room, double s)
{
    if (s < 100)
        (void)snprintf(out, room, "%.0fs", s);
    else if (s < 6000)
        (void)snprintf(out, room, "%.0fm", s / 60);
    else
        (void)snprintf(out, room, "%.1fh", s / 3600);
}

static struct bar bar_begin(void)
{
    const char *term = getenv("TERM"), *locale = getenv("LC_ALL");
    bool on = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    locale = locale && *locale ? locale : getenv("LC_CTYPE");
    locale = locale && *locale ? locale : getenv("LANG");
    bool utf8 = locale && (strcasestr(locale, "UTF-8") || strcasestr(locale, "utf8"));
    return (struct bar){.on = on, .full = utf8 ? "━" : "#", .rest = utf8 ? "╌" : "-"};
}

static void draw(const struct bar *bar, const struct prepare_progress *p, double elapsed)
{
    char rate[16], tokens[16], eta[16];
    double share = p->all > 0 ? (double)p->done / (double)p->all : 1;
    int full = (int)(share * BAR_WIDTH + 0.5);
    print_count(rate, sizeof rate, elapsed > 0 ? (double)p->done / elapsed : 0);
    print_count(tokens, sizeof tokens, (double)p->tokens);
    print_time(eta, sizeof eta, share > 0 ? elapsed / share - elapsed : 0);
    (void)fprintf(stderr, "\r\033[K%s ", p->phase);
    for (int i = 0; i < BAR_WIDTH; i++)
        (void)fputs(i < full ? bar->full : bar->rest, stderr);
    (void)fprintf(stderr, " %3.0f%%  %s%s/s", 100 * share, rate, p->unit);
    if (p->tokens > 0)
        (void)fprintf(stderr, "  %s tokens", tokens);
    (void)fprintf(stderr, "  eta %s", eta);
    (void)fflush(stderr);
}

static void on_progress(void *arg, const struct prepare_progress *p)
{
    struct bar *bar = arg;
    double now = clock_monotonic_s();
    if (!bar->on)
        return;
    if (!bar->phase || strcmp(bar->phase, p->phase) != 0) {
        bar->phase = p->phase;
        bar->begin = bar->drawn = now; /* the first rate is of a while, not of a moment */
    }
    if (now - bar->drawn < BAR_INTERVAL_S && p->done < p->all)
        return;
    bar->drawn = now;
    draw(bar, p, now - bar->begin);
}

static void end_bar(const struct bar *bar)
{
    if (bar->on && bar->phase)
        (void)fputs("\r\033[K", stderr);
}

static void plural(char *out, size_t room, uint64_t n, const char *what)
{
    (void)snprintf(out, room, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
}

static void summarize(const struct prepare_options *o, const struct prepare_progress *p, double seconds)
{
    char documents[64], files[64], shards[64], rate[16];
    bool bytes = strcmp(o->tokenizer, "bytes") == 0 && o->train_vocab == 0;
    plural(documents, sizeof documents, p->documents, "document");
    plural(files, sizeof files, p->files, "file");
    plural(shards, sizeof shards, p->shards, "shard");
    print_count(rate, sizeof rate, seconds > 0 ? (double)p->bytes / seconds : 0);
    printf("%s in %s, %" PRIu64 " bytes of text: %" PRIu64
           " tokens, %.2f bytes a token, to %s in %s (%.1f s, %sB/s)\n",
           documents, files, p->text_bytes, p->tokens, (double)p->text_bytes / (double)p->tokens, shards,
           o->out, seconds, rate);
    if (o->train_vocab > p->vocab)
        printf("the tokenizer has %" PRId64 " tokens: no other pair occurs twice in these texts\n", p->vocab);
    if (p->masked > 0)
        printf("%" PRIu64 " tokens of prompts are not counted as targets\n", p->masked);
    if (p->bad_lines > 0)
        printf("left out what is no record: %" PRIu64 " of the lines; the first is %s\n", p->bad_lines,
               p->bad.text);
    if (p->left_out > 0)
        printf("left out what is not text: %zu of the files\n", p->left_out);
    printf("train with: model: {vocab: %" PRId64 "}, data: {path: %s, tokenizer: %s}\n", p->vocab, o->out,
           bytes ? "bytes" : o->out);
}

int cmd_prepare(int argc, char **argv)
{
    struct prepare_options options;
    struct prepare_progress done;
    struct bar bar = bar_begin();
    struct err err = {""};
    int code = parse(argc, argv, &options);
    if (code >= 0)
        return code;
    (void)signal(SIGINT, SIG_DFL); /* a trainer saves before it ends; here there is nothing to save */
    (void)signal(SIGTERM, SIG_DFL);
    double begin = clock_monotonic_s();
    int rc = prepare(&options, on_progress, &bar, &done, &err);
    end_bar(&bar);
    if (rc != 0) {
        log_error("%s", err.text);
        return EXIT_ERROR;
    }
    summarize(&options, &done, clock_monotonic_s() - begin);
    return EXIT_DONE;
}
