/* job_check_runtime: what the bundled runtime asks of a job. First what must come out even when a mesh divides it, so that no rank starts in
 * vain; each sentence names both numbers and a way out. Then a table of what it does not do yet: rows go away as it learns. */
#include <inttypes.h>
#include <string.h>

#include "schema/job_rules.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define MODEL                                                                                                \
    "train.model", "train.model.arch", "train.model.layers", "train.model.hidden", "train.model.heads",      \
        "train.model.context"
#define MESH  "parallel", "parallel.tp", "parallel.pp", "parallel.cp", "parallel.dp", "parallel.ep"
#define BATCH "train.batch", "train.batch.global", "train.batch.micro"

static int64_t greatest_common(int64_t a, int64_t b)
{
    while (b > 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The largest number up to `most` that divides n. */
static int64_t divisor_below(int64_t n, int64_t most)
{
    int64_t d = most < n ? most : n;
    while (n % d != 0)
        d--;
    return d;
}

/* ---- what must come out even ---- */

static void check_tensor(struct job_reader *r)
{
    const struct job_model *m = &r->spec->train.model;
    int64_t tp = r->spec->tp;
    const struct {
        const char *name;
        int64_t count;
    } parts[] = {{"heads", m->heads}, {"kv_heads", m->kv_heads}, {"ffn", m->ffn}};
    if (!SOUND(r, MODEL, MESH, "train.model.kv_heads", "train.model.ffn"))
        return;
    for (size_t i = 0; i < COUNT(parts); i++) {
        if (parts[i].count % tp == 0)
            continue;
        COMPLAIN(r, "parallel.tp", "%" PRId64 " does not divide %s = %" PRId64 "; use tp: %" PRId64, tp,
                 parts[i].name, parts[i].count,
                 divisor_below(greatest_common(greatest_common(m->heads, m->kv_heads), m->ffn), tp));
        return;
    }
}

static void check_experts_even(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    int64_t experts = s->train.model.experts;
    if (experts > 0 && SOUND(r, MODEL, MESH, "train.model.experts") && experts % s->ep != 0)
        COMPLAIN(r, "parallel.ep", "%" PRId64 " does not divide experts = %" PRId64 "; use ep: %" PRId64,
                 s->ep, experts, divisor_below(greatest_common(experts, s->dp * s->cp), s->ep));
}

/* Causal attention is balanced by giving each rank one chunk from either end of the sequence. */
static void check_context(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    int64_t context = s->train.model.context, chunks = 2 * s->cp;
    if (s->cp > 1 && SOUND(r, MODEL, MESH) && context % chunks != 0)
        COMPLAIN(r, "parallel.cp",
                 "context %" PRId64 " cannot be divided by 2 x cp = %" PRId64
                 " (each rank takes a chunk from either end); use "
                 "context: %" PRId64 " or another cp",
                 context, chunks, (context / chunks + 1) * chunks);
}

static void check_sequence(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    if (!s->sequence || s->tp == 1 || !SOUND(r, MODEL, MESH, BATCH, "parallel.sequence"))
        return;
    int64_t tokens = s->train.batch_micro * s->train.model.context / s->cp;
    if (tokens % s->tp != 0)
        COMPLAIN(r, "parallel.sequence",
                 "micro x context / cp = %" PRId64 " x %" PRId64 " / %" PRId64 " = %" PRId64
                 " tokens cannot be divided by tp = %" PRId64
                 "; use another context or micro, or sequence: false",
                 s->train.batch_micro, s->train.model.context, s->cp, tokens, s->tp);
}

static void check_pieces(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    int64_t layers = s->train.model.layers, pieces = s->pp * s->virtual_stages;
    if (!SOUND(r, MODEL, MESH, "parallel.virtual_stages", "parallel.stages") || pieces <= layers)
        return;
    COMPLAIN(r, "parallel.pp",
             "pp x virtual_stages = %" PRId64 " x %" PRId64 " = %" PRId64 " pieces are more than the %" PRId64
             " layers, and each needs one; use fewer pieces or more layers",
             s->pp, s->virtual_stages, pieces, layers);
}

static void check_interleaved(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    if (s->virtual_stages == 1 || !SOUND(r, MESH, BATCH, "parallel.schedule", "parallel.virtual_stages"))
        return;
    int64_t micros = s->train.batch_global / (s->train.batch_micro * s->dp);
    if (micros % s->pp != 0)
        COMPLAIN(r, "parallel.schedule",
                 "interleaved needs micro-batches in multiples of pp = %" PRId64
                 ", and global / (micro x dp) = %" PRId64 " / (%" PRId64 " x %" PRId64 ") = %" PRId64
                 "; change train.batch or use schedule: 1f1b",
                 s->pp, s->train.batch_global, s->train.batch_micro, s->dp, micros);
}

static void check_zero_bubble(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    if (s->pipeline == PIPELINE_ZERO_BUBBLE && s->train.recompute != RECOMPUTE_NONE &&
        SOUND(r, "parallel.schedule", "train.recompute"))
        COMPLAIN(r, "train.recompute",
                 "cannot be with schedule zero-bubble, whose later weight passes need the activations; use "
                 "recompute: none or "
                 "schedule: 1f1b");
}

/* ---- what it does not do yet ---- */

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

static void check_not_yet(struct job_reader *r)
{
    for (size_t i = 0; i < COUNT(not_yet); i++) {
        if (!not_yet[i].used(r->spec) || !job_sound(r, not_yet[i].path))
            continue;
        diag_add(r->diag, job_place(r, not_yet[i].path),
                 "%s: the bundled runtime does not do %s yet; use %s (or run with your own program)",
                 not_yet[i].path, not_yet[i].what, not_yet[i].instead);
    }
}

void job_check_runtime(struct job_reader *r)
{
    check_tensor(r);
    check_experts_even(r);
    check_context(r);
    check_sequence(r);
    check_pieces(r);
    check_interleaved(r);
    check_zero_bubble(r);
    check_not_yet(r);
}
