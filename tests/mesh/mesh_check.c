/* mesh_check FOLDER [FILTER]: under mpirun with 8 ranks, trains the models of the lab in float on many meshes, and holds loss, gradient norm, every
 * gradient tensor, ten steps of losses and an evaluation against mesh_reference's files. Prints TAP on rank 0. */
#include <math.h>

#include "tests/mesh/lab.h"

#define LOSS     1e-6 /* loss and gradient norm, relative */
#define GRADIENT 1e-5 /* each element, relative to the largest of its tensor */
#define TRAINING 1e-4 /* losses of ten steps, relative */

struct test {
    const char *name;
    int model;
    int tp, pp, cp, dp, ep, zero;
    int micro;
    bool sequence;
    enum job_pipeline schedule;
    int virtual_stages;
    enum job_recompute recompute;
};

#define PLAIN PIPELINE_1F1B, 1, RECOMPUTE_NONE
#define FULL  PIPELINE_1F1B, 1, RECOMPUTE_FULL
#define SOME  PIPELINE_1F1B, 1, RECOMPUTE_SELECTIVE
#define WAVE  PIPELINE_INTERLEAVED, 2, RECOMPUTE_NONE
#define ZB    PIPELINE_ZERO_BUBBLE, 1, RECOMPUTE_NONE

