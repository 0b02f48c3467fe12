/* job_check: what no single field can know. First the numbers that follow from others are filled in, then each rule looks at the
 * whole. A rule whose fields were already found wrong keeps silent, so that one mistake gives one sentence.
 *
 * What the bundled runtime does not do yet is a table of its own at the end: rows go away as it learns. */
#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "schema/job_read.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* True when none of the paths (up to NULL) was found wrong. */
static bool all_sound(const struct job_reader *r, const char *const *paths)
{
    bool all = true;
    for (size_t i = 0; paths[i] && all; i++)
        all = job_sound(r, paths[i]);
    return all;
}
#define SOUND(r, ...) all_sound(r, (const char *const[]){__VA_ARGS__, NULL})

static void mark_bad(struct job_reader *r, const char *path)
{
    r->fields[job_field_index(path)].bad = true;
}

/* "path: sentence" at the place of the path, which counts as wrong from then on. */
#define COMPLAIN(r, path, ...)                                                                               \
    do {                                                                                                     \
        diag_add((r)->diag, job_place(r, path), path ": " __VA_ARGS__);                                      \
        mark_bad(r, path);                                                                                   \
    } while (0)

/* ---- train or run ---- */

static void check_kind(struct job_reader *r)
{
    bool train = job_given(r, "train"), run = job_given(r, "run");
    struct mark top = {1, 1, NULL};
    r->spec->is_train = train;
    if (train && run)
        COMPLAIN(r, "run", "a job has either train (the bundled runtime) or run (any program), not both");
    else if (!train && !run)
        diag_add(r->diag, top, "the job does nothing: add train (the bundled runtime) or run (any program)");
}

/* ---- the mesh ---- */

static bool mesh_product(const struct job_spec *s, int64_t *out)
{
    return !__builtin_mul_overflow(s->tp, s->pp, out) && !__builtin_mul_overflow(*out, s->cp, out) &&
           !__builtin_mul_overflow(*out, s->dp, out) && *out <= JOB_RANKS_MAX;
}

static void complain_large_mesh(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    diag_add(r->diag, job_place(r, "parallel"),
             "parallel: tp x pp x cp x dp = %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
             " is more than %d ranks, the most that a job may have",
             s->tp, s->pp, s->cp, s->dp, JOB_RANKS_MAX);
    mark_bad(r, "parallel.dp");
}

/* run.ranks without parallel.dp: dp is what is left. */
static void derive_dp(struct job_reader *r)
{
    struct job_spec *s = r->spec;
    int64_t inner = 0;
    s->dp = 1;
    if (!mesh_product(s, &inner)) {
        complain_large_mesh(r);
    } else if (s->ranks % inner != 0) {
        COMPLAIN(r, "run.ranks",
                 "%" PRId64 " ranks cannot be divided by tp x pp x cp = %" PRId64 " x %" PRId64 " x %" PRId64
                 " = %" PRId64,
                 s->ranks, s->tp, s->pp, s->cp, inner);
        mark_bad(r, "parallel.dp");
    } else {
        s->dp = s->ranks / inner;
    }
}

static void derive_ranks(struct job_reader *r, bool ranks_given)
{
    struct job_spec *s = r->spec;
    int64_t product = 0;
    s->dp = s->dp ? s->dp : 1;
    if (!mesh_product(s, &product))
        complain_large_mesh(r);
    else if (ranks_given && s->ranks != product)
        COMPLAIN(r, "run.ranks",
                 "%" PRId64 " ranks, but tp x pp x cp x dp = %" PRId64 " x %" PRId64 " x %" PRId64
                 " x %" PRId64 " = %" PRId64 "; make them equal or leave one of ranks and dp away",
                 s->ranks, s->tp, s->pp, s->cp, s->dp, product);
    else
        s->ranks = product;
}

static void check_mesh(struct job_reader *r)
{
    bool ranks_given = !r->spec->is_train && job_given(r, "run.ranks");
    if (!SOUND(r, "parallel.tp", "parallel.pp", "parallel.cp", "parallel.dp", "run.ranks", "parallel"))
        mark_bad(r, "parallel.dp");
    else if (ranks_given && !job_given(r, "parallel.dp"))
        derive_dp(r);
    else
        derive_ranks(r, ranks_given);
}

static void check_expert_parallel(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    if (s->ep == 1 || !SOUND(r, "parallel.ep", "parallel.cp", "parallel.dp", "train.model.experts"))
        return;
    if (s->dp * s->cp % s->ep != 0)
        COMPLAIN(r, "parallel.ep",
                 "%" PRId64 " does not divide dp x cp = %" PRId64 " x %" PRId64 " = %" PRId64, s->ep, s->dp,
                 s->cp, s->dp * s->cp);
    else if (s->is_train && s->train.model.experts == 0)
        COMPLAIN(r, "parallel.ep", "%" PRId64 " needs a model with experts; use ep: 1", s->ep);
}

