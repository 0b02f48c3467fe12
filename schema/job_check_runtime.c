/* job_check_runtime: what the bundled runtime asks of a job: what must come out even when a mesh divides it, so that no rank starts in vain; each
 * sentence names both numbers and a way out. */
#include <inttypes.h>

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

static void check_precision(struct job_reader *r)
{
    if (r->spec->train.precision == PRECISION_FP8 && r->spec->device == DEVICE_CPU &&
        SOUND(r, "train.precision", "resources.device"))
        COMPLAIN(r, "train.precision",
                 "fp8 needs a GPU, and resources.device is cpu; use precision: bf16 or device: gpu");
}

void job_check_runtime(struct job_reader *r)
{
    check_precision(r);
    check_tensor(r);
    check_experts_even(r);
    check_context(r);
    check_sequence(r);
    check_pieces(r);
    check_interleaved(r);
    check_zero_bubble(r);
}
