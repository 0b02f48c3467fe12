/* layout: over all ranks of many meshes each tensor is there once a copy, element by element; units can be shared out; published sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "planner/params.h"
#include "runtime/model/layout.h"

#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define PIECES_MAX 16

enum { GPT2, GPT2_OWN_HEAD, LLAMA, LLAMA_TIED, EXPERTS, EXPERTS_TIED, MODELS };
static const struct job_model models[MODELS] = {
    [GPT2] = {.arch = ARCH_GPT2,
              .layers = 8,
              .hidden = 16,
              .heads = 4,
              .kv_heads = 4,
              .ffn = 24,
              .vocab = 97,
              .context = 12,
              .tied = true},
    [GPT2_OWN_HEAD] = {.arch = ARCH_GPT2,
                       .layers = 8,
                       .hidden = 8,
                       .heads = 8,
                       .kv_heads = 8,
                       .ffn = 40,
                       .vocab = 256,
                       .context = 5},
    [LLAMA] = {.arch = ARCH_LLAMA,
               .layers = 8,
               .hidden = 24,
               .heads = 12,
               .kv_heads = 4,
               .ffn = 20,
               .vocab = 97,
               .context = 12},
    [LLAMA_TIED] = {.arch = ARCH_LLAMA,
                    .layers = 8,
                    .hidden = 16,
                    .heads = 8,
                    .kv_heads = 8,
                    .ffn = 8,
                    .vocab = 17,
                    .context = 12,
                    .tied = true},
    [EXPERTS] = {.arch = ARCH_LLAMA,
                 .layers = 8,
                 .hidden = 8,
                 .heads = 4,
                 .kv_heads = 4,
                 .ffn = 12,
                 .vocab = 97,
                 .context = 12,
                 .experts = 12,
                 .top_k = 2},
    [EXPERTS_TIED] = {.arch = ARCH_LLAMA,
                      .layers = 8,
                      .hidden = 8,
                      .heads = 4,
                      .kv_heads = 4,
                      .ffn = 4,
                      .vocab = 65,
                      .context = 12,
                      .experts = 4,
                      .top_k = 1,
                      .tied = true},
};

struct test {
    const char *name;
    int model;
    struct mesh_sizes size;
    int virtual_stages;
    bool sequence;
    int64_t pieces[PIECES_MAX]; /* layers of each; all 0: 8 shared out evenly */
};

static const struct test tests[] = {
    {"one rank", GPT2, {1, 1, 1, 1, 1}, 1, false, {0}},
    {"one rank, experts", EXPERTS, {1, 1, 1, 1, 1}, 1, false, {0}},
    {"vocabulary 97 on 4", GPT2, {4, 1, 1, 1, 1}, 1, false, {0}},
    {"vocabulary 97 on 4, sequence", GPT2, {4, 1, 1, 1, 1}, 1, true, {0}},
    {"vocabulary 17 on 4: two ranks have none", LLAMA_TIED, {4, 1, 1, 1, 1}, 1, true, {0}},
    {"vocabulary 17 on 8: six ranks have none", LLAMA_TIED, {8, 1, 1, 1, 1}, 1, false, {0}},
    {"vocabulary of a whole multiple on 8", GPT2_OWN_HEAD, {8, 1, 1, 1, 1}, 1, false, {0}},
    {"three copies", LLAMA, {1, 1, 1, 3, 1}, 1, false, {0}},
    {"copies of dp and cp", LLAMA, {2, 1, 3, 5, 1}, 1, true, {0}},
    {"two stages, tied", GPT2, {1, 2, 1, 1, 1}, 1, false, {0}},
    {"four stages, tied, tp", LLAMA_TIED, {2, 4, 1, 2, 1}, 1, true, {0}},
    {"uneven stages", GPT2, {1, 3, 1, 1, 1}, 1, false, {1, 5, 2}},
    {"uneven stages, untied", LLAMA, {2, 3, 1, 2, 1}, 1, true, {3, 4, 1}},
    {"virtual stages", GPT2, {2, 2, 1, 1, 1}, 2, false, {0}},
    {"virtual stages, one layer each", LLAMA, {1, 4, 1, 2, 1}, 2, false, {0}},
    {"virtual stages, uneven", GPT2_OWN_HEAD, {1, 2, 1, 1, 1}, 3, false, {1, 1, 2, 1, 1, 2}},
    {"as many stages as layers", LLAMA_TIED, {1, 8, 1, 1, 1}, 1, false, {0}},
    {"experts over two", EXPERTS, {1, 1, 1, 2, 2}, 1, false, {0}},
    {"experts over four of eight", EXPERTS, {1, 1, 2, 4, 4}, 1, false, {0}},
    {"experts over three of six, tp, pp", EXPERTS, {2, 2, 1, 6, 3}, 1, true, {0}},
    {"one expert a rank", EXPERTS, {1, 1, 3, 4, 12}, 1, false, {0}},
    {"experts, virtual stages, tied", EXPERTS_TIED, {4, 2, 1, 2, 2}, 2, true, {0}},
};