static const struct test tests[] = {
    /* name, model, tp pp cp dp ep zero, micro, sequence, schedule */
    {"one rank", LAB_GPT2, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, llama", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, experts", LAB_MOE, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, capacity", LAB_CAPACITY, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, dropout", LAB_DROPOUT, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"one rank, 7 layers", LAB_SEVEN, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"accumulation 4 x 4", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, PLAIN},
    {"accumulation 2 x 8", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 2, false, PLAIN},
    {"recompute full", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, FULL},
    {"recompute selective", LAB_GPT2, 1, 1, 1, 1, 1, 0, 4, false, SOME},
    {"recompute full, llama", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 16, false, FULL},
    {"recompute selective, llama", LAB_LLAMA, 1, 1, 1, 1, 1, 0, 16, false, SOME},
    {"recompute full, experts", LAB_MOE, 1, 1, 1, 1, 1, 0, 8, false, FULL},
    {"recompute selective, experts", LAB_MOE, 1, 1, 1, 1, 1, 0, 8, false, SOME},
    {"recompute full, dropout", LAB_DROPOUT, 1, 1, 1, 1, 1, 0, 8, false, FULL},
    {"dp2", LAB_GPT2, 1, 1, 1, 2, 1, 0, 8, false, PLAIN},
    {"dp4", LAB_LLAMA, 1, 1, 1, 4, 1, 0, 2, false, PLAIN},
    {"dp4 zero1", LAB_GPT2, 1, 1, 1, 4, 1, 1, 4, false, PLAIN},
    {"dp4 zero2", LAB_GPT2, 1, 1, 1, 4, 1, 2, 2, false, PLAIN},
    {"dp4 zero3", LAB_GPT2, 1, 1, 1, 4, 1, 3, 2, false, PLAIN},
    {"dp2 zero1, accumulation", LAB_LLAMA, 1, 1, 1, 2, 1, 1, 2, false, PLAIN},
    {"dp2 zero2, accumulation", LAB_LLAMA, 1, 1, 1, 2, 1, 2, 2, false, PLAIN},
    {"dp2 zero3, accumulation", LAB_LLAMA, 1, 1, 1, 2, 1, 3, 2, false, PLAIN},
    {"dp4 zero3 recompute full", LAB_LLAMA, 1, 1, 1, 4, 1, 3, 4, false, FULL},
    {"dp4 zero3 experts", LAB_MOE, 1, 1, 1, 4, 1, 3, 4, false, PLAIN},
    {"tp2", LAB_GPT2, 2, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp4", LAB_GPT2, 4, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp2 llama", LAB_LLAMA, 2, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp4 llama", LAB_LLAMA, 4, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp2 sp", LAB_GPT2, 2, 1, 1, 1, 1, 0, 16, true, PLAIN},
    {"tp4 sp", LAB_GPT2, 4, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"tp4 sp llama", LAB_LLAMA, 4, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"tp2 dropout", LAB_DROPOUT, 2, 1, 1, 1, 1, 0, 8, false, PLAIN},
    {"tp4 sp dropout", LAB_DROPOUT, 4, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"tp2 sp recompute full", LAB_GPT2, 2, 1, 1, 1, 1, 0, 8, true, FULL},
    {"tp2 sp recompute selective", LAB_LLAMA, 2, 1, 1, 1, 1, 0, 8, true, SOME},
    {"pp2 1f1b", LAB_GPT2, 1, 2, 1, 1, 1, 0, 4, false, PLAIN},
    {"pp4 1f1b", LAB_GPT2, 1, 4, 1, 1, 1, 0, 2, false, PLAIN},
    {"pp2 interleaved", LAB_GPT2, 1, 2, 1, 1, 1, 0, 4, false, WAVE},
    {"pp2 interleaved, llama", LAB_LLAMA, 1, 2, 1, 1, 1, 0, 2, false, WAVE},
    {"pp2 zero-bubble", LAB_GPT2, 1, 2, 1, 1, 1, 0, 2, false, ZB},
    {"pp4 zero-bubble", LAB_GPT2, 1, 4, 1, 1, 1, 0, 2, false, ZB},
    {"pp4 zero-bubble, llama", LAB_LLAMA, 1, 4, 1, 1, 1, 0, 4, false, ZB},
    {"pp4 of 7 layers", LAB_SEVEN, 1, 4, 1, 1, 1, 0, 4, false, PLAIN},
    {"pp4 recompute full", LAB_GPT2, 1, 4, 1, 1, 1, 0, 2, false, FULL},
    {"pp4 one micro-batch", LAB_LLAMA, 1, 4, 1, 1, 1, 0, 16, false, PLAIN},
    {"pp2 dropout", LAB_DROPOUT, 1, 2, 1, 1, 1, 0, 4, false, PLAIN},
    {"cp2", LAB_GPT2, 1, 1, 2, 1, 1, 0, 16, false, PLAIN},
    {"cp4", LAB_GPT2, 1, 1, 4, 1, 1, 0, 8, false, PLAIN},
    {"cp2 llama", LAB_LLAMA, 1, 1, 2, 1, 1, 0, 4, false, PLAIN},
    {"cp4 llama", LAB_LLAMA, 1, 1, 4, 1, 1, 0, 16, false, PLAIN},
    {"cp8 llama", LAB_LLAMA, 1, 1, 8, 1, 1, 0, 16, false, PLAIN},
    {"cp4 dropout", LAB_DROPOUT, 1, 1, 4, 1, 1, 0, 8, false, PLAIN},
    {"cp2 capacity", LAB_CAPACITY, 1, 1, 2, 1, 1, 0, 8, false, PLAIN},
    {"cp4 recompute full", LAB_LLAMA, 1, 1, 4, 1, 1, 0, 8, false, FULL},
    {"ep2", LAB_MOE, 1, 1, 1, 2, 2, 0, 8, false, PLAIN},
    {"ep4", LAB_MOE, 1, 1, 1, 4, 4, 0, 4, false, PLAIN},
    {"ep2 of dp4", LAB_MOE, 1, 1, 1, 4, 2, 0, 4, false, PLAIN},
    {"ep4 capacity", LAB_CAPACITY, 1, 1, 1, 4, 4, 0, 2, false, PLAIN},
    {"ep2 zero1", LAB_MOE, 1, 1, 1, 4, 2, 1, 4, false, PLAIN},
    {"ep2 zero3", LAB_MOE, 1, 1, 1, 4, 2, 3, 2, false, PLAIN},
    {"tp2 experts", LAB_MOE, 2, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"tp2 sp experts", LAB_MOE, 2, 1, 1, 1, 1, 0, 8, true, PLAIN},
    {"ep2 recompute full", LAB_MOE, 1, 1, 1, 2, 2, 0, 4, false, FULL},
    /* eight ranks, mixed */
    {"tp2 pp2 dp2", LAB_GPT2, 2, 2, 1, 2, 1, 0, 2, false, PLAIN},
    {"tp2 sp pp2 dp2 zero1", LAB_GPT2, 2, 2, 1, 2, 1, 1, 2, true, PLAIN},
    {"tp2 sp pp2 dp2 zero2", LAB_LLAMA, 2, 2, 1, 2, 1, 2, 2, true, PLAIN},
    {"tp2 sp pp2 dp2 zero3", LAB_GPT2, 2, 2, 1, 2, 1, 3, 4, true, PLAIN},
    {"tp2 cp2 dp2", LAB_LLAMA, 2, 1, 2, 2, 1, 0, 4, false, PLAIN},
    {"tp2 sp cp2 dp2 zero3", LAB_GPT2, 2, 1, 2, 2, 1, 3, 4, true, PLAIN},
    {"pp2 ep2 dp2 cp2", LAB_MOE, 1, 2, 2, 2, 2, 0, 4, false, PLAIN},
    {"pp2 ep4 dp4", LAB_MOE, 1, 2, 1, 4, 4, 0, 2, false, PLAIN},
    {"tp2 pp2 cp2", LAB_LLAMA, 2, 2, 2, 1, 1, 0, 4, true, PLAIN},
    {"tp2 pp2 cp2 interleaved", LAB_GPT2, 2, 2, 2, 1, 1, 0, 4, true, WAVE},
    {"tp4 sp dp2 zero1", LAB_LLAMA, 4, 1, 1, 2, 1, 1, 4, true, PLAIN},
    {"pp4 dp2 zero-bubble zero2", LAB_LLAMA, 1, 4, 1, 2, 1, 2, 2, false, ZB},
    {"pp2 dp4 interleaved zero3", LAB_GPT2, 1, 2, 1, 4, 1, 3, 2, false, WAVE},
    {"tp2 ep2 dp4 zero1", LAB_MOE, 2, 1, 1, 4, 2, 1, 4, true, PLAIN},
    {"tp2 pp2 ep2 zero-bubble", LAB_MOE, 2, 2, 1, 2, 2, 0, 2, true, ZB},
    {"cp2 ep4 dp4", LAB_CAPACITY, 1, 1, 2, 4, 4, 0, 4, false, PLAIN},
    {"cp4 dp2 zero2", LAB_LLAMA, 1, 1, 4, 2, 1, 2, 4, false, PLAIN},
    {"tp2 pp2 dp2 dropout", LAB_DROPOUT, 2, 2, 1, 2, 1, 1, 4, true, PLAIN},
    {"dp8 zero3", LAB_SEVEN, 1, 1, 1, 8, 1, 3, 2, false, PLAIN},
};
#undef FULL
#define COUNT (sizeof tests / sizeof tests[0])

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
static double compare_tensor(struct engine *e, size_t t, const struct reference *r, const struct job_model *m)
{
    const struct layout_tensor *x = &engine_layout(e)->tensors[t];
    struct store_range own = store_owned(engine_store(e), t, STORE_GRADIENT);
    const double *whole = whole_of(r, m, x->name);
    double largest = 1e-3 * r->h.norm, worst = 0;
    for (size_t i = 0; i < x->shape[0] * x->shape[1]; i++)
        largest = fabs(whole[i]) > largest ? fabs(whole[i]) : largest;
    for (size_t i = own.begin; i < own.end; i++) {
        size_t row = x->from[0] + i / x->columns, column = x->from[1] + i % x->columns;
        double expected = row < x->to[0] ? whole[row * x->shape[1] + column] : 0;
        double d = fabs((double)own.data[i - own.begin] - expected);
        worst = d > worst || d != d ? d : worst;
    }
    return worst / largest;
}