/* ---- the model ---- */

static void fill(const struct job_reader *r, const char *path, int64_t *out, int64_t value)
{
    if (!job_given(r, path))
        *out = value;
}

static void fill_real(const struct job_reader *r, const char *path, double *out, double value)
{
    if (!job_given(r, path))
        *out = value;
}

static void fill_preset(struct job_reader *r)
{
    struct job_model *m = &r->spec->train.model;
    const struct job_preset *p = m->preset[0] ? job_preset_find(m->preset) : NULL;
    if (!p)
        return;
    if (job_given(r, "train.model.arch") && m->arch != p->arch && SOUND(r, "train.model.arch"))
        COMPLAIN(r, "train.model.arch", "preset %s is a %s; leave arch away or the preset", p->name,
                 job_arch_name(p->arch));
    m->arch = p->arch;
    fill(r, "train.model.layers", &m->layers, p->layers);
    fill(r, "train.model.hidden", &m->hidden, p->hidden);
    fill(r, "train.model.heads", &m->heads, p->heads);
    fill(r, "train.model.vocab", &m->vocab, p->vocab);
    fill(r, "train.model.context", &m->context, p->context);
    fill(r, "train.model.experts", &m->experts, p->experts);
    if (m->experts == p->experts)
        fill(r, "train.model.top_k", &m->top_k, p->top_k);
    fill_real(r, "train.model.rope_theta", &m->rope_theta, p->rope_theta);
    if (!job_given(r, "train.model.heads"))
        fill(r, "train.model.kv_heads", &m->kv_heads, p->kv_heads);
    if (!job_given(r, "train.model.hidden"))
        fill(r, "train.model.ffn", &m->ffn, p->ffn);
}

static void check_model_complete(struct job_reader *r)
{
    static const char *const needed[] = {"train.model.arch", "train.model.layers", "train.model.hidden",
                                         "train.model.heads", "train.model.context"};
    bool preset = job_given(r, "train.model.preset");
    bool filled = preset && job_sound(r, "train.model.preset");
    for (size_t i = 0; i < COUNT(needed) && !filled; i++) {
        if (job_given(r, needed[i]))
            continue;
        mark_bad(r, needed[i]);
        if (!preset) /* a wrong one has been complained about */
            diag_add(r->diag, job_place(r, needed[i]), "%s is missing: %s; or name a preset", needed[i],
                     job_fields[job_field_index(needed[i])].help);
    }
}

/* Llama: 8/3 of hidden keeps three matrices as large as GPT-2's two (Shazeer, arXiv 2002.05202); rounded up for the GEMMs. */
static int64_t default_ffn(const struct job_model *m)
{
    int64_t multiple = m->hidden >= 1024 ? 256 : 32;
    if (m->arch == ARCH_GPT2)
        return 4 * m->hidden;
    return (8 * m->hidden / 3 + multiple - 1) / multiple * multiple;
}

/* The weights of the two losses: Switch Transformer (arXiv 2101.03961, section 2.2) and ST-MoE (arXiv 2202.08906, section 3). */
static void fill_experts(struct job_reader *r)
{
    struct job_model *m = &r->spec->train.model;
    if (m->top_k == 0)
        fill(r, "train.model.top_k", &m->top_k, m->experts < 2 ? 1 : 2);
    fill_real(r, "train.model.balance_loss", &m->balance_loss, 0.01);
    fill_real(r, "train.model.router_z_loss", &m->router_z_loss, 0.001);
}

static void fill_model(struct job_reader *r)
{
    struct job_model *m = &r->spec->train.model;
    fill_preset(r);
    check_model_complete(r);
    m->kv_heads = m->kv_heads ? m->kv_heads : m->heads;
    m->ffn = m->ffn ? m->ffn : default_ffn(m);
    m->vocab = m->vocab ? m->vocab : 256;
    m->rope_theta = m->rope_theta > 0 ? m->rope_theta : 10000;
    if (!job_given(r, "train.model.tied"))
        m->tied = m->arch == ARCH_GPT2;
    if (m->experts > 0)
        fill_experts(r);
}

static void check_heads(struct job_reader *r)
{
    const struct job_model *m = &r->spec->train.model;
    if (!SOUND(r, "train.model.arch", "train.model.hidden", "train.model.heads"))
        return;
    if (m->hidden % m->heads != 0)
        COMPLAIN(r, "train.model.heads", "hidden %" PRId64 " cannot be divided by %" PRId64 " heads",
                 m->hidden, m->heads);
    else if (m->arch == ARCH_LLAMA && m->hidden / m->heads % 2 != 0)
        COMPLAIN(r, "train.model.heads",
                 "hidden / heads = %" PRId64 " / %" PRId64 " = %" PRId64
                 " must be even: rotary positions turn pairs",
                 m->hidden, m->heads, m->hidden / m->heads);
}