static int64_t pieces_of(const struct test *t, int64_t *out)
{
    int n = t->size.pp * t->virtual_stages;
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += out[i] = t->pieces[0] ? t->pieces[i] : models[t->model].layers / n;
    return sum;
}

static void layout_at(struct layout *l, const struct test *t, int rank)
{
    int64_t pieces[PIECES_MAX];
    struct mesh m = mesh_at(&t->size, rank);
    struct layout_request r = {.model = &models[t->model],
                               .size = t->size,
                               .tp = m.tp,
                               .pp = m.pp,
                               .replica = m.replica,
                               .piece_layers = pieces,
                               .virtual_stages = t->virtual_stages,
                               .sequence = t->sequence && t->size.tp > 1};
    assert_int_equal(pieces_of(t, pieces), models[t->model].layers);
    layout_make(l, &r);
}

static int ranks_of(const struct test *t)
{
    return t->size.tp * t->size.pp * t->size.cp * t->size.dp;
}

static const struct test alone[MODELS] = {
    {"alone", GPT2, {1, 1, 1, 1, 1}, 1, false, {0}},
    {"alone", GPT2_OWN_HEAD, {1, 1, 1, 1, 1}, 1, false, {0}},
    {"alone", LLAMA, {1, 1, 1, 1, 1}, 1, false, {0}},
    {"alone", LLAMA_TIED, {1, 1, 1, 1, 1}, 1, false, {0}},
    {"alone", EXPERTS, {1, 1, 1, 1, 1}, 1, false, {0}},
    {"alone", EXPERTS_TIED, {1, 1, 1, 1, 1}, 1, false, {0}},
};

/* ---- coverage ---- */

static size_t index_of(const struct layout *l, const char *name)
{
    for (size_t i = 0; i < l->n_tensors; i++)
        if (strcmp(l->tensors[i].name, name) == 0)
            return i;
    fail_msg("no tensor %s on one rank", name);
    return 0;
}

static bool contains(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* On how many ranks each element of a tensor lies, said without the layout. */
static int copies_of(const struct test *t, const struct layout_tensor *x)
{
    const struct job_model *m = &models[t->model];
    int replicas = t->size.dp * t->size.cp;
    bool table = contains(x->name, "embed.") || contains(x->name, "head.");
    bool cut = table || contains(x->name, "attn.q.") || contains(x->name, "attn.k.") ||
               contains(x->name, "attn.v.") || contains(x->name, "attn.out.weight") ||
               contains(x->name, "ffn.up.") || contains(x->name, "ffn.gate.") ||
               contains(x->name, "ffn.down.weight");
    if (contains(x->name, "experts."))
        return replicas / t->size.ep;
    if (m->tied && contains(x->name, "embed.") && t->size.pp > 1)
        return 2 * replicas; /* first and last stage */
    return cut ? replicas : replicas * t->size.tp;
}

static void count_box(const struct layout_tensor *x, int *seen)
{
    for (size_t i = x->from[0]; i < x->to[0]; i++)
        for (size_t j = x->from[1]; j < x->to[1]; j++)
            seen[i * x->shape[1] + j]++;
}

static void check_box(const struct test *t, const struct layout_tensor *x)
{
    if (x->to[0] > x->shape[0] || x->to[1] > x->shape[1] || x->from[0] > x->to[0] ||
        x->columns != x->to[1] - x->from[1] || x->rows < x->to[0] - x->from[0])
        fail_msg("%s: %s does not hold its box", t->name, x->name);
}

/* seen: for each tensor of `whole` how many ranks have each element */
static void count_rank(const struct test *t, int rank, const struct layout *whole, int **seen)
{
    struct layout l;
    layout_at(&l, t, rank);
    for (size_t i = 0; i < l.n_tensors; i++) {
        size_t at = index_of(whole, l.tensors[i].name);
        check_box(t, &l.tensors[i]);
        assert_memory_equal(l.tensors[i].shape, whole->tensors[at].shape, sizeof whole->tensors[at].shape);
        assert_int_equal(l.tensors[i].decay, whole->tensors[at].decay);
        assert_int_equal(l.tensors[i].fill, whole->tensors[at].fill);
        count_box(&l.tensors[i], seen[at]);
    }
    layout_free(&l);
}

static void check_cover(const struct test *t)
{
    struct layout whole;
    layout_at(&whole, &alone[t->model], 0);
    int **seen = mem_zero(whole.n_tensors, sizeof *seen);
    for (size_t i = 0; i < whole.n_tensors; i++)
        seen[i] = mem_zero(whole.tensors[i].shape[0] * whole.tensors[i].shape[1], sizeof **seen);
    for (int rank = 0; rank < ranks_of(t); rank++)
        count_rank(t, rank, &whole, seen);
    for (size_t i = 0; i < whole.n_tensors; i++) {
        const struct layout_tensor *x = &whole.tensors[i];
        for (size_t j = 0; j < x->shape[0] * x->shape[1]; j++)
            if (seen[i][j] != copies_of(t, x))
                fail_msg("%s: element %zu of %s is on %d ranks, not %d", t->name, j, x->name, seen[i][j],
                         copies_of(t, x));
        free(seen[i]);
    }
    free(seen);
    layout_free(&whole);
}

static void every_element_is_there_once_a_copy(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tests); i++)
        check_cover(&tests[i]);
}

