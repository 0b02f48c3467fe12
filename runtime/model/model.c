/* model: the life of a model and the way through it: embedding, layers, last norm, logits, loss, and back.
 *
 * All activations lie in one arena, cut once in model_new. The forward pass keeps what the backward pass needs; logits become their
 * own gradient in place, which is why each backward pass needs a forward pass before it. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/model/model_private.h"

static bool gpt2(const struct model *m)
{
    return m->config.arch == ARCH_GPT2;
}

/* The next `count` elements of the arena, or NULL while only counting (arena NULL). */
static real *take(const real *arena, size_t *used, size_t count)
{
    size_t at = *used;
    *used += (count + 15) / 16 * 16;
    return arena ? (real *)arena + at : NULL;
}

static void cut_layer(struct model *m, struct model_layer *a, size_t *used)
{
    size_t nc = m->n * m->hidden, nf = m->n * m->ffn;
    a->in = take(m->arena, used, nc);
    a->norm1 = take(m->arena, used, nc);
    a->mean1 = take(m->arena, used, m->n);
    a->rstd1 = take(m->arena, used, m->n);
    a->qkv = take(m->arena, used, m->n * m->heads.stride);
    a->attention = take(m->arena, used, nc);
    a->lse = take(m->arena, used, m->n * m->heads.heads);
    a->mid = take(m->arena, used, nc);
    a->norm2 = take(m->arena, used, nc);
    a->mean2 = take(m->arena, used, m->n);
    a->rstd2 = take(m->arena, used, m->n);
    a->wide = take(m->arena, used, nf);
    a->up = gpt2(m) ? NULL : take(m->arena, used, nf);
    a->act = take(m->arena, used, nf);
}

static void cut_scratch(struct model *m, size_t *used)
{
    struct model_scratch *s = &m->scratch;
    s->d = take(m->arena, used, m->n * m->hidden);
    s->narrow = take(m->arena, used, m->n * m->hidden);
    s->qkv = take(m->arena, used, m->n * m->heads.stride);
    s->wide = take(m->arena, used, m->n * m->ffn);
    s->up = gpt2(m) ? NULL : take(m->arena, used, m->n * m->ffn);
}

/* Sets every pointer into the arena; returns the size of the arena in elements. */
static size_t cut_arena(struct model *m)
{
    size_t used = 0, half = gpt2(m) ? 0 : m->context * (m->heads.size / 2);
    for (size_t l = 0; l < m->layers; l++)
        cut_layer(m, &m->layer[l], &used);
    cut_scratch(m, &used);
    m->cosine = take(m->arena, &used, half);
    m->sine = take(m->arena, &used, half);
    m->out = take(m->arena, &used, m->n * m->hidden);
    m->norm = take(m->arena, &used, m->n * m->hidden);
    m->mean = take(m->arena, &used, m->n);
    m->rstd = take(m->arena, &used, m->n);
    m->logits = take(m->arena, &used, m->n * m->vocab_padded);
    m->lse = take(m->arena, &used, m->n);
    m->losses = take(m->arena, &used, m->n);
    return used;
}

static int check_heads(const struct job_model *c, struct err *err)
{
    if (c->hidden % c->heads != 0)
        return err_set(err, "model: hidden %lld is not a multiple of heads %lld", (long long)c->hidden,
                       (long long)c->heads);
    if (c->heads % c->kv_heads != 0)
        return err_set(err, "model: heads %lld is not a multiple of kv_heads %lld", (long long)c->heads,
                       (long long)c->kv_heads);
    if (c->arch == ARCH_GPT2 && c->kv_heads != c->heads)
        return err_set(err, "model: gpt2 has no grouped-query heads: leave kv_heads out, or use arch: llama");
    if (c->arch == ARCH_LLAMA && c->hidden / c->heads % 2 != 0)
        return err_set(err, "model: llama turns pairs within a head, but hidden/heads is %lld, an odd number",
                       (long long)(c->hidden / c->heads));
    return 0;
}

