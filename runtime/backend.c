/* backend: see backend.h. The library is searched for beside the program and never unloaded: those of CUDA do not bear it. */
#include "runtime/backend.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "planner/device.h"
#include "runtime/comm/comm.h"
#include "runtime/host.h"

#define LIBRARY "libbelay_cuda.so"

/* Where the library is, from the program's folder: as built, and as installed. */
static const char *const places[] = {"../lib", "../lib/belay"};

/* ---- loading ---- */

/* The library's path, fresh; NULL when there is none beside the program. */
static char *beside_program(void)
{
    char program[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    if (len <= 0)
        return NULL;
    program[len] = '\0';
    char *slash = strrchr(program, '/');
    *(slash ? slash : program) = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = str_printf("%s/%s/" LIBRARY, program, places[i]);
        if (access(path, R_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

static const struct cuda_backend *load_from(const char *path, struct err *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct cuda_backend *cuda = library ? dlsym(library, CUDA_BACKEND_SYMBOL) : NULL;
    if (!cuda) {
        err_set(err, "the CUDA backend cannot be loaded (%s)", dlerror());
        return NULL;
    }
    if (cuda->version == CUDA_BACKEND_VERSION)
        return cuda;
    err_set(err, "%s is of another version than this program (%d, not %d): build or install both together",
            path, cuda->version, CUDA_BACKEND_VERSION);
    return NULL;
}

static const struct cuda_backend *load(struct err *err)
{
    const char *given = getenv("BELAY_CUDA_LIBRARY");
    char *path = given && *given ? str_dup(given) : beside_program();
    const struct cuda_backend *cuda = path ? load_from(path, err) : NULL;
    if (!path)
        err_set(err,
                "this program came without its CUDA backend, " LIBRARY ", in %s or %s beside it: build it "
                "where nvcc is found (make), or name the file by BELAY_CUDA_LIBRARY",
                places[0], places[1]);
    free(path);
    return cuda;
}

/* ---- choosing ---- */

/* Loading takes CUDA's libraries, half a GB, a tenth of a second and more: only where there may be a GPU. A library that was named is one to try. */
static bool worth_a_look(void)
{
    const char *given = getenv("BELAY_CUDA_LIBRARY");
    return (given && *given) || access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

/* Several visible GPUs are shared out; with one, the launcher has chosen (or they share it). */
static int choose(int devices)
{
    return comm_env_local_rank() % devices;
}

static int take(const struct cuda_backend *cuda, int devices, struct backend *out, struct err *err)
{
    out->number = choose(devices);
    if (cuda->open(out->number, comm_env_rank(), &out->device, err) != 0)
        return -1; /* the sentence names the GPU */
    out->cuda = cuda;
    out->comm = (struct comm_device){.memory = cuda->memory, .direct = cuda->transport};
    (void)snprintf(out->comm.id, sizeof out->comm.id, "%s", out->device.id); /* of one size */
    return 0;
}

static int open_gpu(struct backend *out, struct err *err)
{
    const struct cuda_backend *cuda = load(err);
    int devices = cuda ? cuda->devices(err) : 0;
    return devices > 0 ? take(cuda, devices, out, err) : -1;
}

/* Has whoever started this process hidden the GPUs from it? */
static bool hidden(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible && (!*visible || strcmp(visible, "-1") == 0);
}

/* No GPU is nothing to speak of, a GPU that is left alone is: because of its driver, say. */
static int open_any(struct backend *out, struct err *err)
{
    if (!worth_a_look() || hidden())
        return 0;
    const struct cuda_backend *cuda = load(err);
    int devices = cuda ? cuda->devices(err) : 0;
    if (devices > 0)
        return take(cuda, devices, out, err);
    if (comm_env_local_rank() == 0) /* of each node: they may differ */
        log_warn("computing on the CPU, though there seems to be a GPU: %s", err->text);
    return 0;
}

int backend_open(enum job_device wanted, struct backend *out, struct err *err)
{
    *out = (struct backend){.cuda = NULL};
    if (wanted == DEVICE_CPU)
        return 0;
    if (wanted == DEVICE_AUTO)
        return open_any(out, err);
    if (open_gpu(out, err) == 0)
        return 0;
    return err_prefix(err, "no GPU to compute on (device: cpu takes the CPU)");
}

void backend_close(struct backend *backend)
{
    if (backend->cuda)
        backend->cuda->close();
    backend->cuda = NULL;
}

/* ---- what it gives ---- */

const struct kernels *backend_kernels(const struct backend *backend, enum kernel_type type, struct err *err)
{
    return backend->cuda ? backend->cuda->kernels(type, err) : kernels_cpu(type, err);
}

const struct comm_device *backend_comm(const struct backend *backend)
{
    return backend->cuda ? &backend->comm : NULL;
}

double backend_peak(const struct backend *backend, const struct kernels *k)
{
    const struct plan_device *known = backend->cuda ? plan_device_of_maker(backend->device.name) : NULL;
    if (known)
        return k->type == KERNEL_BF16 ? known->bf16 : known->fp32;
    return host_gemm_peak(k, backend->cuda != NULL);
}