/* ---- units ---- */

/* Tensors that are one matrix, or one vector, to whoever multiplies: each begins where the one before ends. */
static bool is_joined(const char *name)
{
    return contains(name, "attn.k.") || contains(name, "attn.v.") ||
           (contains(name, "up.weight") && !contains(name, "ffn.up.weight"));
}

static void check_unit(const struct test *t, const struct layout *l, const struct layout_unit *u)
{
    int replicas = t->size.dp * t->size.cp;
    size_t end = 0;
    assert_int_equal(u->copies, u->kind == UNIT_EXPERTS ? replicas / t->size.ep : replicas);
    assert_int_equal(u->elements % (16 * (size_t)u->copies), 0);
    assert_true(u->count > 0 && u->first + u->count <= l->n_tensors);
    for (size_t i = u->first; i < u->first + u->count; i++) {
        const struct layout_tensor *x = &l->tensors[i];
        assert_true(l->units + x->unit == u);
        if (x->offset < end || x->offset - end >= 16 || (is_joined(x->name) && x->offset != end) ||
            (!is_joined(x->name) &&
             !(models[t->model].arch == ARCH_LLAMA && contains(x->name, "up.weight")) && x->offset % 16 != 0))
            fail_msg("%s: %s lies at %zu, the one before ends at %zu", t->name, x->name, x->offset, end);
        end = x->offset + x->rows * x->columns;
    }
    assert_true(u->elements >= end && u->elements - end < 16 * (size_t)u->copies);
}

static void check_units(const struct test *t, int rank)
{
    struct layout l;
    size_t at = 0, tensors = 0;
    layout_at(&l, t, rank);
    for (size_t i = 0; i < l.n_units; i++) {
        assert_int_equal(l.units[i].offset, at);
        assert_int_equal(l.units[i].first, tensors);
        check_unit(t, &l, &l.units[i]);
        at += l.units[i].elements;
        tensors += l.units[i].count;
    }
    assert_int_equal(l.elements, at);
    assert_int_equal(l.n_tensors, tensors);
    layout_free(&l);
}

static void units_follow_each_other_and_can_be_shared_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tests); i++)
        for (int rank = 0; rank < ranks_of(&tests[i]); rank++)
            check_units(&tests[i], rank);
}

static bool alike(const struct layout_tensor *a, const struct layout_tensor *b)
{
    return strcmp(a->name, b->name) == 0 && memcmp(a->from, b->from, sizeof a->from) == 0 &&
           memcmp(a->to, b->to, sizeof a->to) == 0 && a->rows == b->rows && a->columns == b->columns &&
           a->unit == b->unit && a->offset == b->offset && a->partial == b->partial;
}