/* Sizes that the matrix library cannot count, or that mean nothing, are refused. */
static int check(const struct job_model *c, size_t batch, size_t context, struct err *err)
{
    const int64_t sizes[] = {c->layers, c->hidden, c->heads, c->kv_heads, c->ffn, c->vocab, c->context};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] < 1 || sizes[i] > INT_MAX / 4)
            return err_set(err,
                           "model: layers, hidden, heads, kv_heads, ffn, vocab and context must be 1 to %d; "
                           "one of them is %lld",
                           INT_MAX / 4, (long long)sizes[i]);
    }
    if (c->experts != 0)
        return err_set(err, "model: experts %lld: this version trains dense models only; leave experts out",
                       (long long)c->experts);
    if (context < 1 || context > (size_t)c->context)
        return err_set(err, "model: sequences of %zu tokens do not fit its context of %lld", context,
                       (long long)c->context);
    if (batch < 1 || batch > INT_MAX / context)
        return err_set(err, "model: a micro-batch of %zu sequences of %zu tokens: make it 1 to %zu", batch,
                       context, INT_MAX / context);
    return check_heads(c, err);
}

static void set_sizes(struct model *m, const struct job_model *c, size_t batch, size_t context)
{
    size_t size = (size_t)(c->hidden / c->heads);
    m->config = *c;
    m->batch = batch;
    m->context = context;
    m->n = batch * context;
    m->hidden = (size_t)c->hidden;
    m->ffn = (size_t)c->ffn;
    m->layers = (size_t)c->layers;
    m->vocab = (size_t)c->vocab;
    m->vocab_padded = model_vocab_padded(c);
    m->heads = (struct kernel_heads){.batch = batch,
                                     .context = context,
                                     .heads = (size_t)c->heads,
                                     .kv_heads = (size_t)c->kv_heads,
                                     .size = size,
                                     .stride = (size_t)(c->heads + 2 * c->kv_heads) * size};
}

static int allocate(struct model *m, struct err *err)
{
    size_t arena = cut_arena(m);
    m->tokens = mem_zero(m->n, sizeof *m->tokens);
    m->targets = mem_zero(m->n, sizeof *m->targets);
    m->parameters = kernel_alloc(m->layout.elements);
    m->gradients = kernel_alloc(m->layout.elements);
    m->arena = kernel_alloc(arena);
    if (!m->parameters || !m->gradients || !m->arena)
        return err_set(err,
                       "model: no memory for %zu parameters with gradients and %zu activations (%.1f GiB): "
                       "use a smaller "
                       "batch.micro or model, or a node with more memory",
                       m->layout.elements, arena,
                       (double)(2 * m->layout.elements + arena) * sizeof(real) / (1 << 30));
    cut_arena(m);
    return 0;
}

struct model *model_new(const struct job_model *config, size_t batch, size_t context, struct err *err)
{
    if (check(config, batch, context, err) != 0 || kernel_open(err) != 0)
        return NULL;
    struct model *m = mem_zero(1, sizeof *m);
    set_sizes(m, config, batch, context);
    model_layout_make(&m->layout, config);
    m->layer = mem_zero(m->layers, sizeof *m->layer);
    if (allocate(m, err) != 0) {
        model_free(m);
        return NULL;
    }
    if (!gpt2(m))
        kernel_rope_tables(m->cosine, m->sine, MODEL_ROPE_THETA, context, m->heads.size);
    return m;
}

void model_free(struct model *model)
{
    if (!model)
        return;
    model_layout_free(&model->layout);
    kernel_free(model->parameters);
    kernel_free(model->gradients);
    kernel_free(model->arena);
    free(model->layer);
    free(model->tokens);
    free(model->targets);
    free(model);
}

size_t model_parameter_count(const struct model *model)
{
    return model->layout.elements;
}

real *model_parameters(struct model *model)
{
    return model->parameters;
}

real *model_gradients(struct model *model)
{
    return model->gradients;
}

const struct model_tensor *model_tensors(const struct model *model, size_t *count)
{
    *count = model->layout.count;
    return model->layout.tensors;
}

void model_zero_gradients(struct model *model)
{
    kernel_zero(model->gradients, model->layout.elements);
}

/* Tensor numbers of what follows the last layer. */
static size_t tail(const struct model *m, size_t which)
{
    return gpt2(m) ? GPT2_LAYER + m->layers * GPT2_PER_LAYER + which
                   : LLAMA_LAYER + m->layers * LLAMA_PER_LAYER + which;
}

/* GPT-2's logits come from the transposed token table. */
static size_t head(const struct model *m)
{
    return gpt2(m) ? GPT2_WTE : tail(m, LLAMA_HEAD);
}