static void check_kv_heads(struct job_reader *r)
{
    const struct job_model *m = &r->spec->train.model;
    if (!SOUND(r, "train.model.arch", "train.model.heads", "train.model.kv_heads"))
        return;
    if (m->arch == ARCH_GPT2 && m->kv_heads != m->heads)
        COMPLAIN(r, "train.model.kv_heads",
                 "gpt2 has as many as heads (%" PRId64 "), not %" PRId64 "; leave it away or use llama",
                 m->heads, m->kv_heads);
    else if (m->heads % m->kv_heads != 0)
        COMPLAIN(r, "train.model.kv_heads", "%" PRId64 " heads cannot be divided by %" PRId64 " kv_heads",
                 m->heads, m->kv_heads);
}

static void check_vocab(struct job_reader *r)
{
    const struct job_train *t = &r->spec->train;
    if (!SOUND(r, "train.model.vocab", "train.data.tokenizer") || strcmp(t->tokenizer, "bytes") != 0)
        return;
    if (t->model.vocab < 256)
        COMPLAIN(r, "train.model.vocab", "%" PRId64 " is too small: the bytes tokenizer has 256 tokens",
                 t->model.vocab);
}

static void check_experts(struct job_reader *r)
{
    const struct job_model *m = &r->spec->train.model;
    if (!SOUND(r, "train.model.experts", "train.model.top_k"))
        return;
    if (m->top_k > m->experts)
        COMPLAIN(r, "train.model.top_k", "%" PRId64 " is more than the %" PRId64 " experts there are",
                 m->top_k, m->experts);
    else if (m->experts > 0 && m->top_k == 0)
        COMPLAIN(r, "train.model.top_k", "must be at least 1 with experts");
}

/* ---- steps ---- */

/* Completes micro, and checks the batch. */
static void check_batch(struct job_reader *r)
{
    struct job_train *t = &r->spec->train;
    int64_t dp = r->spec->dp;
    if (!SOUND(r, "train.batch", "train.batch.global", "train.batch.micro", "parallel.dp"))
        return;
    if (job_given(r, "train.batch.micro") && t->batch_global % (t->batch_micro * dp) != 0)
        COMPLAIN(r, "train.batch.global",
                 "%" PRId64 " is not a multiple of micro x dp = %" PRId64 " x %" PRId64 " = %" PRId64,
                 t->batch_global, t->batch_micro, dp, t->batch_micro * dp);
    else if (t->batch_global % dp != 0)
        COMPLAIN(r, "train.batch.global", "%" PRId64 " sequences cannot be divided by dp = %" PRId64,
                 t->batch_global, dp);
    else if (!job_given(r, "train.batch.micro"))
        t->batch_micro = t->batch_global / dp;
}

static void fill_decay(struct job_reader *r)
{
    struct job_optimizer *o = &r->spec->train.optimizer;
    int64_t steps = r->spec->train.steps, rest = steps > o->warmup ? steps - o->warmup : 0;
    if (!job_given(r, "train.optimizer.decay"))
        o->decay = steps / 10 < rest ? steps / 10 : rest;
}

static void fill_corpora(struct job_reader *r)
{
    struct job_train *t = &r->spec->train;
    if (t->n_corpora > 0 || !t->data_path)
        return;
    t->corpora = mem_zero(1, sizeof *t->corpora);
    t->corpora[t->n_corpora++] = (struct job_corpus){str_dup(t->data_path), 1};
}

static void check_optimizer(struct job_reader *r)
{
    struct job_optimizer *o = &r->spec->train.optimizer;
    if (!job_given(r, "train.optimizer.min_lr"))
        o->min_lr = o->lr / 10;
    else if (o->min_lr > o->lr && SOUND(r, "train.optimizer.min_lr", "train.optimizer.lr"))
        COMPLAIN(r, "train.optimizer.min_lr", "%g is more than lr = %g", o->min_lr, o->lr);
    if (o->warmup > r->spec->train.steps && SOUND(r, "train.optimizer.warmup", "train.steps", "train"))
        COMPLAIN(r, "train.optimizer.warmup", "%" PRId64 " is more than the %" PRId64 " steps of the job",
                 o->warmup, r->spec->train.steps);
}

/* ---- notify ---- */