struct outcome {
    double loss, norm, router, gradient, training, held;
    double written; /* elements that a checkpoint would hold */
    bool replicas;
    char worst[LAYOUT_NAME_BYTES];
};

static double relative(double a, double b)
{
    double d = fabs(a - b) / (fabs(b) > 1e-30 ? fabs(b) : 1);
    return d == d ? d : 1e30;
}

static void compare_gradients(struct engine *e, const struct reference *r, const struct job_model *m,
                              struct outcome *o)
{
    const struct layout *l = engine_layout(e);
    for (size_t t = 0; t < l->n_tensors; t++) {
        const struct layout_tensor *x = &l->tensors[t];
        double d = compare_tensor(e, t, r, m);
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

static void train(struct engine *e, const struct job_spec *spec, const struct reference *r, struct outcome *o)
{
    struct engine_source source = {(void *)&spec->train.model, lab_fill};
    struct err err;
    o->replicas = store_replicas_equal(engine_store(e));
    for (int64_t step = 1; step <= LAB_STEPS; step++) {
        struct engine_result x;
        if (engine_load(e, &source, (uint64_t)(step - 1) * LAB_GLOBAL, &err) != 0)
            fail(err.text);
        engine_gradients(e, step, &x);
        if (step == 1) {
            o->loss = relative(x.loss, r->h.loss);
            o->norm = relative(x.norm, r->h.norm);
            o->router = relative(x.router, r->h.router);
            compare_gradients(e, r, &spec->train.model, o);
        }
        double d = relative(x.loss, r->h.losses[step - 1]);
        o->training = d > o->training ? d : o->training;
        struct kernel_adamw adamw = lab_adamw(LAB_LR, step, x.norm);
        engine_update(e, &adamw);
        o->replicas = store_replicas_equal(engine_store(e)) && o->replicas;
    }
    double held = 0;
    if (engine_evaluate(e, &source, 100000, 13, &held, &err) != 0)
        fail(err.text);
    o->held = relative(held, r->h.held);
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
        sum.replicas = sum.replicas && all[i].replicas;
        if (all[i].gradient > sum.gradient) {
            sum.gradient = all[i].gradient;
            memcpy(sum.worst, all[i].worst, sizeof sum.worst);
        }
    }
    free(all);
    return sum;
}

static bool report(size_t number, const struct test *t, const struct outcome *o, double numbers)
{
    bool good = o->loss <= LOSS && o->norm <= LOSS && o->router <= LOSS && o->gradient <= GRADIENT &&
                o->training <= TRAINING && o->held <= TRAINING && o->replicas && o->written == numbers;
    printf("%sok %zu - %s (%s): loss %.1e norm %.1e router %.1e gradients %.1e (%s) ten steps %.1e "
           "evaluation %.1e%s%s\n",
           good ? "" : "not ", number, t->name, lab_names[t->model], o->loss, o->norm, o->router, o->gradient,
           o->worst, o->training, o->held, o->replicas ? "" : " REPLICAS DIFFER",
           o->written == numbers ? "" : " PARTS DO NOT COVER ALL");
    fflush(stdout);
    return good;
}

static bool run_test(size_t number, const struct test *t, struct comm *comm, const struct kernels *k,
                     const char *folder)
{
    struct err err;
    struct mesh mesh;
    struct mesh_sizes sizes = {t->tp, t->pp, t->cp, t->dp, t->ep};
    struct job_spec spec = spec_of(t);
    struct engine_request request = {&spec, &mesh, k};
    struct reference r = read_reference(folder, t->model);
    struct outcome o = {.replicas = true};
    if (mesh_open(&mesh, comm, &sizes, true, &err) != 0)
        fail(err.text);
    if (mesh.size.tp > 0) {
        struct engine *e = engine_new(&request, &err);
        if (!e)
            fail(err.text);
        store_init(engine_store(e), &spec.train.model, LAB_SEED);
        train(e, &spec, &r, &o);
        engine_free(e);
    }
    struct outcome all = gather(comm, &o);
    bool good = true;
    if (comm_rank(comm_world(comm)) == 0)
        good = report(number, t, &all, (double)r.h.numbers);
    free(r.gradients);
    return good;
}

int main(int argc, char **argv)
{
    struct err err;
    struct comm *comm = comm_open(&err);
    const struct kernels *k = kernels_cpu(KERNEL_FP32, &err);
    size_t bad = 0, number = 0;
    if (!comm || !k || argc < 2)
        fail(comm && k ? "usage: mesh_check FOLDER [FILTER]" : err.text);
    for (size_t i = 0; i < COUNT; i++)
        if ((argc < 3 || strstr(tests[i].name, argv[2])) &&
            tests[i].tp * tests[i].pp * tests[i].cp * tests[i].dp <= comm_size(comm_world(comm)))
            bad += !run_test(++number, &tests[i], comm, k, argv[1]);
    if (comm_rank(comm_world(comm)) == 0)
        printf("1..%zu\n", number);
    comm_close(comm);
    return bad > 0;
}
