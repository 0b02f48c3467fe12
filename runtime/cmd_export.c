/* cmd_export: see cmd_export.h. */
#include "runtime/cmd_export.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/convert/export.h"
#include "runtime/convert/outfolder.h"
#include "runtime/exits.h"
#include "runtime/options.h"
#include "runtime/signals.h"

static const char usage[] =
    "usage: belay-train export CHECKPOINT --out PATH [--format hf|gguf] [--dtype f32|bf16|f16] [--tokenizer "
    "NAME]\n"
    "\n"
    "Writes a model as other programs read it. CHECKPOINT is one checkpoint (ckpt/step-00000100), a "
    "checkpoint "
    "directory (then\n"
    "the newest in it), or a folder of Hugging Face's layout.\n"
    "\n"
    "  --out PATH         the folder to make, or a file that ends in .gguf\n"
    "  --format hf        Hugging Face's layout: safetensors, config.json, tokenizer.json (the default)\n"
    "  --format gguf      one file for llama.cpp (the default when PATH ends in .gguf; in a folder it is "
    "model.gguf)\n"
    "  --dtype TYPE       f32 (the default: what was trained, bit for bit), bf16 or f16\n"
    "  --tokenizer NAME   as train.data.tokenizer; the default is what the checkpoint names\n"
    "  --max-shard SIZE   most bytes of one safetensors file, 5GB if not given (KB, MB and GB are powers of "
    "1000)\n";

struct options {
    const char *from, *out, *format, *tokenizer;
    enum dtype type;
    uint64_t shard;
};

static int parse_type(const char *text, struct options *o)
{
    static const struct {
        const char *name;
        enum dtype type;
    } types[] = {{"f32", DTYPE_F32}, {"bf16", DTYPE_BF16}, {"f16", DTYPE_F16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(text, types[i].name) == 0) {
            o->type = types[i].type;
            return 0;
        }
    log_error("--dtype %s is none of f32, bf16 and f16", text);
    return -1;
}

static int parse_shard(const char *text, struct options *o)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1}, {"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
    char *end;
    double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && value * units[i].bytes >= 1 &&
            value * units[i].bytes < 1e15) {
            o->shard = (uint64_t)(value * units[i].bytes);
            return 0;
        }
    log_error("--max-shard %s is no size like 5GB", text);
    return -1;
}

enum { OPT_OUT = 256, OPT_FORMAT, OPT_DTYPE, OPT_TOKENIZER, OPT_SHARD, OPT_HELP };

static const struct option long_options[] = {{"out", required_argument, NULL, OPT_OUT},
                                             {"format", required_argument, NULL, OPT_FORMAT},
                                             {"dtype", required_argument, NULL, OPT_DTYPE},
                                             {"tokenizer", required_argument, NULL, OPT_TOKENIZER},
                                             {"max-shard", required_argument, NULL, OPT_SHARD},
                                             {"help", no_argument, NULL, OPT_HELP},
                                             {NULL, 0, NULL, 0}};

/* -1 = go on, else the exit code to end with. */
static int apply_option(int option, void *arg)
{
    struct options *o = arg;
    switch (option) {
    case OPT_OUT:
        o->out = optarg;
        return -1;
    case OPT_FORMAT:
        o->format = optarg;
        return -1;
    case OPT_TOKENIZER:
        o->tokenizer = optarg;
        return -1;
    case OPT_DTYPE:
        return parse_type(optarg, o) == 0 ? -1 : EXIT_BAD_CONFIG;
    case OPT_SHARD:
        return parse_shard(optarg, o) == 0 ? -1 : EXIT_BAD_CONFIG;
    default: /* OPT_HELP */
        return fputs(usage, stdout) < 0 ? EXIT_ERROR : EXIT_DONE;
    }
}

static bool is_gguf_file(const char *path)
{
    size_t len = strlen(path);
    return len > 5 && strcmp(path + len - 5, ".gguf") == 0;
}

/* -1 = go on, else the exit code. */
static int check_format(const struct options *o)
{
    bool hf = strcmp(o->format, "hf") == 0;
    if (hf && is_gguf_file(o->out))
        return options_bad("export",
                           "--format hf makes a folder, and --out names a GGUF file; leave --format "
                           "out, or name a folder");
    if (hf || strcmp(o->format, "gguf") == 0)
        return -1;
    log_error("--format %s is neither hf nor gguf", o->format);
    return EXIT_BAD_CONFIG;
}