/* Ranks with the same tp, pp and part of the experts have the very same layout: their units are copies of each other. */
static void copies_are_laid_out_alike(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tests); i++) {
        const struct test *t = &tests[i];
        for (int a = 0; a < ranks_of(t); a++) {
            struct mesh m = mesh_at(&t->size, a);
            struct mesh first = {.dp = m.ep / t->size.cp, .cp = m.ep % t->size.cp};
            int b = ((first.dp * t->size.pp + m.pp) * t->size.cp + first.cp) * t->size.tp + m.tp;
            struct layout x, y;
            layout_at(&x, t, a);
            layout_at(&y, t, b);
            assert_int_equal(x.n_tensors, y.n_tensors);
            assert_int_equal(x.n_units, y.n_units);
            for (size_t j = 0; j < x.n_tensors; j++)
                assert_true(alike(&x.tensors[j], &y.tensors[j]));
            layout_free(&x);
            layout_free(&y);
        }
    }
}

/* ---- pieces ---- */

static void check_pieces(const struct test *t, int rank)
{
    int64_t pieces[PIECES_MAX], before = 0;
    struct layout l;
    struct mesh m = mesh_at(&t->size, rank);
    int n = t->size.pp * t->virtual_stages;
    (void)pieces_of(t, pieces);
    layout_at(&l, t, rank);
    assert_int_equal(l.n_chunks, t->virtual_stages);
    for (int p = 0; p < n; before += pieces[p++]) {
        if (p % t->size.pp != m.pp)
            continue;
        const struct layout_chunk *c = &l.chunks[p / t->size.pp];
        assert_int_equal(c->first, before);
        assert_int_equal(c->count, pieces[p]);
        assert_int_equal(c->begins, p == 0);
        assert_int_equal(c->ends, p == n - 1);
        for (size_t layer = c->first; layer < c->first + c->count; layer++)
            assert_true(layout_unit_of(&l, UNIT_LAYER, layer) != LAYOUT_NONE);
    }
    layout_free(&l);
}

static void pieces_go_round_the_stages(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tests); i++)
        for (int rank = 0; rank < ranks_of(&tests[i]); rank++)
            check_pieces(&tests[i], rank);
}

static void check_ends(const struct test *t, int rank)
{
    struct layout l;
    struct mesh m = mesh_at(&t->size, rank);
    bool tied = models[t->model].tied, first = m.pp == 0, last = m.pp == t->size.pp - 1;
    layout_at(&l, t, rank);
    size_t table = layout_unit_of(&l, UNIT_EMBED, LAYOUT_NONE);
    assert_int_equal(table != LAYOUT_NONE, first || (tied && last));
    assert_int_equal(layout_unit_of(&l, UNIT_HEAD, LAYOUT_NONE) != LAYOUT_NONE, last && !tied);
    assert_int_equal(layout_unit_of(&l, UNIT_NORM, LAYOUT_NONE) != LAYOUT_NONE, last);
    assert_int_equal(layout_unit_of(&l, UNIT_POSITION, LAYOUT_NONE) != LAYOUT_NONE,
                     first && models[t->model].arch == ARCH_GPT2);
    for (size_t i = 0; i < l.n_units; i++)
        assert_int_equal(l.units[i].shared_by_ends, i == table && tied && t->size.pp > 1);
    layout_free(&l);
}

static void tables_are_at_the_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tests); i++)
        for (int rank = 0; rank < ranks_of(&tests[i]); rank++)
            check_ends(&tests[i], rank);
}

/* ---- the vocabulary ---- */

static void tables_are_padded_on_each_rank(void **state)
{
    (void)state;
    static const struct {
        int tp, model;
        size_t rows, from[8], to[8];
    } cuts[] = {
        {1, GPT2, 112, {0}, {97}},
        {4, GPT2, 32, {0, 32, 64, 96}, {32, 64, 96, 97}},
        {2, GPT2_OWN_HEAD, 128, {0, 128}, {128, 256}},
        {4, LLAMA_TIED, 16, {0, 16, 17, 17}, {16, 17, 17, 17}},
    };
    for (size_t i = 0; i < COUNT(cuts); i++)
        for (int r = 0; r < cuts[i].tp; r++) {
            struct test t = {"cut", cuts[i].model, {cuts[i].tp, 1, 1, 1, 1}, 1, false, {0}};
            struct layout l;
            layout_at(&l, &t, r);
            const struct layout_tensor *table = &l.tensors[index_of(&l, "embed.weight")];
            assert_int_equal(l.vocab, cuts[i].rows);
            assert_int_equal(table->rows, cuts[i].rows);
            assert_int_equal(l.vocab_from, cuts[i].from[r]);
            assert_int_equal(l.vocab_to, cuts[i].to[r]);
            assert_int_equal(table->from[0], cuts[i].from[r]);
            assert_int_equal(table->to[0], cuts[i].to[r]);
            layout_free(&l);
        }
}

