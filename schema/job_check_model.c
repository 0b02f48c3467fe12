/* job_check_model: the numbers of a model: those that follow from a preset or from each other are filled in, then the rules between them. */
#include <inttypes.h>
#include <string.h>

#include "schema/job_rules.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

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
    job_fill(r, "train.model.layers", &m->layers, p->layers);
    job_fill(r, "train.model.hidden", &m->hidden, p->hidden);
    job_fill(r, "train.model.heads", &m->heads, p->heads);
    job_fill(r, "train.model.vocab", &m->vocab, p->vocab);
    job_fill(r, "train.model.context", &m->context, p->context);
    job_fill(r, "train.model.experts", &m->experts, p->experts);
    if (m->experts == p->experts)
        job_fill(r, "train.model.top_k", &m->top_k, p->top_k);
    job_fill_real(r, "train.model.rope_theta", &m->rope_theta, p->rope_theta);
    if (!job_given(r, "train.model.heads"))
        job_fill(r, "train.model.kv_heads", &m->kv_heads, p->kv_heads);
    if (!job_given(r, "train.model.hidden"))
        job_fill(r, "train.model.ffn", &m->ffn, p->ffn);
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
        job_mark_bad(r, needed[i]);
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
        job_fill(r, "train.model.top_k", &m->top_k, m->experts < 2 ? 1 : 2);
    job_fill_real(r, "train.model.balance_loss", &m->balance_loss, 0.01);
    job_fill_real(r, "train.model.router_z_loss", &m->router_z_loss, 0.001);
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
    else if (m->experts > 0 && m->arch == ARCH_GPT2 && !r->plan_only && SOUND(r, "train.model.arch"))
        COMPLAIN(r, "train.model.experts",
                 "%" PRId64
                 " experts, but gpt2 is dense; use experts: 0, or llama and its feed-forward blocks",
                 m->experts);
}

/* What only a mixture of experts has. */
static void check_routing(struct job_reader *r)
{
    const struct job_model *m = &r->spec->train.model;
    if (m->experts > 0 || !SOUND(r, "train.model.experts"))
        return;
    if (m->capacity > 0)
        COMPLAIN(r, "train.model.capacity",
                 "%g, but the model has no experts that it could limit; add experts", m->capacity);
    if (m->balance_loss > 0)
        COMPLAIN(r, "train.model.balance_loss", "%g, but the model has no experts to balance; add experts",
                 m->balance_loss);
    if (m->router_z_loss > 0)
        COMPLAIN(r, "train.model.router_z_loss", "%g, but the model has no router; add experts",
                 m->router_z_loss);
}

void job_check_model(struct job_reader *r)
{
    if (!job_given(r, "train.model") || !SOUND(r, "train.model"))
        return;
    fill_model(r);
    check_heads(r);
    check_kv_heads(r);
    check_vocab(r);
    check_experts(r);
    check_routing(r);
}
