/* gpus: the few NVML calls needed, declared here because the header comes with the CUDA toolkit, which a node need not have.
 *
 * Numbers follow NVML's order (PCI bus), the one CUDA_VISIBLE_DEVICES means under CUDA_DEVICE_ORDER=PCI_BUS_ID. */
#include "agent/gpus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/mem.h"

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *n);
    int (*handle)(unsigned index, void **device);
    int (*name)(void *device, char *out, unsigned size);
    int (*uuid)(void *device, char *out, unsigned size);
    int (*memory)(void *device, struct nvml_memory *out);
};

static int load(struct nvml *nvml, const char *library)
{
    const struct {
        const char *name;
        void **to;
    } symbols[] = {
        {"nvmlInit_v2", (void **)&nvml->init},
        {"nvmlShutdown", (void **)&nvml->shutdown},
        {"nvmlDeviceGetCount_v2", (void **)&nvml->count},
        {"nvmlDeviceGetHandleByIndex_v2", (void **)&nvml->handle},
        {"nvmlDeviceGetName", (void **)&nvml->name},
        {"nvmlDeviceGetUUID", (void **)&nvml->uuid},
        {"nvmlDeviceGetMemoryInfo", (void **)&nvml->memory},
    };
    nvml->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return -1; /* no driver: no GPUs, nothing to say */
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        *symbols[i].to = dlsym(nvml->library, symbols[i].name);
        if (!*symbols[i].to) {
            log_warn("%s lacks %s; this node's GPUs are not used. Update the NVIDIA driver", library,
                     symbols[i].name);
            dlclose(nvml->library);
            return -1;
        }
    }
    return 0;
}

static int read_gpu(const struct nvml *nvml, unsigned index, struct link_gpu *out)
{
    void *device;
    struct nvml_memory memory = {0};
    if (nvml->handle(index, &device) != 0 || nvml->memory(device, &memory) != 0)
        return -1;
    out->index = index;
    out->memory = (int64_t)memory.total;
    if (nvml->name(device, out->name, sizeof out->name) != 0)
        snprintf(out->name, sizeof out->name, "NVIDIA GPU");
    if (nvml->uuid(device, out->uuid, sizeof out->uuid) != 0)
        out->uuid[0] = '\0';
    return 0;
}

static void read_all(const struct nvml *nvml, struct link_gpu **gpus, size_t *n)
{
    unsigned count = 0;
    int rc = nvml->count(&count);
    if (rc != 0 || count == 0) {
        if (rc != 0)
            log_warn("NVML cannot count the GPUs (error %d); none is used. Try nvidia-smi", rc);
        return;
    }
    count = count < GPUS_MAX ? count : GPUS_MAX;
    *gpus = mem_zero(count, sizeof **gpus);
    for (unsigned i = 0; i < count; i++) {
        if (read_gpu(nvml, i, &(*gpus)[*n]) == 0)
            (*n)++;
        else
            log_warn("GPU %u cannot be asked through NVML and is not used; try nvidia-smi -i %u", i, i);
    }
}

void gpus_read(const char *library, struct link_gpu **gpus, size_t *n)
{
    struct nvml nvml = {0};
    *gpus = NULL;
    *n = 0;
    if (load(&nvml, library) < 0)
        return;
    int rc = nvml.init();
    if (rc == 0) {
        read_all(&nvml, gpus, n);
        (void)nvml.shutdown(); /* nothing to do about a failure */
    } else {
        log_warn("NVML does not start (error %d); this node's GPUs are not used. Try nvidia-smi", rc);
    }
    dlclose(nvml.library);
}