static void check_notify(struct job_reader *r)
{
    const char *url = r->spec->notify_url;
    if (!url && job_given(r, "notify.on") && !job_given(r, "notify.url")) {
        COMPLAIN(r, "notify.on", "has no effect without notify.url");
        return;
    }
    if (!url)
        return;
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    char quoted[DIAG_QUOTE_SIZE];
    if (!scheme || !url[scheme] || url[scheme] == '/' || strpbrk(url, " \t\r\n\"<>\\"))
        COMPLAIN(r, "notify.url", "must be an http:// or https:// address without spaces, not %s",
                 diag_quote(quoted, url));
}

/* ---- what the bundled runtime does not do yet ---- */

static bool uses_tp(const struct job_spec *s)
{
    return s->tp > 1;
}

static bool uses_pp(const struct job_spec *s)
{
    return s->pp > 1;
}

static bool uses_cp(const struct job_spec *s)
{
    return s->cp > 1;
}

static bool uses_ep(const struct job_spec *s)
{
    return s->ep > 1;
}

static bool uses_zero(const struct job_spec *s)
{
    return s->zero > 0;
}

static bool uses_schedule(const struct job_spec *s)
{
    return s->pipeline != PIPELINE_1F1B;
}

static bool uses_bf16(const struct job_spec *s)
{
    return s->train.precision != PRECISION_FP32;
}

static bool uses_recompute(const struct job_spec *s)
{
    return s->train.recompute != RECOMPUTE_NONE;
}

static bool uses_tokenizer(const struct job_spec *s)
{
    return strcmp(s->train.tokenizer, "bytes") != 0;
}

static bool uses_experts(const struct job_spec *s)
{
    return s->train.model.experts > 0;
}

static bool uses_gpu(const struct job_spec *s)
{
    return s->device == DEVICE_GPU;
}

static const struct {
    const char *path;
    bool (*used)(const struct job_spec *);
    const char *what, *instead;
} not_yet[] = {
    {"parallel.tp", uses_tp, "tensor parallelism", "tp: 1"},
    {"parallel.pp", uses_pp, "pipeline parallelism", "pp: 1"},
    {"parallel.cp", uses_cp, "context parallelism", "cp: 1"},
    {"parallel.ep", uses_ep, "expert parallelism", "ep: 1"},
    {"parallel.zero", uses_zero, "ZeRO sharding", "zero: 0"},
    {"parallel.schedule", uses_schedule, "pipeline schedules other than 1f1b", "schedule: 1f1b"},
    {"train.precision", uses_bf16, "bf16", "precision: fp32"},
    {"train.recompute", uses_recompute, "recomputation of activations", "recompute: none"},
    {"train.data.tokenizer", uses_tokenizer, "tokenizers other than bytes", "tokenizer: bytes"},
    {"train.model.experts", uses_experts, "mixtures of experts", "experts: 0"},
    {"resources.device", uses_gpu, "GPUs", "device: cpu"},
};

static void check_runtime(struct job_reader *r)
{
    for (size_t i = 0; i < COUNT(not_yet); i++) {
        if (!not_yet[i].used(r->spec) || !job_sound(r, not_yet[i].path))
            continue;
        diag_add(r->diag, job_place(r, not_yet[i].path),
                 "%s: the bundled runtime does not do %s yet; use %s (or run with your own program)",
                 not_yet[i].path, not_yet[i].what, not_yet[i].instead);
    }
}

/* ---- all ---- */

/* The interleaved schedule cuts each rank's part of the model into pieces. */
static void fill_virtual_stages(struct job_reader *r)
{
    struct job_spec *s = r->spec;
    if (!job_given(r, "parallel.virtual_stages"))
        s->virtual_stages = s->pipeline == PIPELINE_INTERLEAVED ? 2 : 1;
    if (s->virtual_stages > 1 && s->pipeline != PIPELINE_INTERLEAVED &&
        SOUND(r, "parallel.virtual_stages", "parallel.schedule"))
        COMPLAIN(r, "parallel.virtual_stages",
                 "only the interleaved schedule has virtual stages; add schedule: interleaved");
}

static void check_train(struct job_reader *r)
{
    if (job_given(r, "train.model") && SOUND(r, "train.model")) {
        fill_model(r);
        check_heads(r);
        check_kv_heads(r);
        check_vocab(r);
        check_experts(r);
    }
    check_batch(r);
    check_optimizer(r);
    fill_decay(r);
    fill_corpora(r);
    if (!r->plan_only)
        check_runtime(r);
    if (!r->spec->checkpoint.directory)
        r->spec->checkpoint.directory = str_printf("ckpt-%s", r->spec->name);
}

void job_check(struct job_reader *r)
{
    check_kind(r);
    check_mesh(r);
    check_expert_parallel(r);
    fill_virtual_stages(r);
    if (r->spec->is_train && SOUND(r, "train", "run"))
        check_train(r);
    check_notify(r);
}