static int parse(int argc, char **argv, struct options *o)
{
    int code = options_read("export", long_options, argc, argv, apply_option, o);
    if (code >= 0)
        return code;
    if (argc - optind != 1 || !o->out) {
        (void)fputs(usage, stderr);
        return EXIT_BAD_CONFIG;
    }
    o->from = argv[optind];
    if (!o->format)
        o->format = is_gguf_file(o->out) ? "gguf" : "hf";
    return check_format(o);
}

static struct tokenizer *open_tokenizer(const struct options *o, const struct weights *w, struct err *err)
{
    struct tokenizer *t = weights_open_tokenizer(w, o->tokenizer, err);
    if (!t && !o->tokenizer)
        err_prefix(err, "its tokenizer (--tokenizer NAME takes another)");
    if (!t)
        err_prefix(err, "%s", weights_path(w));
    return t;
}

/* The last part of the path, without slashes at the end. */
static char *base_name(const char *path)
{
    char *copy = str_dup(path);
    for (size_t len = strlen(copy); len > 1 && copy[len - 1] == '/';)
        copy[--len] = 0;
    char *slash = strrchr(copy, '/'), *out = str_dup(slash && slash[1] ? slash + 1 : copy);
    free(copy);
    return out;
}

/* A file appears whole, too. */
static int write_gguf_file(const struct export_request *r, const char *path, uint64_t *bytes, struct err *err)
{
    if (access(path, F_OK) == 0) /* as soon as it can be told; outfolder_commit_file makes sure */
        return err_set(err, "%s is already there; name another file", path);
    char *temporary = str_printf("%s.%d.tmp", path, (int)getpid());
    int rc = outfolder_above(path, err);
    if (rc == 0)
        rc = export_gguf(r, temporary, bytes, err);
    if (rc == 0)
        rc = outfolder_commit_file(temporary, path, err);
    free(temporary);
    return rc;
}

static int write_folder(const struct export_request *r, const struct options *o, uint64_t *bytes,
                        struct err *err)
{
    char *folder = outfolder_begin(o->out, err);
    if (!folder)
        return -1;
    char *file = str_printf("%s/model.gguf", folder);
    int rc =
        strcmp(o->format, "gguf") == 0 ? export_gguf(r, file, bytes, err) : export_hf(r, folder, bytes, err);
    if (rc == 0)
        rc = outfolder_commit(folder, o->out, err);
    if (rc != 0)
        outfolder_drop(folder);
    free(file);
    free(folder);
    return rc;
}

static int export(const struct options *o, const struct weights *w, struct err *err)
{
    uint64_t bytes = 0;
    struct tokenizer *t = open_tokenizer(o, w, err);
    char *name = base_name(o->out);
    const struct export_request request = {w, t, name, o->type, o->shard};
    bool file = strcmp(o->format, "gguf") == 0 && is_gguf_file(o->out);
    int rc = t && export_check(&request, err) == 0 && weights_verify(w, 0, 1, err) == 0 ? 0 : -1;
    signals_install(); /* from here on there is something to remove */
    if (rc == 0)
        rc = file ? write_gguf_file(&request, o->out, &bytes, err) : write_folder(&request, o, &bytes, err);
    if (rc == 0)
        printf("%s: %s as %s in %s, %.1f MiB\n", o->out, weights_path(w), o->format, dtype_name(o->type),
               (double)bytes / 1048576);
    free(name);
    tokenizer_free(t);
    return rc;
}

int cmd_export(int argc, char **argv)
{
    struct options o = {.type = DTYPE_F32, .shard = 5000000000};
    struct err err = {""};
    int code = parse(argc, argv, &o);
    if (code >= 0)
        return code;
    struct weights *w = weights_open(o.from, &err);
    if (w)
        weights_stop_when(w, signals_stop);
    int rc = w ? export(&o, w, &err) : -1;
    if (rc != 0)
        log_error("%s", err.text);
    weights_close(w);
    return rc == 0 ? EXIT_DONE : EXIT_ERROR;
}
