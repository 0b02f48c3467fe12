/* job_fields: the table, and looking things up in it. */
#include "schema/job_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/scalar.h"
#include "schema/suggest.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const char *const archs[] = {[ARCH_GPT2] = "gpt2", [ARCH_LLAMA] = "llama"};
static const char *const lr_schedules[] = {
    [LR_COSINE] = "cosine", [LR_LINEAR] = "linear", [LR_CONSTANT] = "constant"};
static const char *const precisions[] = {[PRECISION_FP32] = "fp32", [PRECISION_BF16] = "bf16"};
static const char *const recomputes[] = {
    [RECOMPUTE_NONE] = "none", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full"};
static const char *const devices[] = {[DEVICE_AUTO] = "auto", [DEVICE_CPU] = "cpu", [DEVICE_GPU] = "gpu"};
static const char *const domains[] = {
    [DOMAIN_NODE] = "node", [DOMAIN_RACK] = "rack", [DOMAIN_POD] = "pod", [DOMAIN_CLUSTER] = "cluster"};
static const char *const pipelines[] = {
    [PIPELINE_1F1B] = "1f1b", [PIPELINE_INTERLEAVED] = "interleaved", [PIPELINE_ZERO_BUBBLE] = "zero-bubble"};
static const char *const events[] = {"failed", "restarted", "completed"}; /* bits of enum job_notify */
static const char *const preset_names[] = {"gpt2-124m",  "gpt2-350m", "gpt2-774m",  "gpt2-1558m",
                                           "llama-tiny", "llama3-8b", "llama3-70b", "llama3-405b"};

#define AT(member)    .at = offsetof(struct job_spec, member)
#define RANGE(lo, hi) .min = (lo), .max = (hi)
#define REALS(lo, hi) .low = (lo), .high = (hi)
#define WORDS(list)   .words = (list), .n_words = COUNT(list)
#define SECTION(p, h)                                                                                        \
    {                                                                                                        \
        .path = (p), .type = FIELD_SECTION, .help = (h)                                                      \
    }
#define STEPS_MAX     INT64_C(1000000000)
#define DAY_MS        INT64_C(86400000)
#define YEAR_MS       (366 * DAY_MS)
#define MEMORY_MAX    (INT64_C(1) << 50)
#define SEQUENCES_MAX (INT64_C(1) << 24)

/* One border of the placement: its section and two fields. */
#define BORDER(dim, word, domain, must, what)                                                                \
    SECTION("placement." word, "how close together the ranks of one " what " group are placed"),             \
        {.path = "placement." word ".within",                                                                \
         .type = FIELD_ENUM,                                                                                 \
         AT(placement.dim.within),                                                                           \
         WORDS(domains),                                                                                     \
         .fallback = (domain),                                                                               \
         .help = "the smallest part of the cluster that holds a whole " what " group"},                      \
    {                                                                                                        \
        .path = "placement." word ".required", .type = FIELD_BOOL, AT(placement.dim.required),               \
        .fallback = (must), .help = "true: wait until it fits so; false: prefer it"                          \
    }

const struct job_field job_fields[] = {
    {.path = "name",
     .type = FIELD_NAME,
     AT(name),
     .required = true,
     .help = "what listings and logs call the job"},
    {.path = "queue", .type = FIELD_NAME, AT(queue), .fallback = "default", .help = "the queue it waits in"},
    {.path = "priority",
     .type = FIELD_INT,
     AT(priority),
     RANGE(-1000, 1000),
     .fallback = "0",
     .help = "higher goes first"},

    SECTION("train", "trains with the bundled runtime; either this or run"),
    {.path = "train.model", .type = FIELD_SECTION, .required = true, .help = "the transformer"},
    {.path = "train.model.preset",
     .type = FIELD_PRESET,
     AT(train.model.preset),
     WORDS(preset_names),
     .computed = "none",
     .help = "fills in the numbers below; those that are given win"},
    {.path = "train.model.arch",
     .type = FIELD_ENUM,
     AT(train.model.arch),
     WORDS(archs),
     .computed = "the preset's",
     .help = "the architecture; must be given without a preset"},
    {.path = "train.model.layers",
     .type = FIELD_INT,
     AT(train.model.layers),
     RANGE(1, 1000),
     .computed = "the preset's",
     .help = "transformer blocks"},
    {.path = "train.model.hidden",
     .type = FIELD_INT,
     AT(train.model.hidden),
     RANGE(1, 131072),
     .computed = "the preset's",
     .help = "width of the residual stream; a multiple of heads"},
    {.path = "train.model.heads",
     .type = FIELD_INT,
     AT(train.model.heads),
     RANGE(1, 1024),
     .computed = "the preset's",
     .help = "attention heads"},
    {.path = "train.model.kv_heads",
     .type = FIELD_INT,
     AT(train.model.kv_heads),
     RANGE(1, 1024),
     .computed = "heads",
     .help = "heads of keys and values (llama: divides heads; gpt2: equals heads)"},
    {.path = "train.model.ffn",
     .type = FIELD_INT,
     AT(train.model.ffn),
     RANGE(1, 1048576),
     .computed =
         "gpt2: 4 x hidden; llama: 8/3 x hidden, rounded up to a multiple of 256 (of 32 when hidden < 1024)",
     .help = "width within the feed-forward block"},
    {.path = "train.model.vocab",
     .type = FIELD_INT,
     AT(train.model.vocab),
     RANGE(2, 16777216),
     .computed = "256, or the preset's",
     .help = "tokens in the vocabulary; at least 256 with tokenizer bytes"},
    {.path = "train.model.context",
     .type = FIELD_INT,
     AT(train.model.context),
     RANGE(1, 1048576),
     .computed = "the preset's",
     .help = "tokens in a sequence"},
    {.path = "train.model.experts",
     .type = FIELD_INT,
     AT(train.model.experts),
     RANGE(0, 1024),
     .fallback = "0",
     .help = "experts in each feed-forward block; 0 = dense"},
    {.path = "train.model.top_k",
     .type = FIELD_INT,
     AT(train.model.top_k),
     RANGE(0, 1024),
     .computed = "0, or 2 with experts",
     .help = "experts that each token goes to"},
    {.path = "train.data", .type = FIELD_SECTION, .required = true, .help = "what it learns"},
    {.path = "train.data.path",
     .type = FIELD_TEXT,
     AT(train.data_path),
     .required = true,
     .help = "a text file, or .bin of uint16 tokens; relative to the folder of the submit"},
    {.path = "train.data.tokenizer",
     .type = FIELD_TEXT,
     AT(train.tokenizer),
     .fallback = "bytes",
     .help = "how text becomes tokens; only bytes for now"},
    {.path = "train.steps",
     .type = FIELD_INT,
     AT(train.steps),
     RANGE(1, STEPS_MAX),
     .required = true,
     .help = "optimizer steps"},
    {.path = "train.batch", .type = FIELD_SECTION, .required = true, .help = "sequences"},
    {.path = "train.batch.global",
     .type = FIELD_INT,
     AT(train.batch_global),
     RANGE(1, SEQUENCES_MAX),
     .required = true,
     .help = "sequences in a step over all ranks; a multiple of micro x dp"},
    {.path = "train.batch.micro",
     .type = FIELD_INT,
     AT(train.batch_micro),
     RANGE(1, SEQUENCES_MAX),
     .computed = "global / dp",
     .help = "sequences that a rank passes through the model at once"},
    SECTION("train.optimizer", "AdamW"),
    {.path = "train.optimizer.lr",
     .type = FIELD_REAL,
     AT(train.optimizer.lr),
     REALS(0, 10),
     .fallback = "3e-4",
     .help = "learning rate at its peak"},
    {.path = "train.optimizer.min_lr",
     .type = FIELD_REAL,
     AT(train.optimizer.min_lr),
     REALS(0, 10),
     .computed = "lr / 10",
     .help = "learning rate at the end; at most lr"},
    {.path = "train.optimizer.warmup",
     .type = FIELD_INT,
     AT(train.optimizer.warmup),
     RANGE(0, STEPS_MAX),
     .fallback = "0",
     .help = "steps over which the rate rises to lr; at most steps"},
    {.path = "train.optimizer.schedule",
     .type = FIELD_ENUM,
     AT(train.optimizer.schedule),
     WORDS(lr_schedules),
     .fallback = "cosine",
     .help = "how the rate goes from lr to min_lr"},
    {.path = "train.optimizer.weight_decay",
     .type = FIELD_REAL,
     AT(train.optimizer.weight_decay),
     REALS(0, 10),
     .fallback = "0.1",
     .help = "decoupled weight decay; matrices only"},
    {.path = "train.optimizer.betas",
     .type = FIELD_BETAS,
     AT(train.optimizer.beta1),
     .fallback = "[0.9, 0.95]",
     .help = "decay of the two moments, each at least 0 and below 1"},
    {.path = "train.optimizer.eps",
     .type = FIELD_REAL,
     AT(train.optimizer.eps),
     REALS(1e-30, 1),
     .fallback = "1e-8",
     .help = "added to the root of the second moment"},
    {.path = "train.optimizer.clip",
     .type = FIELD_REAL,
     AT(train.optimizer.clip),
     REALS(0, 1e6),
     .fallback = "1",
     .help = "largest global gradient norm; 0 = no clipping"},
    {.path = "train.precision",
     .type = FIELD_ENUM,
     AT(train.precision),
     WORDS(precisions),
     .fallback = "fp32",
     .help = "number type of the passes; only fp32 for now"},
    {.path = "train.seed",
     .type = FIELD_INT,
     AT(train.seed),
     RANGE(0, INT64_MAX),
     .fallback = "1337",
     .help = "fixes the first weights and the order of the data"},
    {.path = "train.recompute",
     .type = FIELD_ENUM,
     AT(train.recompute),
     WORDS(recomputes),
     .fallback = "none",
     .help = "activations computed again in the backward pass to save memory; only none for now"},

    SECTION("run", "runs any program; either this or train"),
    {.path = "run.command",
     .type = FIELD_COMMAND,
     AT(argv),
     .required = true,
     .help = "the program and its arguments, a list; no shell in between"},
    {.path = "run.ranks",
     .type = FIELD_INT,
     AT(ranks),
     RANGE(1, JOB_RANKS_MAX),
     .computed = "tp x pp x cp x dp",
     .help = "how many copies run"},

    SECTION("parallel", "the mesh of ranks: tp x pp x cp x dp"),
    {.path = "parallel.tp",
     .type = FIELD_INT,
     AT(tp),
     RANGE(1, JOB_RANKS_MAX),
     .fallback = "1",
     .help = "tensor parallelism"},
    {.path = "parallel.pp",
     .type = FIELD_INT,
     AT(pp),
     RANGE(1, JOB_RANKS_MAX),
     .fallback = "1",
     .help = "pipeline parallelism"},
    {.path = "parallel.cp",
     .type = FIELD_INT,
     AT(cp),
     RANGE(1, JOB_RANKS_MAX),
     .fallback = "1",
     .help = "context parallelism"},
    {.path = "parallel.dp",
     .type = FIELD_INT,
     AT(dp),
     RANGE(1, JOB_RANKS_MAX),
     .computed = "ranks / (tp x pp x cp), or 1",
     .help = "data parallelism"},
    {.path = "parallel.ep",
     .type = FIELD_INT,
     AT(ep),
     RANGE(1, JOB_RANKS_MAX),
     .fallback = "1",
     .help = "expert parallelism; divides dp x cp, needs experts"},
    {.path = "parallel.zero",
     .type = FIELD_INT,
     AT(zero),
     RANGE(0, 3),
     .fallback = "0",
     .help = "ZeRO stage: what is sharded over dp"},
    {.path = "parallel.schedule",
     .type = FIELD_ENUM,
     AT(pipeline),
     WORDS(pipelines),
     .fallback = "1f1b",
     .help = "order of the passes in a pipeline"},

    SECTION("resources", "what each rank needs"),
    {.path = "resources.device",
     .type = FIELD_ENUM,
     AT(device),
     WORDS(devices),
     .fallback = "auto",
     .help = "what a rank computes on; auto: what the node has"},
    {.path = "resources.cpus",
     .type = FIELD_INT,
     AT(cpus),
     RANGE(1, 1024),
     .fallback = "1",
     .help = "cores per rank"},
    {.path = "resources.memory",
     .type = FIELD_SIZE,
     AT(memory),
     RANGE(0, MEMORY_MAX),
     .fallback = "0",
     .help = "host memory set aside per rank; 0 = none"},

    SECTION("placement", "where ranks go in the tree of nodes, racks and pods"),
    BORDER(tp, "tp", "node", "true", "tensor parallel"),
    BORDER(pp, "pp", "rack", "false", "pipeline"),
    BORDER(cp, "cp", "rack", "false", "context parallel"),
    BORDER(ep, "ep", "rack", "false", "expert parallel"),
    {.path = "placement.spares",
     .type = FIELD_INT,
     AT(placement.spares),
     RANGE(0, 100000),
     .fallback = "0",
     .help = "nodes kept free for this job to move to"},

    SECTION("checkpoint", "saved states to go on from"),
    {.path = "checkpoint.directory",
     .type = FIELD_TEXT,
     AT(checkpoint.directory),
     .computed = "ckpt for train, none for run",
     .help = "where they go; relative to the folder of the submit"},
    {.path = "checkpoint.every",
     .type = FIELD_INT,
     AT(checkpoint.every),
     RANGE(1, STEPS_MAX),
     .fallback = "50",
     .help = "steps between two"},
    {.path = "checkpoint.keep",
     .type = FIELD_INT,
     AT(checkpoint.keep),
     RANGE(1, 1000000),
     .fallback = "3",
     .help = "how many stay; older ones are deleted"},
    {.path = "checkpoint.resume",
     .type = FIELD_RESUME,
     AT(checkpoint.resume),
     .min = 0,
     .max = STEPS_MAX,
     .fallback = "auto",
     .help = "auto: from the newest complete one; never; or a step"},

    SECTION("restart", "after a failure"),
    {.path = "restart.max",
     .type = FIELD_INT,
     AT(restart.max),
     RANGE(0, 1000000),
     .fallback = "5",
     .help = "restarts for the job's own errors within the window; node faults are not counted"},
    {.path = "restart.window",
     .type = FIELD_DURATION,
     AT(restart.window_ms),
     RANGE(1000, YEAR_MS),
     .fallback = "24h",
     .help = "older restarts are forgiven"},
    {.path = "restart.backoff",
     .type = FIELD_DURATION,
     AT(restart.backoff_ms),
     RANGE(0, DAY_MS),
     .fallback = "1s",
     .help = "wait before the first restart; doubles with each"},

    SECTION("limits", "time"),
    {.path = "limits.time",
     .type = FIELD_DURATION,
     AT(limits.time_ms),
     RANGE(0, 10 * YEAR_MS),
     .fallback = "0s",
     .help = "longest run over all attempts; 0s = no limit"},
    {.path = "limits.grace",
     .type = FIELD_DURATION,
     AT(limits.grace_ms),
     RANGE(0, DAY_MS),
     .fallback = "30s",
     .help = "between SIGTERM and SIGKILL"},

    {.path = "env",
     .type = FIELD_ENV,
     AT(env),
     .computed = "none",
     .help = "environment variables of the ranks"},

    SECTION("notify", "tells another program what happens to the job"),
    {.path = "notify.url",
     .type = FIELD_TEXT,
     AT(notify_url),
     .computed = "none",
     .help = "http:// or https:// address that gets a POST for each event"},
    {.path = "notify.on",
     .type = FIELD_EVENTS,
     AT(notify_on),
     WORDS(events),
     .fallback = "[failed, restarted, completed]",
     .help = "which events"},
};
const size_t job_fields_count = COUNT(job_fields);
_Static_assert(COUNT(job_fields) <= JOB_FIELDS_MAX, "JOB_FIELDS_MAX is too small");

/* GPT-2: Radford et al. 2019, table 2. Llama 3: arXiv 2407.21783, table 3, and the 8B release's vocabulary and context. */
static const struct job_preset presets[] = {
    {"gpt2-124m", ARCH_GPT2, 12, 768, 12, 12, 3072, 50257, 1024},
    {"gpt2-350m", ARCH_GPT2, 24, 1024, 16, 16, 4096, 50257, 1024},
    {"gpt2-774m", ARCH_GPT2, 36, 1280, 20, 20, 5120, 50257, 1024},
    {"gpt2-1558m", ARCH_GPT2, 48, 1600, 25, 25, 6400, 50257, 1024},
    {"llama-tiny", ARCH_LLAMA, 4, 128, 4, 2, 352, 256, 128},
    {"llama3-8b", ARCH_LLAMA, 32, 4096, 32, 8, 14336, 128256, 8192},
    {"llama3-70b", ARCH_LLAMA, 80, 8192, 64, 8, 28672, 128256, 8192},
    {"llama3-405b", ARCH_LLAMA, 126, 16384, 128, 8, 53248, 128256, 8192},
};
_Static_assert(COUNT(presets) == COUNT(preset_names), "each preset has a name in the table of fields");

const struct job_preset *job_preset_find(const char *name)
{
    for (size_t i = 0; i < COUNT(presets); i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

/* ---- looking up ---- */

const char *job_field_key(size_t field)
{
    const char *dot = strrchr(job_fields[field].path, '.');
    return dot ? dot + 1 : job_fields[field].path;
}

/* Is the row directly in the section? */
static bool is_in(size_t field, const char *section)
{
    const char *path = job_fields[field].path;
    size_t len = strlen(section);
    if (len == 0)
        return !strchr(path, '.');
    return strncmp(path, section, len) == 0 && path[len] == '.' && !strchr(path + len + 1, '.');
}

size_t job_field_find(const char *section, const char *key)
{
    for (size_t i = 0; i < job_fields_count; i++)
        if (is_in(i, section) && strcmp(job_field_key(i), key) == 0)
            return i;
    return JOB_FIELD_NONE;
}

size_t job_field_index(const char *path)
{
    for (size_t i = 0; i < job_fields_count; i++)
        if (strcmp(job_fields[i].path, path) == 0)
            return i;
    abort(); /* a check names a field that the table does not have */
}

size_t job_field_parent(size_t field)
{
    const char *path = job_fields[field].path;
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < job_fields_count; i++)
        if (strlen(job_fields[i].path) == (size_t)(dot - path) &&
            strncmp(job_fields[i].path, path, (size_t)(dot - path)) == 0)
            return i;
    return JOB_FIELD_NONE;
}

/* ---- explaining ---- */

struct text {
    char *out;
    size_t size, used;
};

static void put(struct text *t, const char *piece)
{
    int n = t->used < t->size ? snprintf(t->out + t->used, t->size - t->used, "%s", piece) : 0;
    t->used += n > 0 ? (size_t)n : 0;
}

/* The sections that know the key, joined by "or"; false when none does. */
static bool put_homes(struct text *t, const char *key)
{
    bool any = false;
    for (size_t i = 0; i < job_fields_count; i++) {
        size_t parent = job_field_parent(i);
        if (strcmp(job_field_key(i), key) != 0)
            continue;
        put(t, any ? " or " : "; it belongs ");
        put(t, parent == JOB_FIELD_NONE ? "at the top level" : "under ");
        put(t, parent == JOB_FIELD_NONE ? "" : job_fields[parent].path);
        any = true;
    }
    return any;
}

static bool put_nearest(struct text *t, const char *section, const char *key, bool anywhere)
{
    const char *words[JOB_FIELDS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < job_fields_count; i++)
        if (anywhere || is_in(i, section))
            words[n++] = job_field_key(i);
    const char *nearest = suggest_nearest(key, words, n);
    if (!nearest)
        return false;
    put(t, "; did you mean \"");
    put(t, nearest);
    put(t, "\"");
    if (anywhere)
        put_homes(t, nearest);
    put(t, "?");
    return true;
}

static void put_allowed(struct text *t, const char *section)
{
    const char *between = "; allowed here: ";
    for (size_t i = 0; i < job_fields_count; i++)
        if (is_in(i, section)) {
            put(t, between);
            put(t, job_field_key(i));
            between = ", ";
        }
}

void job_field_explain(const char *section, const char *key, char *out, size_t size)
{
    struct text t = {out, size, 0};
    out[0] = '\0';
    if (put_homes(&t, key) || put_nearest(&t, section, key, false) || put_nearest(&t, section, key, true))
        return;
    put_allowed(&t, section);
}

/* ---- documenting ---- */

static void put_words(struct text *t, const struct job_field *f)
{
    for (size_t i = 0; i < f->n_words; i++) {
        put(t, i ? ", " : "");
        put(t, f->words[i]);
    }
}

static void put_int_range(struct text *t, const struct job_field *f)
{
    char piece[64];
    (void)snprintf(piece, sizeof piece, "whole number, %" PRId64 " to %" PRId64, f->min, f->max);
    put(t, piece);
}

static void put_real_range(struct text *t, const struct job_field *f)
{
    char from[SCALAR_PRINT_SIZE], to[SCALAR_PRINT_SIZE];
    put(t, "number, ");
    put(t, scalar_print_real(from, f->low));
    put(t, " to ");
    put(t, scalar_print_real(to, f->high));
}

static void put_type(struct text *t, const struct job_field *f)
{
    static const char *const names[] = {
        [FIELD_SECTION] = "section",
        [FIELD_NAME] = "name",
        [FIELD_TEXT] = "text",
        [FIELD_BOOL] = "true or false",
        [FIELD_SIZE] = "size",
        [FIELD_DURATION] = "duration",
        [FIELD_RESUME] = "auto, never or a step",
        [FIELD_BETAS] = "list of two numbers",
        [FIELD_EVENTS] = "list of ",
        [FIELD_COMMAND] = "list of text",
        [FIELD_ENV] = "mapping of text",
    };
    if (f->type == FIELD_INT)
        put_int_range(t, f);
    else if (f->type == FIELD_REAL)
        put_real_range(t, f);
    else if (f->type < COUNT(names) && names[f->type])
        put(t, names[f->type]);
    put_words(t, f);
}

static const char *default_of(const struct job_field *f)
{
    if (f->required)
        return "required";
    if (f->fallback)
        return f->fallback;
    return f->computed ? f->computed : "";
}

void job_field_document(size_t field, char *out, size_t size)
{
    const struct job_field *f = &job_fields[field];
    struct text t = {out, size, 0};
    put(&t, "| `");
    put(&t, f->path);
    put(&t, "` | ");
    put_type(&t, f);
    put(&t, " | ");
    put(&t, default_of(f));
    put(&t, " | ");
    put(&t, f->help);
    put(&t, " |");
}
