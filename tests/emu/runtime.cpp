/* runtime: the devices that this host pretends to have (cuda_runtime.h names the settings), and errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "tests/emu/machine.h"

#define MULTIPROCESSORS 2
#define CLOCK_KHZ       1000000

namespace emu
{
static thread_local cudaError_t last_error;
static thread_local int current; /* among those that are visible */

struct settings {
    std::vector<int> visible; /* devices' numbers */
    size_t memory;
    int major, minor;
};

/* The numbers of CUDA_VISIBLE_DEVICES up to the first that is no device; all devices when it is not set. */
static std::vector<int> visible_devices(int count)
{
    std::vector<int> out;
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; !list && i < count; i++)
        out.push_back(i);
    while (list && *list) {
        char *end;
        long number = strtol(list, &end, 10);
        if (end == list || number < 0 || number >= count || (*end && *end != ','))
            break;
        out.push_back((int)number);
        list = *end ? end + 1 : end;
    }
    return out;
}

static settings read_settings()
{
    const char *devices = getenv("EMU_DEVICES"), *memory = getenv("EMU_MEMORY"),
               *capability = getenv("EMU_CAPABILITY");
    settings s;
    s.visible = visible_devices(devices ? atoi(devices) : 1);
    s.memory = memory ? (size_t)strtoull(memory, NULL, 10) : (size_t)2 << 30;
    s.major = 8;
    s.minor = 0;
    if (capability && sscanf(capability, "%d.%d", &s.major, &s.minor) != 2)
        die("EMU_CAPABILITY is not like 8.0", capability, 0);
    return s;
}

static const settings &set()
{
    static const settings *s = new settings(read_settings());
    return *s;
}

cudaError_t report(cudaError_t rc)
{
    if (rc != cudaSuccess)
        last_error = rc;
    return rc;
}

static bool is_device(int device)
{
    return device >= 0 && device < (int)set().visible.size();
}

int device_number()
{
    return is_device(current) ? set().visible[(size_t)current] : -1;
}

size_t device_memory()
{
    return set().memory;
}

/* CUDA C++ programming guide, table of technical specifications by compute capability. */
static size_t shared_of_multiprocessor()
{
    const settings &s = set();
    if (s.major >= 9)
        return 228 << 10;
    return s.major == 8 && s.minor != 0 && s.minor != 7 ? 100 << 10 : 164 << 10;
}

size_t device_shared_limit()
{
    return shared_of_multiprocessor() - 1024;
}
} // namespace emu

using namespace emu;

extern "C" {
cudaError_t cudaGetLastError(void)
{
    cudaError_t rc = last_error;
    last_error = cudaSuccess;
    return rc;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

#define EMU_ERROR_NAME(name, value, text)                                                                    \
    case name:                                                                                               \
        return #name;
#define EMU_ERROR_TEXT(name, value, text)                                                                    \
    case name:                                                                                               \
        return text;

const char *cudaGetErrorName(cudaError_t rc)
{
    switch (rc) {
        EMU_ERRORS(EMU_ERROR_NAME)
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t rc)
{
    switch (rc) {
        EMU_ERRORS(EMU_ERROR_TEXT)
    }
    return "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = (int)set().visible.size();
    return report(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    if (!is_device(device))
        return report(set().visible.empty() ? cudaErrorNoDevice : cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return report(device_number() < 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    if (!is_device(device))
        return report(cudaErrorInvalidDevice);
    int number = set().visible[(size_t)device];
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "Emulated GPU");
    memcpy(out->uuid.bytes, "belay-emu-gpu", 13);
    out->uuid.bytes[14] = (char)(number >> 8);
    out->uuid.bytes[15] = (char)number;
    out->totalGlobalMem = device_memory();
    out->sharedMemPerBlock = 48 << 10;
    out->sharedMemPerBlockOptin = device_shared_limit();
    out->sharedMemPerMultiprocessor = shared_of_multiprocessor();
    out->major = set().major;
    out->minor = set().minor;
    out->multiProcessorCount = MULTIPROCESSORS;
    out->warpSize = 32;
    out->maxThreadsPerBlock = 1024;
    out->maxThreadsPerMultiProcessor = 2048;
    out->regsPerBlock = 65536;
    out->l2CacheSize = 4 << 20;
    out->memoryBusWidth = 64;
    out->pciBusID = number + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp p;
    cudaError_t rc = cudaGetDeviceProperties(&p, device);
    if (rc != cudaSuccess)
        return rc;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = p.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)p.sharedMemPerBlock;
        break;
    case cudaDevAttrWarpSize:
        *value = p.warpSize;
        break;
    case cudaDevAttrClockRate:
        *value = CLOCK_KHZ;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = CLOCK_KHZ;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = p.memoryBusWidth;
        break;
    case cudaDevAttrL2CacheSize:
        *value = p.l2CacheSize;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = p.maxThreadsPerMultiProcessor;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)p.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)p.sharedMemPerBlockOptin;
        break;
    default:
        return report(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    return cudaDeviceSynchronize();
}
}