/* ---- what a tensor is ---- */

/* Decay on matrices but not on positions; partial sums where each TP rank sees a part of the tokens, and in the router always. */
static void check_kind(const struct test *t, const struct layout_tensor *x)
{
    bool many = t->size.tp > 1, vector = x->dims == 1, position = contains(x->name, "position.");
    bool router = contains(x->name, "router.");
    bool cut = contains(x->name, "attn.q.bias") || contains(x->name, "attn.k.bias") ||
               contains(x->name, "attn.v.bias") || contains(x->name, "ffn.up.bias");
    bool replicated = (vector && !cut) || position || router;
    enum layout_fill fill = FILL_NORMAL;
    if (vector)
        fill = contains(x->name, "norm") && contains(x->name, ".weight") ? FILL_ONE : FILL_ZERO;
    else if (contains(x->name, "attn.out.") || contains(x->name, "down."))
        fill = FILL_RESIDUAL;
    if (x->decay != (!vector && !position) || x->fill != fill || x->everywhere != replicated ||
        x->partial != (many && (router || (replicated && t->sequence))))
        fail_msg("%s: %s: decay %d, fill %d, everywhere %d, partial %d", t->name, x->name, x->decay, x->fill,
                 x->everywhere, x->partial);
}

static void decay_fill_and_sums_follow_from_the_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tests); i++)
        for (int rank = 0; rank < ranks_of(&tests[i]); rank++) {
            struct layout l;
            layout_at(&l, &tests[i], rank);
            for (size_t j = 0; j < l.n_tensors; j++)
                check_kind(&tests[i], &l.tensors[j]);
            layout_free(&l);
        }
}

static void tensors_are_found_by_whole_suffixes(void **state)
{
    (void)state;
    struct layout l;
    layout_at(&l, &alone[GPT2], 0);
    size_t layer = layout_unit_of(&l, UNIT_LAYER, 7), norm = layout_unit_of(&l, UNIT_NORM, LAYOUT_NONE);
    assert_string_equal(l.tensors[layout_tensor_of(&l, layer, "attn.out.bias")].name,
                        "layers.7.attn.out.bias");
    assert_string_equal(l.tensors[layout_tensor_of(&l, norm, "norm.weight")].name, "norm.weight");
    assert_true(layout_tensor_of(&l, norm, "orm.weight") == LAYOUT_NONE);
    assert_true(layout_tensor_of(&l, layer, "router.weight") == LAYOUT_NONE);
    assert_true(layout_unit_of(&l, UNIT_LAYER, 8) == LAYOUT_NONE);
    assert_true(layout_unit_of(&l, UNIT_EXPERTS, 0) == LAYOUT_NONE);
    layout_free(&l);
}

/* ---- published sizes ---- */

/* A job with that preset (and more of the model), cut that way. */
static struct job_spec *spec_of(const char *preset, const char *parallel)
{
    struct job_spec *spec;
    struct job_diagnostics d;
    char *text =
        str_printf("name: x\ntrain: {model: {preset: %s}, data: {path: x, tokenizer: bytes}, steps: 1, "
                   "batch: {global: 384, micro: 1}}\nparallel: {%s}\n",
                   preset, parallel);
    if (job_spec_parse_plan(text, strlen(text), "preset", NULL, 0, &spec, &d) != 0)
        fail_msg("%s", d.text[0]);
    free(text);
    return spec;
}

static uint64_t preset_parameters(const char *preset)
{
    struct job_spec *spec = spec_of(preset, "dp: 1");
    uint64_t n = layout_parameters(&spec->train.model);
    assert_int_equal(n, job_model_parameters(&spec->train.model));
    job_spec_free(spec);
    return n;
}

/* GPT-2: the numbers of Hugging Face's checkpoints (the paper's 117M to 1542M are known to be miscounted). Llama 3, Mixtral: of the models as
 * published. GPT-3: 174,600 million (arXiv 2005.14165, table D.1). */
