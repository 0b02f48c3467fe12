/* device: see device.h. */
#include "kernels/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/device.cuh"

cudaStream_t device_stream(void)
{
    return 0;
}

int device_blocks(void)
{
    return 4;
}

void device_fail(const char *call, const char *reason)
{
    fprintf(stderr, "%s failed: %s\n", call, reason);
    exit(1);
}

void device_check(cudaError_t rc, const char *call)
{
    if (rc != cudaSuccess)
        device_fail(call, cudaGetErrorString(rc));
}

void device_launched(const char *kernel)
{
    device_check(cudaGetLastError(), kernel);
}
