/* mesh_check FOLDER fp32|bf16|odd|gpu|gpu-bf16 [FILTER]: under mpirun with 8 ranks, trains the models of the lab on many meshes (meshes.h, odd.h), and
 * holds loss, gradient norm, every gradient tensor, ten steps of losses and an evaluation against mesh_reference's files. gpu: some of these on a
 * GPU; BELAY_TEST_DEVICE=gpu does it to any set. Prints TAP on rank 0. */
#include <math.h>

#include "runtime/backend.h"
#include "tests/mesh/meshes.h"
#include "tests/mesh/odd.h"
#include "tests/mesh/outside.h"

#define COUNT(a)  (sizeof(a) / sizeof(a)[0])
#define TESTS_MAX 256

/* How near a mesh must come to one rank in double. */
struct limits {
    double loss, norm; /* of the first step, relative */
    double gradient;   /* each element, relative to the largest of its tensor */
    double routed;     /* the same with experts */
    double training;   /* losses of ten steps, and the evaluation, relative */
};
static const struct limits single_limits = {1e-6, 1e-6, 1e-5, 1e-5, 1e-4};
/* Activations have 8 bits, an error of up to 0.4 % each, and a token between two experts may go to the other one. */
static const struct limits rounded_limits = {5e-5, 5e-3, 5e-2, 3e-1, 1e-3};

/* What is done, and what came of it. */
struct lab {
    struct backend backend;
    struct comm *comm;
    const struct kernels *kernels;
    const char *folder;
    struct limits limits;
    size_t number, bad;
    struct course {
        const char *name;
        double losses[LAB_STEPS];
    } courses[TESTS_MAX]; /* rank 0 */
};

struct reference {
    struct lab_header h;
    double *gradients;
};

static void fail(const char *text)
{
    fprintf(stderr, "mesh_check: %s\n", text);
    exit(1);
}

static struct reference read_reference(const char *folder, int model)
{
    struct reference r;
    char *path = lab_path(folder, model);
    FILE *in = fopen(path, "rb");
    if (!in || fread(&r.h, sizeof r.h, 1, in) != 1)
        fail(path);
    r.gradients = malloc(r.h.numbers * sizeof *r.gradients);
    if (!r.gradients || fread(r.gradients, sizeof *r.gradients, r.h.numbers, in) != r.h.numbers)
        fail(path);
    fclose(in);
    free(path);
    return r;
}

/* Where the whole tensor of that name begins in the reference. */
static const double *whole_of(const struct reference *r, const struct job_model *m, const char *name)
{
    struct layout one;
    int64_t layers = m->layers;
    struct layout_request request = {
        .model = m, .size = {1, 1, 1, 1, 1}, .piece_layers = &layers, .virtual_stages = 1};
    const double *at = r->gradients, *found = NULL;
    layout_make(&one, &request);
    for (size_t t = 0; t < one.n_tensors; t++) {
        if (strcmp(one.tensors[t].name, name) == 0)
            found = at;
        at += one.tensors[t].shape[0] * one.tensors[t].shape[1];
    }
    layout_free(&one);
    return found;
}

/* The largest difference of what is owned of tensor t, relative to the largest element of the whole tensor, or to a thousandth of the norm of
 * all gradients if that is more: the bias of keys has no gradient but rounding. Padding must be 0. */
static double compare_tensor(const struct kernels *k, struct engine *e, size_t t, const struct reference *r,
                             const struct job_model *m)
{
    const struct layout_tensor *x = &engine_layout(e)->tensors[t];
    struct store_range own = store_owned(engine_store(e), t, STORE_GRADIENT);
    const double *whole = whole_of(r, m, x->name);
    double largest = 1e-3 * r->h.norm, worst = 0;
    real *mine = calloc(own.end - own.begin + 1, sizeof *mine);
    if (!mine)
        fail("no memory");
    k->to_host(mine, own.data, (own.end - own.begin) * sizeof *mine);
    for (size_t i = 0; i < x->shape[0] * x->shape[1]; i++)
        largest = fabs(whole[i]) > largest ? fabs(whole[i]) : largest;
    for (size_t i = own.begin; i < own.end; i++) {
        size_t row = x->from[0] + i / x->columns, column = x->from[1] + i % x->columns;
        double expected = row < x->to[0] ? whole[row * x->shape[1] + column] : 0;
        double d = fabs((double)mine[i - own.begin] - expected);
        worst = d > worst || d != d ? d : worst;
    }
    free(mine);
    return worst / largest;
}