static void norm_forward(struct model *m)
{
    if (gpt2(m))
        kernel_layernorm_forward(m->norm, m->mean, m->rstd, m->out,
                                 model_parameter(m, tail(m, GPT2_LNF_WEIGHT)),
                                 model_parameter(m, tail(m, GPT2_LNF_BIAS)), MODEL_NORM_EPS, m->n, m->hidden);
    else
        kernel_rmsnorm_forward(m->norm, m->rstd, m->out, model_parameter(m, tail(m, LLAMA_NORM)),
                               MODEL_NORM_EPS, m->n, m->hidden);
}

/* scratch.d = d(out), from scratch.narrow = d(norm) */
static void norm_backward(struct model *m)
{
    struct model_scratch *s = &m->scratch;
    kernel_zero(s->d, m->n * m->hidden);
    if (gpt2(m))
        kernel_layernorm_backward(s->d, model_gradient(m, tail(m, GPT2_LNF_WEIGHT)),
                                  model_gradient(m, tail(m, GPT2_LNF_BIAS)), s->narrow, m->out,
                                  model_parameter(m, tail(m, GPT2_LNF_WEIGHT)), m->mean, m->rstd, m->n,
                                  m->hidden);
    else
        kernel_rmsnorm_backward(s->d, model_gradient(m, tail(m, LLAMA_NORM)), s->narrow, m->out,
                                model_parameter(m, tail(m, LLAMA_NORM)), m->rstd, m->n, m->hidden);
}

static bool tokens_fit(const struct model *m, const int32_t *tokens, const int32_t *targets)
{
    int64_t vocab = m->config.vocab;
    for (size_t i = 0; i < m->n; i++) {
        if (tokens[i] < 0 || tokens[i] >= vocab || targets[i] >= vocab)
            return false;
    }
    return true;
}

static struct model_linear head_linear(const struct model *m)
{
    return (struct model_linear){head(m), MODEL_NONE, m->hidden, m->vocab_padded, false};
}

double model_forward(struct model *model, const int32_t *tokens, const int32_t *targets)
{
    struct model *m = model;
    m->ready = tokens_fit(m, tokens, targets);
    if (!m->ready)
        return NAN;
    memcpy(m->tokens, tokens, m->n * sizeof *tokens);
    memcpy(m->targets, targets, m->n * sizeof *targets);
    kernel_embedding_forward(m->layer[0].in, m->tokens, model_parameter(m, 0),
                             gpt2(m) ? model_parameter(m, GPT2_WPE) : NULL, m->batch, m->context, m->hidden);
    for (size_t l = 0; l < m->layers; l++) {
        real *out = l + 1 < m->layers ? m->layer[l + 1].in : m->out;
        (gpt2(m) ? model_gpt2_forward : model_llama_forward)(m, l, out);
    }
    norm_forward(m);
    struct model_linear logits = head_linear(m);
    model_linear_forward(m, &logits, m->norm, NULL, m->logits, m->vocab_padded);
    return kernel_cross_entropy_forward(m->losses, m->lse, m->logits, m->targets, m->n, m->vocab,
                                        m->vocab_padded);
}

void model_backward(struct model *model, real scale)
{
    struct model *m = model;
    if (!m->ready)
        return;
    m->ready = false;
    struct model_linear logits = head_linear(m);
    kernel_cross_entropy_backward(m->logits, m->lse, m->targets, scale, m->n, m->vocab, m->vocab_padded);
    model_linear_backward(m, &logits, m->norm, m->logits, m->vocab_padded, false, m->scratch.narrow);
    norm_backward(m);
    for (size_t l = m->layers; l-- > 0;)
        (gpt2(m) ? model_gpt2_backward : model_llama_backward)(m, l);
    kernel_embedding_backward(model_gradient(m, 0), gpt2(m) ? model_gradient(m, GPT2_WPE) : NULL,
                              m->scratch.d, m->tokens, m->batch, m->context, m->hidden);
}

double model_flops_per_token(const struct job_model *config, size_t context)
{
    struct model_layout layout;
    size_t parameters = 0;
    model_layout_make(&layout, config);
    for (size_t i = 0; i < layout.count; i++)
        parameters += layout.tensors[i].count;
    model_layout_free(&layout);
    return 6.0 * (double)parameters +
           12.0 * (double)config->layers * (double)config->hidden * (double)context;
}
