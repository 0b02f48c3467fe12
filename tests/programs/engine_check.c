/* engine_check: on 2 ranks, samples that no training set has but that must come out right: tokens that are none, ranks without a single target,
 * experts that nobody chooses, samples that one rank cannot read. Each mesh against one rank on the same samples. Prints TAP. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/engine/engine.h"

#define CONTEXT  8
#define VOCAB    41
#define GLOBAL   8
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum kind { PLAIN, BAD_TOKEN, BAD_TARGET, FIRST_HALF_MASKED, ALL_BUT_ONE_MASKED, ALL_MASKED, KINDS };
static const char *const kinds[KINDS] = {"ordinary samples",      "a token that is none",
                                         "a target that is none", "no targets in one half",
                                         "a single target",       "no target at all"};

static const struct mesh_case {
    const char *name;
    struct mesh_sizes size; /* of 2 ranks */
    int64_t zero;
    bool experts;
} cases[] = {
    {"dp2", {1, 1, 1, 2, 1}, 0, false},
    {"dp2 zero3", {1, 1, 1, 2, 1}, 3, false},
    {"tp2", {2, 1, 1, 1, 1}, 0, false},
    {"pp2", {1, 2, 1, 1, 1}, 0, false},
    {"cp2", {1, 1, 2, 1, 1}, 0, false},
    {"ep2, all to one rank", {1, 1, 1, 2, 2}, 0, true},
    {"tp2, all to some experts", {2, 1, 1, 1, 1}, 0, true},
    {"pp2, all to some experts", {1, 2, 1, 1, 1}, 0, true},
};

static const struct job_model dense = {.arch = ARCH_GPT2,
                                       .layers = 2,
                                       .hidden = 16,
                                       .heads = 2,
                                       .kv_heads = 2,
                                       .ffn = 32,
                                       .vocab = VOCAB,
                                       .context = CONTEXT,
                                       .tied = true,
                                       .norm_eps = 1e-5};
static const struct job_model experts = {.arch = ARCH_LLAMA,
                                         .layers = 2,
                                         .hidden = 16,
                                         .heads = 2,
                                         .kv_heads = 2,
                                         .ffn = 32,
                                         .vocab = VOCAB,
                                         .context = CONTEXT,
                                         .norm_eps = 1e-5,
                                         .rope_theta = 10000,
                                         .experts = 4,
                                         .top_k = 2};

static void fail(const char *text)
{
    fprintf(stderr, "engine_check: %s\n", text);
    exit(1);
}

/* ---- samples ---- */

struct samples {
    enum kind kind;
    bool unreadable; /* all of them */
};

static bool is_masked(const struct samples *s, uint64_t sample, size_t at)
{
    switch (s->kind) {
    case FIRST_HALF_MASKED:
        return sample < GLOBAL / 2;
    case ALL_BUT_ONE_MASKED:
        return sample != GLOBAL - 1 || at != 2;
    case ALL_MASKED:
        return true;
    default:
        return false;
    }
}

static int fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets, struct err *err)
{
    const struct samples *s = owner;
    if (s->unreadable)
        return err_set(err, "this rank's disk is gone");
    for (size_t i = 0; i < count * CONTEXT; i++) {
        uint64_t sample = first + i / CONTEXT, at = i % CONTEXT;
        bool bad = sample == 1 && at == 3;
        tokens[i] = bad && s->kind == BAD_TOKEN ? VOCAB : (int32_t)((sample * 7 + at * 3) % VOCAB);
        targets[i] = is_masked(s, sample, at) ? -1 : (int32_t)((sample * 7 + at * 3 + 3) % VOCAB);
        if (bad && s->kind == BAD_TARGET)
            targets[i] = VOCAB;
    }
    return 0;
}

/* ---- engines ---- */

/* Routers whose weights are 0 find all experts alike, so that every token goes to the first two: both on the first rank. */
static void crowd_experts(struct engine *e)
{
    const struct layout *l = engine_layout(e);
    for (size_t t = 0; t < l->n_tensors; t++) {
        struct store_range r = store_owned(engine_store(e), t, STORE_MASTER);
        if (strstr(l->tensors[t].name, "router."))
            memset(r.data, 0, (r.end - r.begin) * sizeof *r.data);
    }
    store_spread(engine_store(e));
}

static struct job_spec spec_of(const struct mesh_case *c)
{
    struct job_spec s = {.is_train = true, .virtual_stages = 1, .sequence = true, .zero = c->zero};
    s.tp = c->size.tp;
    s.pp = c->size.pp;
    s.cp = c->size.cp;
    s.dp = c->size.dp;
    s.ep = c->size.ep;
    s.train.model = c->experts ? experts : dense;
    s.train.batch_global = GLOBAL;
    s.train.batch_micro = 2;
    return s;
}