struct outcome {
    double loss, norm, router, gradient, training, held, losses[LAB_STEPS];
    double written; /* elements that a checkpoint would hold */
    bool replicas;
    char worst[LAYOUT_NAME_BYTES];
};

static double relative(double a, double b)
{
    double d = fabs(a - b) / (fabs(b) > 1e-30 ? fabs(b) : 1);
    return d == d ? d : 1e30;
}

static void compare_gradients(const struct kernels *k, struct engine *e, const struct reference *r,
                              const struct job_model *m, struct outcome *o)
{
    const struct layout *l = engine_layout(e);
    for (size_t t = 0; t < l->n_tensors; t++) {
        const struct layout_tensor *x = &l->tensors[t];
        double d = compare_tensor(k, e, t, r, m);
        if (d > o->gradient || d != d) {
            o->gradient = d == d ? d : 1e30;
            snprintf(o->worst, sizeof o->worst, "%s", x->name);
        }
        struct store_range w = store_written(engine_store(e), t, STORE_MASTER);
        size_t real_elements = (x->to[0] - x->from[0]) * x->columns;
        size_t end = w.end < real_elements ? w.end : real_elements;
        o->written += w.begin < end ? (double)(end - w.begin) : 0;
    }
}

static void evaluate(struct engine *e, const struct engine_source *source, const struct reference *r,
                     struct outcome *o)
{
    struct err err;
    double held = 0;
    if (engine_evaluate(e, source, 100000, 13, &held, &err) != 0)
        fail(err.text);
    o->held = relative(held, r->h.held);
}

static void train(const struct kernels *k, struct engine *e, const struct job_spec *spec,
                  const struct reference *r, struct outcome *o, int64_t steps)
{
    struct engine_source source = {(void *)&spec->train.model, lab_fill};
    struct err err;
    o->replicas = store_replicas_equal(engine_store(e));
    for (int64_t step = 1; step <= steps; step++) {
        struct engine_result x;
        if (engine_load(e, &source, (uint64_t)(step - 1) * LAB_GLOBAL, &err) != 0)
            fail(err.text);
        engine_gradients(e, step, &x);
        if (step == 1) {
            o->loss = relative(x.loss, r->h.loss);
            o->norm = relative(x.norm, r->h.norm);
            o->router = relative(x.router, r->h.router);
            compare_gradients(k, e, r, &spec->train.model, o);
        }
        o->losses[step - 1] = x.loss;
        double d = relative(x.loss, r->h.losses[step - 1]);
        o->training = d > o->training ? d : o->training;
        struct kernel_adamw adamw = lab_adamw(LAB_LR, step, x.norm);
        engine_update(e, &adamw);
        o->replicas = store_replicas_equal(engine_store(e)) && o->replicas;
    }
    if (steps == LAB_STEPS)
        evaluate(e, &source, r, o);
}

static struct job_spec spec_of(const struct test *t)
{
    struct job_spec s = lab_spec(t->model);
    s.tp = t->tp;
    s.pp = t->pp;
    s.cp = t->cp;
    s.dp = t->dp;
    s.ep = t->ep;
    s.zero = t->zero;
    s.sequence = t->sequence;
    s.pipeline = t->schedule;
    s.virtual_stages = t->virtual_stages;
    s.train.batch_micro = t->micro;
    s.train.recompute = t->recompute;
    return s;
}

/* The worst of all ranks. */
static struct outcome gather(struct comm *comm, const struct outcome *mine)
{
    struct comm_group *world = comm_world(comm);
    size_t n = (size_t)comm_size(world);
    struct outcome *all = calloc(n, sizeof *all), sum = {.replicas = true};
    if (!all)
        abort();
    comm_share(world, mine, sizeof *mine, all);
    for (size_t i = 0; i < n; i++) {
        sum.loss = fmax(sum.loss, all[i].loss);
        sum.norm = fmax(sum.norm, all[i].norm);
        sum.router = fmax(sum.router, all[i].router);
        sum.training = fmax(sum.training, all[i].training);
        sum.held = fmax(sum.held, all[i].held);
        sum.written += all[i].written;
        if (i == 0)
            memcpy(sum.losses, all[i].losses, sizeof sum.losses);
        sum.replicas = sum.replicas && all[i].replicas;
        if (all[i].gradient > sum.gradient) {
            sum.gradient = all[i].gradient;
            memcpy(sum.worst, all[i].worst, sizeof sum.worst);
        }
    }
    free(all);
    return sum;
}

