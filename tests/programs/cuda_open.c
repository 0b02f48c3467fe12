/* cuda_open: loads a library of the CUDA backend, says what it says about devices, and moves some bytes when there is one. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/backend.h"

/* Bytes to the device and back. */
static int there_and_back(const struct kernels *k)
{
    char sent[1000], got[sizeof sent];
    char *x = k->alloc(2 * sizeof sent);
    if (!x)
        return -1;
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 7);
    k->from_host(x, sent, sizeof sent);
    k->copy(x + sizeof sent, x, sizeof sent);
    k->to_host(got, x + sizeof sent, sizeof got);
    k->free(x);
    return memcmp(sent, got, sizeof got) == 0 ? 0 : -1;
}

static int use(const struct cuda_backend *b)
{
    struct err err = {{0}};
    struct cuda_device device;
    char line[256];
    if (b->open(0, 0, &device, &err) != 0) {
        printf("not opened: %s\n", err.text);
        return 1;
    }
    const struct kernels *k = b->kernels(KERNEL_BF16, &err);
    if (!k) {
        printf("no kernels: %s\n", err.text);
        return 1;
    }
    k->describe(line, sizeof line);
    printf("id %s\ndescribed as %s\ncopies %s\n", device.id, line,
           there_and_back(k) == 0 ? "arrive" : "are lost");
    b->close();
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {{0}};
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct cuda_backend *b = library ? dlsym(library, CUDA_BACKEND_SYMBOL) : NULL;
    if (!b) {
        (void)fprintf(stderr, "usage: cuda_open LIBRARY: %s\n", argc == 2 ? dlerror() : "one file");
        return 2;
    }
    int devices = b->devices(&err);
    printf("version %d\ndevices %d\n", b->version, devices);
    if (devices == 0)
        printf("because %s\n", err.text);
    if (devices == 0 || use(b) != 0)
        return devices != 0;
    return use(b); /* once more: closing has given everything back */
}