/* The engine of a case; NULL on ranks that it does not need. spec and mesh must outlive it. */
static struct engine *engine_of(const struct job_spec *spec, struct mesh *mesh, struct comm *comm,
                                const struct kernels *k)
{
    struct err err;
    struct mesh_sizes size = {(int)spec->tp, (int)spec->pp, (int)spec->cp, (int)spec->dp, (int)spec->ep};
    struct engine_request r = {.spec = spec, .mesh = mesh, .kernels = k};
    if (mesh_open(mesh, comm, &size, true, &err) != 0)
        fail(err.text);
    if (mesh->size.tp == 0)
        return NULL;
    struct engine *e = engine_new(&r, &err);
    if (!e)
        fail(err.text);
    store_init(engine_store(e), &spec->train.model, 5);
    crowd_experts(e);
    return e;
}

static struct engine_result gradients(struct engine *e, struct samples *s)
{
    struct err err;
    struct engine_result r;
    struct engine_source source = {s, fill};
    if (engine_load(e, &source, 0, &err) != 0)
        fail(err.text);
    engine_gradients(e, 1, &r);
    return r;
}

/* What one rank comes to, on all ranks. */
static struct engine_result alone(const struct mesh_case *c, enum kind kind, struct comm *comm,
                                  const struct kernels *k)
{
    const struct mesh_case one = {"one", {1, 1, 1, 1, 1}, 0, c->experts};
    struct job_spec spec = spec_of(&one);
    struct samples s = {.kind = kind};
    struct engine_result r = {.loss = 0};
    struct mesh mesh;
    struct engine *e = engine_of(&spec, &mesh, comm, k);
    if (e)
        r = gradients(e, &s);
    engine_free(e);
    comm_broadcast(comm_world(comm), &r, sizeof r, 0);
    return r;
}

/* ---- checks ---- */

static bool near(double got, double expected, double tolerance)
{
    return (isnan(got) && isnan(expected)) || fabs(got - expected) <= tolerance * fabs(expected);
}

static bool say(bool good, const char *mesh, const char *what, struct comm *comm)
{
    static int number;
    bool all = comm_max_int(comm_world(comm), !good) == 0;
    if (comm_rank(comm_world(comm)) == 0)
        printf("%sok %d - %s: %s\n", all ? "" : "not ", ++number, mesh, what);
    return all;
}

static bool check_kind(const struct mesh_case *c, enum kind kind, struct engine *e, struct comm *comm,
                       const struct kernels *k)
{
    struct samples s = {.kind = kind};
    struct engine_result expected = alone(c, kind, comm, k), r = gradients(e, &s);
    bool bad = kind == BAD_TOKEN || kind == BAD_TARGET;
    bool good = near(r.loss, expected.loss, 1e-6) && isnan(r.loss) == bad && r.counted == expected.counted;
    good = good && (bad || near(r.norm, expected.norm, 1e-5));
    if (!good)
        fprintf(stderr, "# %s, %s: loss %.9g norm %.9g counted %llu; one rank: %.9g, %.9g, %llu\n", c->name,
                kinds[kind], r.loss, r.norm, (unsigned long long)r.counted, expected.loss, expected.norm,
                (unsigned long long)expected.counted);
    return say(good, c->name, kinds[kind], comm);
}

/* The evaluation ends on all ranks when one cannot read; each has a sentence. Stages between the ends never read. */
static bool check_unreadable(const struct mesh_case *c, struct engine *e, struct comm *comm)
{
    struct err err = {""};
    int rank = comm_rank(comm_world(comm));
    struct samples s = {.unreadable = rank == 1};
    struct engine_source source = {&s, fill};
    double loss;
    int rc = engine_evaluate(e, &source, 0, GLOBAL, &loss, &err);
    const char *text = rank == 1 ? "this rank's disk is gone" : "another rank could not read";
    return say(rc == -1 && strstr(err.text, text), c->name, "samples that one rank cannot read", comm);
}

static bool check_case(const struct mesh_case *c, struct comm *comm, const struct kernels *k)
{
    struct job_spec spec = spec_of(c);
    struct mesh mesh;
    struct engine *e = engine_of(&spec, &mesh, comm, k);
    bool good = true;
    for (int kind = 0; kind < KINDS; kind++)
        good = check_kind(c, (enum kind)kind, e, comm, k) && good;
    good = check_unreadable(c, e, comm) && good;
    engine_free(e);
    return good;
}

int main(void)
{
    struct err err;
    struct comm *comm = comm_open(NULL, &err);
    const struct kernels *k = kernels_cpu(KERNEL_FP32, &err);
    bool good = true;
    if (!comm || !k)
        fail(err.text);
    if (comm_size(comm_world(comm)) != 2)
        fail("start it as 2 ranks");
    for (size_t i = 0; i < COUNT(cases); i++)
        good = check_case(&cases[i], comm, k) && good;
    if (comm_rank(comm_world(comm)) == 0)
        printf("1..%zu\n", COUNT(cases) * (KINDS + 1));
    comm_close(comm);
    return !good;
}