static bool good(const struct outcome *o, const struct limits *l, bool routed, double numbers)
{
    return o->loss <= l->loss && o->norm <= l->norm && o->router <= l->norm &&
           o->gradient <= (routed ? l->routed : l->gradient) && o->training <= l->training &&
           o->held <= l->training && o->replicas && o->written == numbers;
}

static void report(struct lab *lab, const struct test *t, const struct outcome *o, double numbers)
{
    bool fine = good(o, &lab->limits, lab_models[t->model].experts > 0, numbers);
    struct course *c = &lab->courses[lab->number++];
    c->name = t->name;
    memcpy(c->losses, o->losses, sizeof c->losses);
    lab->bad += !fine;
    printf("%sok %zu - %s (%s): loss %.1e norm %.1e router %.1e gradients %.1e (%s) %s steps %.1e "
           "evaluation %.1e%s%s\n",
           fine ? "" : "not ", lab->number, t->name, lab_names[t->model], o->loss, o->norm, o->router,
           o->gradient, o->worst, t->brief ? "one" : "ten", o->training, o->held,
           o->replicas ? "" : " REPLICAS DIFFER", o->written == numbers ? "" : " PARTS DO NOT COVER ALL");
    fflush(stdout);
}

static void run_test(struct lab *lab, const struct test *t)
{
    struct err err;
    struct mesh mesh;
    struct mesh_sizes sizes = {t->tp, t->pp, t->cp, t->dp, t->ep};
    struct job_spec spec = spec_of(t);
    struct engine_request request = {&spec, &mesh, lab->kernels, lab->backend.cuda != NULL};
    struct reference r = read_reference(lab->folder, t->model);
    struct outcome o = {.replicas = true};
    if (mesh_open(&mesh, lab->comm, &sizes, true, &err) != 0)
        fail(err.text);
    if (mesh.size.tp > 0) {
        struct engine *e = engine_new(&request, &err);
        if (!e)
            fail(err.text);
        store_init(engine_store(e), &spec.train.model, LAB_SEED);
        train(lab->kernels, e, &spec, &r, &o, t->brief ? 1 : LAB_STEPS);
        engine_free(e);
    }
    struct outcome all = gather(lab->comm, &o);
    if (comm_rank(comm_world(lab->comm)) == 0)
        report(lab, t, &all, (double)r.h.numbers);
    free(r.gradients);
}

static void run_tests(struct lab *lab, const struct test *tests, size_t n, const char *filter)
{
    for (size_t i = 0; i < n; i++)
        if ((!filter || strstr(tests[i].name, filter)) &&
            tests[i].tp * tests[i].pp * tests[i].cp * tests[i].dp <= comm_size(comm_world(lab->comm)))
            run_test(lab, &tests[i]);
}

static const struct course *course_of(const struct lab *lab, const char *name)
{
    for (size_t i = 0; i < lab->number; i++)
        if (lab->courses[i].name && strcmp(lab->courses[i].name, name) == 0)
            return &lab->courses[i];
    return NULL;
}

/* Rank 0: pairs of which both were run. */
static void compare_courses(struct lab *lab, const struct pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct course *a = course_of(lab, pairs[i].one), *b = course_of(lab, pairs[i].other);
        if (!a || !b)
            continue;
        bool same = memcmp(a->losses, b->losses, sizeof a->losses) == 0;
        lab->bad += !same;
        lab->courses[lab->number++].name = NULL;
        printf("%sok %zu - %s: bit by bit as %s\n", same ? "" : "not ", lab->number, b->name, a->name);
        for (size_t step = 0; step < LAB_STEPS && !same; step++)
            printf("# step %zu: %.17g and %.17g\n", step + 1, a->losses[step], b->losses[step]);
    }
}

