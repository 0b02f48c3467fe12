/* inference: see inference.h. What a manifest says of sizes is not trusted before it has been checked here. */
#include "runtime/inference.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/convert/weights.h"
#include "runtime/host.h"
#include "runtime/stored.h"

#define LAYERS_MAX  65536
#define EXPERTS_MAX 65536

static int set_arch(const char *name, enum job_arch *out, struct err *err)
{
    for (int arch = ARCH_GPT2; arch <= ARCH_LLAMA; arch++) {
        *out = (enum job_arch)arch;
        if (strcmp(job_arch_name(*out), name) == 0)
            return 0;
    }
    return err_set(err, "it is of the architecture \"%s\", which this version does not know", name);
}

static int check_sizes(const struct manifest_model *m, struct err *err)
{
    const int64_t sizes[] = {m->layers, m->hidden, m->heads, m->kv_heads, m->ffn, m->vocab, m->context};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > INT_MAX / 4)
            return err_set(err, "a size of its model is %lld; it must be 1 to %d", (long long)sizes[i],
                           INT_MAX / 4);
    if (m->layers > LAYERS_MAX || m->experts > EXPERTS_MAX)
        return err_set(err, "its model has %lld layers and %lld experts; at most %d can be",
                       (long long)m->layers, (long long)m->experts, LAYERS_MAX);
    if (m->hidden % m->heads != 0 || m->heads % m->kv_heads != 0)
        return err_set(err, "its %lld heads and %lld kv_heads do not divide a width of %lld",
                       (long long)m->heads, (long long)m->kv_heads, (long long)m->hidden);
    if (m->experts < 0 || (m->experts > 0 && (m->top_k < 1 || m->top_k > m->experts)))
        return err_set(err, "its tokens go to %lld of %lld experts", (long long)m->top_k,
                       (long long)m->experts);
    return 0;
}

static int set_config(struct job_model *c, const struct manifest_model *m, struct err *err)
{
    if (set_arch(m->arch, &c->arch, err) != 0 || check_sizes(m, err) != 0)
        return -1;
    c->layers = m->layers;
    c->hidden = m->hidden;
    c->heads = m->heads;
    c->kv_heads = m->kv_heads;
    c->ffn = m->ffn;
    c->vocab = m->vocab;
    c->context = m->context;
    c->experts = m->experts;
    c->top_k = m->top_k;
    c->tied = m->tied;
    c->norm_eps = m->norm_eps;
    c->rope_theta = m->rope_theta;
    return 0;
}

static int open_tokenizer(struct inference *in, const struct inference_request *request,
                          const struct weights *weights, struct err *err)
{
    in->tokenizer = weights_open_tokenizer(weights, request->tokenizer, err);
    if (!in->tokenizer)
        return request->tokenizer ? -1 : err_prefix(err, "its tokenizer (--tokenizer NAME takes another)");
    if (tokenizer_vocab(in->tokenizer) <= (size_t)in->config.vocab)
        return 0;
    return err_set(
        err, "the tokenizer %s has %zu tokens, the model knows %lld; give its own by --tokenizer NAME",
        tokenizer_name(in->tokenizer), tokenizer_vocab(in->tokenizer), (long long)in->config.vocab);
}

static int join(struct inference *in, struct err *err)
{
    struct mesh_sizes one = {1, 1, 1, 1, 1};
    in->comm = comm_open(backend_comm(&in->backend), err);
    if (!in->comm)
        return -1;
    if (comm_size(comm_world(in->comm)) > 1)
        return err_set(err, "this command runs in one process; start it without mpirun");
    return mesh_open(&in->mesh, in->comm, &one, false, err);
}

static int make_room(struct inference *in, const struct inference_request *request, struct err *err)
{
    (void)host_set_threads(1);
    if (backend_open(request->device, &in->backend, err) != 0)
        return -1;
    in->kernels = backend_kernels(&in->backend, request->type, err);
    if (!in->kernels || join(in, err) != 0)
        return -1;
    layout_make(&in->layout, &(struct layout_request){.model = &in->config,
                                                      .size = in->mesh.size,
                                                      .piece_layers = &in->config.layers,
                                                      .virtual_stages = 1});
    struct store_request store = {
        .layout = &in->layout, .mesh = &in->mesh, .kernels = in->kernels, .inference = true};
    in->store = store_new(&store, err);
    return in->store ? 0 : -1;
}

static int load(const struct inference *in, const struct weights *weights, struct err *err)
{
    size_t count;
    if (weights_verify(weights, 0, 1, err) != 0)
        return -1;
    struct checkpoint_array *arrays = stored_parameters(in->store, &in->layout, &count);
    int rc = weights_load(weights, arrays, count, err);
    free(arrays);
    if (rc == 0)
        store_spread(in->store);
    return rc;
}

int inference_open(struct inference *inference, const struct inference_request *request, struct err *err)
{
    struct inference *in = inference;
    *in = (struct inference){.step = -1};
    struct weights *weights = weights_open(request->path, err);
    if (!weights)
        return -1;
    const struct manifest_state *state = weights_state(weights);
    in->path = str_dup(weights_path(weights));
    in->step = state ? state->step : -1;
    int rc = set_config(&in->config, weights_model(weights), err);
    if (rc == 0)
        rc = open_tokenizer(in, request, weights, err);
    if (rc == 0)
        rc = make_room(in, request, err);
    if (rc == 0)
        rc = load(in, weights, err);
    weights_close(weights);
    return rc == 0 ? 0 : err_prefix(err, "%s", in->path);
}

void inference_close(struct inference *inference)
{
    store_free(inference->store);
    layout_free(&inference->layout);
    if (inference->comm)
        comm_close(inference->comm);
    backend_close(&inference->backend);
    tokenizer_free(inference->tokenizer);
    free(inference->path);
    *inference = (struct inference){.step = -1};
}

struct model_request inference_request(const struct inference *inference)
{
    return (struct model_request){.config = &inference->config,
                                  .mesh = &inference->mesh,
                                  .kernels = inference->kernels,
                                  .layout = &inference->layout,
                                  .units = store_units(inference->store),
                                  .hooks = store_hooks(inference->store),
                                  .slots = 1,
                                  .inference = true};
}