static void presets_have_their_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *preset;
        uint64_t parameters;
    } published[] = {
        {"gpt2-124m", 124439808},
        {"gpt2-350m", 354823168},
        {"gpt2-774m", 774030080},
        {"gpt2-1558m", 1557611200},
        {"gpt3-175b", UINT64_C(174604259328)},
        {"llama3-8b", UINT64_C(8030261248)},
        {"llama3-70b", UINT64_C(70553706496)},
        {"llama3-405b", UINT64_C(405853388800)},
        {"mixtral-8x7b", UINT64_C(46702792704)},
    };
    for (size_t i = 0; i < COUNT(published); i++)
        if (preset_parameters(published[i].preset) != published[i].parameters)
            fail_msg("%s has %llu parameters, not %llu", published[i].preset,
                     (unsigned long long)preset_parameters(published[i].preset),
                     (unsigned long long)published[i].parameters);
    for (size_t i = 0; job_preset_name(i); i++)
        assert_true(preset_parameters(job_preset_name(i)) > 0);
}

/* ---- the planner's shares ---- */

/* Elements that a stage's ranks hold, padding left out, on average over its TP ranks; experts or everything else. */
static double held(const struct job_spec *spec, int pp, bool experts_only)
{
    int64_t pieces[128];
    double sum = 0;
    for (int i = 0; i < spec->pp * spec->virtual_stages; i++)
        pieces[i] = job_stage_layers(spec, i);
    for (int tp = 0; tp < spec->tp; tp++) {
        struct layout l;
        struct layout_request r = {
            .model = &spec->train.model,
            .size = {(int)spec->tp, (int)spec->pp, (int)spec->cp, (int)spec->dp, (int)spec->ep},
            .tp = tp,
            .pp = pp,
            .piece_layers = pieces,
            .virtual_stages = (int)spec->virtual_stages};
        layout_make(&l, &r);
        for (size_t i = 0; i < l.n_tensors; i++) {
            const struct layout_tensor *x = &l.tensors[i];
            if ((l.units[x->unit].kind == UNIT_EXPERTS) == experts_only)
                sum += (double)(x->to[0] - x->from[0]) * (double)(x->to[1] - x->from[1]);
        }
        layout_free(&l);
    }
    return sum / (double)spec->tp;
}

static void check_share(const struct job_spec *spec, const char *what, int pp, enum params_place place)
{
    struct params_share s = params_share(spec, place);
    double dense = held(spec, pp, false), of_experts = held(spec, pp, true);
    /* the planner shares all biases of GPT-2 among the TP ranks, of which those behind the sums over TP are on every rank */
    double allowed = (spec->train.model.arch == ARCH_GPT2 ? 1e-3 : 1e-9) * s.dense;
    if (fabs(dense - s.dense) > allowed || fabs(of_experts - s.expert) > allowed)
        fail_msg("%s, stage %d holds %.1f and %.1f of experts, by the planner %.1f and %.1f", what, pp, dense,
                 of_experts, s.dense, s.expert);
}

static void ranks_hold_what_the_planner_says(void **state)
{
    (void)state;
    static const char *const jobs[][2] = {
        {"gpt2-124m", "dp: 4"},
        {"gpt2-1558m", "pp: 4, dp: 2"},
        {"gpt3-175b", "tp: 8, pp: 12, dp: 2, schedule: interleaved, virtual_stages: 4"},
        {"llama3-8b", "tp: 4, pp: 2, cp: 2, dp: 2"},
        {"llama3-70b", "tp: 8, pp: 5, dp: 4"},
        {"llama3-405b", "tp: 8, pp: 16, cp: 2, dp: 4"},
        {"mixtral-8x7b", "tp: 2, pp: 4, dp: 8, ep: 8"},
        {"mixtral-8x7b, tied: true", "tp: 4, pp: 4, cp: 2, dp: 2, ep: 4"},
    };
    for (size_t i = 0; i < COUNT(jobs); i++) {
        struct job_spec *spec = spec_of(jobs[i][0], jobs[i][1]);
        check_share(spec, jobs[i][0], 0, PLACE_FIRST);
        check_share(spec, jobs[i][0], (int)spec->pp - 1, PLACE_LAST);
        job_spec_free(spec);
    }
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(every_element_is_there_once_a_copy),
        cmocka_unit_test(units_follow_each_other_and_can_be_shared_out),
        cmocka_unit_test(copies_are_laid_out_alike),
        cmocka_unit_test(pieces_go_round_the_stages),
        cmocka_unit_test(tables_are_at_the_ends),
        cmocka_unit_test(tables_are_padded_on_each_rank),
        cmocka_unit_test(decay_fill_and_sums_follow_from_the_name),
        cmocka_unit_test(tensors_are_found_by_whole_suffixes),
        cmocka_unit_test(presets_have_their_published_sizes),
        cmocka_unit_test(ranks_hold_what_the_planner_says),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