/* With one stage and with two. */
static void check_outside(struct lab *lab)
{
    for (int pp = 1; pp <= 2; pp++) {
        struct err err;
        int noticed = outside_noticed(lab->comm, lab->kernels, pp, &err);
        if (noticed < 0)
            fail(err.text);
        bool fine = comm_max_int(comm_world(lab->comm), !noticed) == 0;
        lab->courses[lab->number++].name = NULL;
        lab->bad += !fine;
        if (comm_rank(comm_world(lab->comm)) == 0)
            printf("%sok %zu - a token outside of the vocabulary makes the loss NaN, pp %d\n",
                   fine ? "" : "not ", lab->number, pp);
    }
}

static void check_single(struct lab *lab, const char *filter)
{
    static char names[DEALT_MAX][64];
    static struct test more[DEALT_MAX];
    lab->limits = single_limits;
    run_tests(lab, single, COUNT(single), filter);
    run_tests(lab, more, dealt(more, names), filter);
    compare_courses(lab, single_pairs, COUNT(single_pairs));
}

static void check_rounded(struct lab *lab, const char *filter)
{
    lab->limits = rounded_limits;
    run_tests(lab, rounded, COUNT(rounded), filter);
    compare_courses(lab, rounded_pairs, COUNT(rounded_pairs));
}

static void check_odd(struct lab *lab, const char *filter)
{
    lab->limits = single_limits;
    run_tests(lab, odd, COUNT(odd), filter);
    if (!filter)
        check_outside(lab);
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

/* Those of the list that are named, for one step: an emulated GPU is slow. */
static void check_some(struct lab *lab, const struct test *tests, size_t n, const char *const *names,
                       const char *filter)
{
    for (size_t i = 0; i < n; i++) {
        struct test t = tests[i];
        t.brief = true;
        if (is_among(t.name, names))
            run_tests(lab, &t, 1, filter);
    }
}

static void check_gpu(struct lab *lab, const char *filter)
{
    lab->limits = single_limits;
    check_some(lab, single, COUNT(single), gpu_single, filter);
}

static void check_gpu_rounded(struct lab *lab, const char *filter)
{
    lab->limits = rounded_limits;
    check_some(lab, rounded, COUNT(rounded), gpu_rounded, filter);
}

static const struct {
    const char *name;
    enum kernel_type type;
    enum job_device device;
    void (*run)(struct lab *lab, const char *filter);
} sets[] = {{"fp32", KERNEL_FP32, DEVICE_CPU, check_single},
            {"bf16", KERNEL_BF16, DEVICE_CPU, check_rounded},
            {"odd", KERNEL_FP32, DEVICE_CPU, check_odd},
            {"gpu", KERNEL_FP32, DEVICE_GPU, check_gpu},
            {"gpu-bf16", KERNEL_BF16, DEVICE_GPU, check_gpu_rounded}};

static enum job_device device_of(size_t set)
{
    const char *asked = getenv("BELAY_TEST_DEVICE");
    return asked && strcmp(asked, "gpu") == 0 ? DEVICE_GPU : sets[set].device;
}

int main(int argc, char **argv)
{
    static struct lab lab;
    struct err err;
    size_t set = 0;
    while (argc > 2 && set < COUNT(sets) && strcmp(argv[2], sets[set].name) != 0)
        set++;
    if (argc < 3 || set == COUNT(sets))
        fail("usage: mesh_check FOLDER fp32|bf16|odd|gpu|gpu-bf16 [FILTER]");
    if (backend_open(device_of(set), &lab.backend, &err) != 0)
        fail(err.text);
    lab.comm = comm_open(backend_comm(&lab.backend), &err);
    lab.kernels = backend_kernels(&lab.backend, sets[set].type, &err);
    lab.folder = argv[1];
    if (!lab.comm || !lab.kernels)
        fail(err.text);
    sets[set].run(&lab, argc > 3 ? argv[3] : NULL);
    if (comm_rank(comm_world(lab.comm)) == 0)
        printf("1..%zu\n", lab.number);
    comm_close(lab.comm);
    backend_close(&lab.backend);
    return lab.bad > 0;
}
