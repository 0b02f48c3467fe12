/* mapping: see mapping.h. The descriptor is closed at once: the mapping keeps the file. */
#include "runtime/data/mapping.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_file(const char *path, int fd, size_t *bytes, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(err, "cannot read the size of %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, "%s is not a file that can be mapped; give a regular file", path);
    *bytes = (size_t)st.st_size;
    return 0;
}

int mapping_open(const char *path, struct mapping *out, struct err *err)
{
    *out = (struct mapping){.size = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC |
                            O_NONBLOCK); /* not blocked: a named pipe without a writer is refused below */
    if (fd < 0)
        return err_sys(err, "cannot open %s", path);
    size_t size = 0;
    int rc = check_file(path, fd, &size, err);
    if (rc == 0 && size > 0) {
        void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            rc = err_sys(err, "cannot map %s", path);
        else
            *out = (struct mapping){.bytes = map, .size = size};
    }
    close(fd);
    return rc;
}

void mapping_close(struct mapping *m)
{
    if (m->bytes)
        munmap((void *)(uintptr_t)m->bytes, m->size);
    *m = (struct mapping){.size = 0};
}
