/* mesh_reference FOLDER: trains each model of the lab in double on one rank, and writes what a mesh must come to. */
#include "tests/mesh/lab.h"

static void fail(const char *text)
{
    fprintf(stderr, "mesh_reference: %s\n", text);
    exit(1);
}

static void write_gradients(FILE *out, struct engine *e)
{
    const struct layout *l = engine_layout(e);
    for (size_t t = 0; t < l->n_tensors; t++) {
        struct store_range r = store_owned(engine_store(e), t, STORE_GRADIENT);
        size_t count = l->tensors[t].shape[0] * l->tensors[t].shape[1];
        if (r.begin != 0 || r.end < count || fwrite(r.data, sizeof(double), count, out) != count)
            fail("gradients cannot be written");
    }
}

static void reference(const char *folder, int model, struct comm *comm, const struct kernels *k)
{
    struct err err;
    struct mesh mesh;
    struct mesh_sizes one = {1, 1, 1, 1, 1};
    struct job_spec spec = lab_spec(model);
    struct engine_request request = {.spec = &spec, .mesh = &mesh, .kernels = k};
    struct engine_source source = {&spec.train.model, lab_fill};
    struct lab_header h = {.numbers = layout_parameters(&spec.train.model)};
    char *path = lab_path(folder, model);
    FILE *out = fopen(path, "wb");
    if (mesh_open(&mesh, comm, &one, false, &err) != 0)
        fail(err.text);
    struct engine *e = engine_new(&request, &err);
    if (!e || !out)
        fail(err.text);
    store_init(engine_store(e), &spec.train.model, LAB_SEED);
    if (fseek(out, sizeof h, SEEK_SET) != 0)
        fail("cannot seek");
    for (int64_t step = 1; step <= LAB_STEPS; step++) {
        struct engine_result r;
        if (engine_load(e, &source, (uint64_t)(step - 1) * LAB_GLOBAL, &err) != 0)
            fail(err.text);
        engine_gradients(e, step, &r);
        h.losses[step - 1] = r.loss;
        if (step == 1) {
            h.loss = r.loss;
            h.router = r.router;
            h.norm = r.norm;
            write_gradients(out, e);
        }
        struct kernel_adamw adamw = lab_adamw(LAB_LR, step, r.norm);
        engine_update(e, &adamw);
    }
    if (engine_evaluate(e, &source, 100000, 13, &h.held, &err) != 0)
        fail(err.text);
    if (fseek(out, 0, SEEK_SET) != 0 || fwrite(&h, sizeof h, 1, out) != 1 || fclose(out) != 0)
        fail("the reference cannot be written");
    printf("%-10s loss %.9f  router %.9f  norm %.9f  loss at the end %.9f\n", lab_names[model], h.loss,
           h.router, h.norm, h.losses[LAB_STEPS - 1]);
    free(path);
    engine_free(e);
}

int main(int argc, char **argv)
{
    struct err err;
    if (argc != 2)
        fail("usage: mesh_reference FOLDER");
    struct comm *comm = comm_open(NULL, &err);
    const struct kernels *k = kernels_cpu(KERNEL_FP32, &err);
    if (!comm || !k)
        fail(err.text);
    for (int m = 0; m < LAB_MODELS; m++)
        reference(argv[1], m, comm, k);
    comm_close(comm);
    return 0;
}
