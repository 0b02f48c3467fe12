/* backend: the one symbol of libbelay_cuda.so. */
#include "kernels/cuda/backend.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

extern "C" {
#include "common/log.h"
}

/* Absent from a build without NCCL, and from the programs of tests/cuda. */
extern "C" {
extern const struct comm_memory comm_memory_cuda __attribute__((weak));
extern const struct comm_transport comm_transport_nccl __attribute__((weak));
}

static int open_device(int number, int rank, struct cuda_device *device, struct err *err)
{
    log_program("belay-train"); /* this object has a log of its own */
    if (device_open(number, rank, err) != 0)
        return -1;
    *device = *device_properties();
    return 0;
}

static const struct kernels *table_for(enum kernel_type type, struct err *err)
{
    (void)err; /* a kernel that the device cannot run is told by its first launch */
    return kernels_cuda(type);
}

extern "C" __attribute__((visibility("default"))) const struct cuda_backend belay_cuda_backend = {
    CUDA_BACKEND_VERSION, device_count,        open_device, device_close, table_for,
    &comm_memory_cuda,    &comm_transport_nccl};
