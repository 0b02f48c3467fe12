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
static const char *const lr_schedules[] = {[LR_COSINE] = "cosine",
                                           [LR_LINEAR] = "linear",
                                           [LR_CONSTANT] = "constant",
                                           [LR_WSD] = "wsd",
                                           [LR_INVERSE_SQRT] = "inverse-sqrt"};
static const char *const guards[] = {[JOB_GUARD_OFF] = "off",
                                     [JOB_GUARD_STOP] = "stop",
                                     [JOB_GUARD_SKIP] = "skip",
                                     [JOB_GUARD_ROLLBACK] = "rollback"};
static const char *const precisions[] = {
    [PRECISION_FP32] = "fp32", [PRECISION_BF16] = "bf16", [PRECISION_FP8] = "fp8"};
static const char *const recomputes[] = {
    [RECOMPUTE_NONE] = "none", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full"};
static const char *const busies[] = {[JOB_BUSY_SKIP] = "skip", [JOB_BUSY_WAIT] = "wait"};
static const char *const devices[] = {[DEVICE_AUTO] = "auto", [DEVICE_CPU] = "cpu", [DEVICE_GPU] = "gpu"};
static const char *const domains[] = {[DOMAIN_NODE] = "node",
                                      [DOMAIN_NVLINK] = "nvlink",
                                      [DOMAIN_RACK] = "rack",
                                      [DOMAIN_POD] = "pod",
                                      [DOMAIN_CLUSTER] = "cluster"};
static const char *const pipelines[] = {
    [PIPELINE_1F1B] = "1f1b", [PIPELINE_INTERLEAVED] = "interleaved", [PIPELINE_ZERO_BUBBLE] = "zero-bubble"};
static const char *const events[] = {"failed", "restarted", "completed"}; /* bits of enum job_notify */
static const char *const preset_names[] = {"gpt2-124m",   "gpt2-350m",    "gpt2-774m",   "gpt2-1558m",
                                           "gpt3-175b",   "llama-tiny",   "llama3-8b",   "llama3-70b",
                                           "llama3-405b", "mixtral-tiny", "mixtral-8x7b"};

/* The pieces of a row: what is allowed, and what holds when nothing is given. */
#define ANY            .min = 0
#define RANGE(lo, hi)  .min = (lo), .max = (hi)
#define REALS(lo, hi)  .low = (lo), .high = (hi)
#define WORDS(list)    .words = (list), .n_words = COUNT(list)
#define OPTIONAL       .required = false
#define REQUIRED       .required = true
#define DEFAULT(word)  .fallback = (word)
#define COMPUTED(text) .computed = (text)
#define FIELD(name, kind, member, allowed, otherwise, text)                                                  \
    {                                                                                                        \
        .path = (name), .type = FIELD_##kind, .at = offsetof(struct job_spec, member), allowed, otherwise,   \
        .help = (text)                                                                                       \
    }
#define SECTION(name, otherwise, text)                                                                       \
    {                                                                                                        \
        .path = (name), .type = FIELD_SECTION, otherwise, .help = (text)                                     \
    }
#define STEPS_MAX     INT64_C(1000000000)
#define DAY_MS        INT64_C(86400000)
#define YEAR_MS       (366 * DAY_MS)
#define MEMORY_MAX    (INT64_C(1) << 50)
#define SEQUENCES_MAX (INT64_C(1) << 24)

/* One border of the placement: its section and two fields. */
#define BORDER(dim, domain, must, what)                                                                      \
    SECTION("placement." #dim, OPTIONAL, "how close together the ranks of one " what " group are placed"),   \
        FIELD("placement." #dim ".within", ENUM, placement.dim.within, WORDS(domains), DEFAULT(domain),      \
              "the smallest part of the cluster that holds a whole " what " group"),                         \
        FIELD("placement." #dim ".required", BOOL, placement.dim.required, ANY, DEFAULT(must),               \
              "true: wait until it fits so; false: prefer it")

const struct job_field job_fields[] = {
    FIELD("name", NAME, name, ANY, REQUIRED, "what listings and logs call the job"),
    FIELD("queue", NAME, queue, ANY, DEFAULT("default"), "the queue it waits in"),
    FIELD("priority", INT, priority, RANGE(-1000, 1000), DEFAULT("0"), "higher goes first"),

    SECTION("train", OPTIONAL, "trains with the bundled runtime; either this or run"),
    SECTION("train.model", REQUIRED, "the transformer"),
    FIELD("train.model.preset", PRESET, train.model.preset, WORDS(preset_names), COMPUTED("none"),
          "fills in the numbers below; those that are given win"),
    FIELD("train.model.arch", ENUM, train.model.arch, WORDS(archs), COMPUTED("the preset's"),
          "the architecture; must be given without a preset"),
    FIELD("train.model.layers", INT, train.model.layers, RANGE(1, 1000), COMPUTED("the preset's"),
          "transformer blocks"),
    FIELD("train.model.hidden", INT, train.model.hidden, RANGE(1, 131072), COMPUTED("the preset's"),
          "width of the residual stream; a multiple of heads"),
    FIELD("train.model.heads", INT, train.model.heads, RANGE(1, 1024), COMPUTED("the preset's"),
          "attention heads"),
    FIELD("train.model.kv_heads", INT, train.model.kv_heads, RANGE(1, 1024), COMPUTED("heads"),
          "heads of keys and values (llama: divides heads; gpt2: equals heads)"),
    FIELD("train.model.ffn", INT, train.model.ffn, RANGE(1, 1048576),
          COMPUTED("gpt2: 4 x hidden; llama: 8/3 x hidden, rounded up to a multiple of 256 (of 32 when "
                   "hidden < 1024)"),
          "width within the feed-forward block"),
    FIELD("train.model.vocab", INT, train.model.vocab, RANGE(2, 16777216), COMPUTED("256, or the preset's"),
          "tokens in the vocabulary; at least 256 with tokenizer bytes"),
    FIELD("train.model.context", INT, train.model.context, RANGE(1, 1048576), COMPUTED("the preset's"),
          "tokens in a sequence"),
    FIELD("train.model.experts", INT, train.model.experts, RANGE(0, 1024), COMPUTED("0, or the preset's"),
          "experts in each feed-forward block; 0 = dense; only with llama"),
    FIELD("train.model.top_k", INT, train.model.top_k, RANGE(0, 1024), COMPUTED("0, or 2 with experts"),
          "experts that each token goes to"),
    FIELD("train.model.tied", BOOL, train.model.tied, ANY, COMPUTED("gpt2: true; llama: false"),
          "the output matrix is the table of embeddings"),
    FIELD("train.model.norm_eps", REAL, train.model.norm_eps, REALS(1e-12, 1), DEFAULT("1e-5"),
          "added to the variance in the norms"),
    FIELD("train.model.rope_theta", REAL, train.model.rope_theta, REALS(1, 1e9),
          COMPUTED("10000, or the preset's"), "base of the rotary positions; llama only"),
    FIELD("train.model.dropout", REAL, train.model.dropout, REALS(0, 0.9), DEFAULT("0"),
          "part of the embeddings, attention probabilities and both residual branches that is dropped in "
          "training"),
    FIELD("train.model.capacity", REAL, train.model.capacity, REALS(0, 100), DEFAULT("0"),
          "an expert takes at most capacity x tokens x top_k / experts tokens of a sequence, rounded up; 0 = "
          "all that come"),
    FIELD("train.model.balance_loss", REAL, train.model.balance_loss, REALS(0, 10),
          COMPUTED("0, or 0.01 with experts"), "weight of the loss for uneven loads of the experts"),
    FIELD("train.model.router_z_loss", REAL, train.model.router_z_loss, REALS(0, 1),
          COMPUTED("0, or 0.001 with experts"), "weight of the loss for large logits of the router"),
    SECTION("train.data", REQUIRED, "what it learns"),
    FIELD("train.data.path", TEXT, train.data_path, ANY, COMPUTED("required, unless mix is there"),
          "one corpus: text, token files, or a folder of them ([data.md](data.md)); relative to the folder "
          "of the submit"),
    FIELD("train.data.mix", MIX, train.corpora, ANY, COMPUTED("path alone"),
          "several corpora: a list of {path, weight}; samples are drawn in proportion to the weights (1 when "
          "left away)"),
    FIELD("train.data.tokenizer", TEXT, train.tokenizer, ANY, DEFAULT("bytes"),
          "how text becomes tokens: bytes, or a file or folder of a tokenizer; relative to the folder of the "
          "submit"),
    FIELD("train.data.holdout", REAL, train.holdout, REALS(0, 0.5), DEFAULT("0"),
          "part of the sequences that is kept for evaluation"),
    FIELD("train.from", TEXT, train.from, ANY, COMPUTED("none"),
          "a Hugging Face folder (safetensors, config.json) or a checkpoint whose weights a new run starts "
          "with"),
    FIELD("train.steps", INT, train.steps, RANGE(1, STEPS_MAX), REQUIRED, "optimizer steps"),
    SECTION("train.batch", REQUIRED, "sequences"),
    FIELD("train.batch.global", INT, train.batch_global, RANGE(1, SEQUENCES_MAX), REQUIRED,
          "sequences in a step over all ranks; a multiple of micro x dp"),
    FIELD("train.batch.micro", INT, train.batch_micro, RANGE(1, SEQUENCES_MAX), COMPUTED("global / dp"),
          "sequences that a rank passes through the model at once"),
    SECTION("train.optimizer", OPTIONAL, "AdamW"),
    FIELD("train.optimizer.lr", REAL, train.optimizer.lr, REALS(0, 10), DEFAULT("3e-4"),
          "learning rate at its peak"),
    FIELD("train.optimizer.min_lr", REAL, train.optimizer.min_lr, REALS(0, 10), COMPUTED("lr / 10"),
          "learning rate at the end; at most lr"),
    FIELD("train.optimizer.warmup", INT, train.optimizer.warmup, RANGE(0, STEPS_MAX), DEFAULT("0"),
          "steps over which the rate rises to lr; at most steps"),
    FIELD("train.optimizer.schedule", ENUM, train.optimizer.schedule, WORDS(lr_schedules), DEFAULT("cosine"),
          "how the rate goes from lr to min_lr"),
    FIELD("train.optimizer.decay", INT, train.optimizer.decay, RANGE(0, STEPS_MAX), COMPUTED("steps / 10"),
          "steps of the last phase of wsd, in which the rate falls to min_lr"),
    FIELD("train.optimizer.weight_decay", REAL, train.optimizer.weight_decay, REALS(0, 10), DEFAULT("0.1"),
          "decoupled weight decay; of matrices and the embeddings only"),
    FIELD("train.optimizer.betas", BETAS, train.optimizer.beta1, ANY, DEFAULT("[0.9, 0.95]"),
          "decay of the two moments, each at least 0 and below 1"),
    FIELD("train.optimizer.eps", REAL, train.optimizer.eps, REALS(1e-30, 1), DEFAULT("1e-8"),
          "added to the root of the second moment"),
    FIELD("train.optimizer.clip", REAL, train.optimizer.clip, REALS(0, 1e6), DEFAULT("1"),
          "largest global gradient norm; 0 = no clipping"),
    FIELD("train.precision", ENUM, train.precision, WORDS(precisions), DEFAULT("fp32"),
          "number type of the passes; master weights, moments and reductions are fp32"),
    FIELD("train.seed", INT, train.seed, RANGE(0, INT64_MAX), DEFAULT("1337"),
          "fixes the first weights and the order of the data"),
    FIELD("train.recompute", ENUM, train.recompute, WORDS(recomputes), DEFAULT("none"),
          "activations computed again in the backward pass to save memory: none, those of attention, or "
          "whole blocks"),
    SECTION("train.eval", OPTIONAL, "the loss on sequences that are not trained on"),
    FIELD("train.eval.every", INT, train.eval_every, RANGE(0, STEPS_MAX), DEFAULT("0"),
          "steps between two; 0 = never; needs path or data.holdout"),
    FIELD("train.eval.path", TEXT, train.eval_path, ANY, COMPUTED("none: what data.holdout keeps"),
          "a corpus to evaluate on, as data.path; instead of data.holdout"),
    FIELD("train.eval.sequences", INT, train.eval_sequences, RANGE(1, SEQUENCES_MAX), DEFAULT("64"),
          "sequences in one evaluation"),
    SECTION("train.guard", OPTIONAL, "what happens when the loss jumps or is no number"),
    FIELD("train.guard.action", ENUM, train.guard_action, WORDS(guards), DEFAULT("skip"),
          "off; stop the job; skip the update; roll back to the newest checkpoint and skip the data since"),
    FIELD("train.guard.factor", REAL, train.guard_factor, REALS(1, 1e6), DEFAULT("3"),
          "a spike is a loss above factor x the median of the window"),
    FIELD("train.guard.window", INT, train.guard_window, RANGE(4, 10000), DEFAULT("64"),
          "steps that the loss is compared with"),
    FIELD("train.guard.patience", INT, train.guard_patience, RANGE(1, 1000), DEFAULT("3"),
          "spikes within a window after which the job stops"),

    SECTION("run", OPTIONAL, "runs any program; either this or train"),
    FIELD("run.command", COMMAND, argv, ANY, REQUIRED,
          "the program and its arguments, a list; no shell in between"),
    FIELD("run.ranks", INT, ranks, RANGE(1, JOB_RANKS_MAX), COMPUTED("tp x pp x cp x dp"),
          "how many copies run"),

    SECTION("parallel", OPTIONAL, "the mesh of ranks: tp x pp x cp x dp"),
    FIELD("parallel.tp", INT, tp, RANGE(1, JOB_RANKS_MAX), DEFAULT("1"), "tensor parallelism"),
    FIELD("parallel.pp", INT, pp, RANGE(1, JOB_RANKS_MAX), DEFAULT("1"), "pipeline parallelism"),
    FIELD("parallel.cp", INT, cp, RANGE(1, JOB_RANKS_MAX), DEFAULT("1"), "context parallelism"),
    FIELD("parallel.dp", RANGE, dp, RANGE(1, JOB_RANKS_MAX), COMPUTED("ranks / (tp x pp x cp), or 1"),
          "data parallelism; of a train job also a range, such as 2..8: as many as can be placed"),
    FIELD("parallel.ep", INT, ep, RANGE(1, JOB_RANKS_MAX), DEFAULT("1"),
          "expert parallelism; divides dp x cp, needs experts"),
    FIELD("parallel.zero", INT, zero, RANGE(0, 3), DEFAULT("0"), "ZeRO stage: what is sharded over dp"),
    FIELD("parallel.schedule", ENUM, pipeline, WORDS(pipelines), DEFAULT("1f1b"),
          "order of the passes in a pipeline"),
    FIELD("parallel.virtual_stages", INT, virtual_stages, RANGE(1, 1000),
          COMPUTED("2 when interleaved, else 1"),
          "pieces of the model that each pipeline rank holds; only with schedule interleaved"),
    FIELD("parallel.sequence", BOOL, sequence, ANY, DEFAULT("true"),
          "norms and residuals cut over tp too (sequence parallelism); has effect with tp above 1"),
    FIELD("parallel.stages", STAGES, stages, RANGE(1, 1000), COMPUTED("even"),
          "layers of each of the pp x virtual_stages pieces of the model, the first one first"),
    FIELD("parallel.regrow", DURATION, regrow_ms, RANGE(0, YEAR_MS), DEFAULT("10m"),
          "with a range of dp: how long it runs at least before it is interrupted to go on with more"),

    SECTION("resources", OPTIONAL, "what each rank needs"),
    FIELD("resources.device", ENUM, device, WORDS(devices), DEFAULT("auto"),
          "what a rank computes on; auto: what the node has"),
    FIELD("resources.cpus", INT, cpus, RANGE(1, 1024), DEFAULT("1"), "cores per rank"),
    FIELD("resources.memory", SIZE, memory, RANGE(0, MEMORY_MAX), DEFAULT("0"),
          "host memory set aside per rank; 0 = none"),

    SECTION("placement", OPTIONAL, "where ranks go in the tree of nodes, racks and pods"),
    BORDER(tp, "node", "true", "tensor parallel"),
    BORDER(pp, "rack", "false", "pipeline"),
    BORDER(cp, "rack", "false", "context parallel"),
    BORDER(ep, "rack", "false", "expert parallel"),
    BORDER(dp, "cluster", "false", "data parallel"),
    FIELD("placement.spares", SPARES, placement.spares, RANGE(0, 100000), DEFAULT("0"),
          "nodes kept free for this job to move to; auto: enough for 99 % of the times while a node is "
          "repaired"),

    SECTION("checkpoint", OPTIONAL, "saved states to go on from"),
    FIELD("checkpoint.directory", TEXT, checkpoint.directory, ANY,
          COMPUTED("ckpt-NAME for train, none for run"),
          "where they go; relative to the folder of the submit"),
    FIELD("checkpoint.every", EVERY, checkpoint.every, RANGE(1, STEPS_MAX), DEFAULT("50"),
          "steps between two; auto: from what a save costs and how often the job is interrupted"),
    FIELD("checkpoint.busy", ENUM, checkpoint.busy, WORDS(busies), DEFAULT("wait"),
          "when one is due while the last is still being written: training waits, or it is left out"),
    FIELD("checkpoint.keep", INT, checkpoint.keep, RANGE(1, 1000000), DEFAULT("3"),
          "how many stay; older ones are deleted"),
    FIELD("checkpoint.keep_every", INT, checkpoint.keep_every, RANGE(0, STEPS_MAX), DEFAULT("0"),
          "those of steps that this divides stay for ever; 0 = none"),
    FIELD("checkpoint.keep_best", INT, checkpoint.keep_best, RANGE(0, 1000000), DEFAULT("0"),
          "how many with the lowest held-out loss stay as well, of steps that were evaluated "
          "(train.eval.every)"),
    FIELD("checkpoint.resume", RESUME, checkpoint.resume, RANGE(0, STEPS_MAX), DEFAULT("auto"),
          "auto: from the newest complete one; never; or a step"),
    SECTION("checkpoint.memory", OPTIONAL,
            "copies in the nodes' memory, from which a restart needs no storage"),
    FIELD("checkpoint.memory.every", INT, checkpoint.memory_every, RANGE(0, STEPS_MAX), DEFAULT("0"),
          "steps between two; 0 = none"),
    FIELD("checkpoint.memory.buddy", BOOL, checkpoint.buddy, ANY, DEFAULT("true"),
          "each node's copy goes to another node too, in another rack where there is one"),
    SECTION("checkpoint.upload", OPTIONAL, "copies in S3-compatible object storage; only with train"),
    FIELD("checkpoint.upload.url", TEXT, checkpoint.upload.url, ANY, COMPUTED("none"),
          "where they go: s3://BUCKET/PREFIX"),
    FIELD("checkpoint.upload.endpoint", TEXT, checkpoint.upload.endpoint, ANY,
          COMPUTED("AWS's of the region"), "the server's address: https://HOST:PORT"),
    FIELD("checkpoint.upload.region", TEXT, checkpoint.upload.region, ANY, DEFAULT("us-east-1"),
          "that requests are signed for"),
    FIELD("checkpoint.upload.part", SIZE, checkpoint.upload.part, RANGE(5 << 20, INT64_C(5) << 30),
          DEFAULT("64MiB"), "larger files go in parts of this size; a part that fails is sent again"),
    FIELD("checkpoint.upload.keep", INT, checkpoint.upload.keep, RANGE(0, 1000000), DEFAULT("0"),
          "how many stay there; 0 = all"),

    SECTION("restart", OPTIONAL, "after a failure"),
    FIELD("restart.max", INT, restart.max, RANGE(0, 1000000), DEFAULT("5"),
          "restarts for the job's own errors within the window; node faults are not counted"),
    FIELD("restart.window", DURATION, restart.window_ms, RANGE(1000, YEAR_MS), DEFAULT("24h"),
          "older restarts are forgiven"),
    FIELD("restart.backoff", DURATION, restart.backoff_ms, RANGE(0, DAY_MS), DEFAULT("1s"),
          "wait before the first restart; doubles with each failure until a new checkpoint is passed"),

    SECTION("limits", OPTIONAL, "time"),
    FIELD("limits.time", DURATION, limits.time_ms, RANGE(0, 10 * YEAR_MS), DEFAULT("0s"),
          "longest run over all attempts; 0s = no limit"),
    FIELD("limits.grace", DURATION, limits.grace_ms, RANGE(0, DAY_MS), DEFAULT("30s"),
          "between SIGTERM and SIGKILL"),

    FIELD("env", ENV, env, ANY, COMPUTED("none"), "environment variables of the ranks"),

    SECTION("notify", OPTIONAL, "tells another program what happens to the job"),
    FIELD("notify.url", TEXT, notify_url, ANY, COMPUTED("none"),
          "http:// or https:// address that gets a POST for each event"),
    FIELD("notify.on", EVENTS, notify_on, WORDS(events), DEFAULT("[failed, restarted, completed]"),
          "which events"),
};
const size_t job_fields_count = COUNT(job_fields);
_Static_assert(COUNT(job_fields) <= JOB_FIELDS_MAX, "JOB_FIELDS_MAX is too small");

/* GPT-2: Radford et al. 2019, table 2. GPT-3: Brown et al., arXiv 2005.14165, table 2.1. Llama 3: arXiv 2407.21783, table 3 (the base of the
 * rotary positions too), and the 8B release's vocabulary and context. Mixtral 8x7B: Jiang et al., arXiv 2401.04088, table 1; the base as the
 * release's config.json has it. */
static const struct job_preset presets[] = {
    {"gpt2-124m", ARCH_GPT2, 12, 768, 12, 12, 3072, 50257, 1024, 0, 0, 0},
    {"gpt2-350m", ARCH_GPT2, 24, 1024, 16, 16, 4096, 50257, 1024, 0, 0, 0},
    {"gpt2-774m", ARCH_GPT2, 36, 1280, 20, 20, 5120, 50257, 1024, 0, 0, 0},
    {"gpt2-1558m", ARCH_GPT2, 48, 1600, 25, 25, 6400, 50257, 1024, 0, 0, 0},
    {"gpt3-175b", ARCH_GPT2, 96, 12288, 96, 96, 49152, 50257, 2048, 0, 0, 0},
    {"llama-tiny", ARCH_LLAMA, 4, 128, 4, 2, 352, 256, 128, 0, 0, 0},
    {"llama3-8b", ARCH_LLAMA, 32, 4096, 32, 8, 14336, 128256, 8192, 0, 0, 500000},
    {"llama3-70b", ARCH_LLAMA, 80, 8192, 64, 8, 28672, 128256, 8192, 0, 0, 500000},
    {"llama3-405b", ARCH_LLAMA, 126, 16384, 128, 8, 53248, 128256, 8192, 0, 0, 500000},
    {"mixtral-tiny", ARCH_LLAMA, 4, 128, 4, 2, 256, 256, 128, 4, 2, 0},
    {"mixtral-8x7b", ARCH_LLAMA, 32, 4096, 32, 8, 14336, 32000, 32768, 8, 2, 1e6},
};
_Static_assert(COUNT(presets) == COUNT(preset_names), "each preset has a name in the table of fields");

const char *job_domain_name(enum job_domain domain)
{
    return (size_t)domain < COUNT(domains) ? domains[domain] : "?";
}

const char *job_domain_words(enum job_domain domain)
{
    static const char *const words[DOMAIN_COUNT] = {"a node", "an NVLink domain", "a rack", "a pod",
                                                    "the cluster"};
    return (unsigned)domain < DOMAIN_COUNT ? words[domain] : "?";
}

const char *job_preset_name(size_t i)
{
    return i < COUNT(presets) ? presets[i].name : NULL;
}

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
    size_t len = dot ? (size_t)(dot - path) : 0;
    for (size_t i = field;
         dot && i-- > 0;) /* backwards: a section comes before its fields, most often near */
        if (strncmp(job_fields[i].path, path, len) == 0 && job_fields[i].path[len] == '\0')
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

/* The sections that know the key, joined by "or", after `before`; false when none does. */
static bool put_homes(struct text *t, const char *key, const char *before)
{
    bool any = false;
    for (size_t i = 0; i < job_fields_count; i++) {
        size_t parent = job_field_parent(i);
        if (strcmp(job_field_key(i), key) != 0)
            continue;
        put(t, any ? " or " : before);
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
        put_homes(t, nearest, ", which belongs ");
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
    if (put_homes(&t, key, "; it belongs ") || put_nearest(&t, section, key, false) ||
        put_nearest(&t, section, key, true))
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
        [FIELD_EVERY] = "auto or a number of steps",
        [FIELD_RESUME] = "auto, never or a step",
        [FIELD_SPARES] = "auto or a number of nodes",
        [FIELD_BETAS] = "list of two numbers",
        [FIELD_EVENTS] = "list of ",
        [FIELD_COMMAND] = "list of text",
        [FIELD_ENV] = "mapping of text",
        [FIELD_MIX] = "list of {path, weight}",
        [FIELD_STAGES] = "list of whole numbers",
    };
    if (f->type == FIELD_INT || f->type == FIELD_RANGE)
        put_int_range(t, f);
    if (f->type == FIELD_RANGE)
        put(t, ", or LOW..HIGH");
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
