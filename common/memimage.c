/* memimage: see memimage.h. */
#include "common/memimage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/jsonx.h"

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

void memimage_put(json_t *obj, const struct memimage *image)
{
    jsonx_set(obj, "step", json_integer(image->step));
    jsonx_set_str(obj, "name", image->name);
    jsonx_set(obj, "rank", json_integer(image->rank));
    jsonx_set(obj, "bytes", json_integer(image->bytes));
    jsonx_set_str(obj, "hash", image->hash);
    jsonx_set(obj, "attempt", json_integer(image->attempt));
}

static int get_text(const json_t *obj, const char *key, const char *letters, char *out, size_t size,
                    struct err *err)
{
    const char *text;
    if (jsonx_str(obj, key, &text, err) != 0)
        return -1;
    size_t len = strlen(text);
    if (len == 0 || len >= size || strspn(text, letters) != len || text[0] == '.')
        return err_set(err, "\"%s\" is not the %s of an image", key, key);
    memcpy(out, text, len + 1);
    return 0;
}

int memimage_get(const json_t *obj, struct memimage *out, struct err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    struct memimage image = {0};
    if (!json_is_object(obj))
        return err_set(err, "an image is described by an object");
    if (jsonx_int(obj, "step", 0, INT64_MAX, &image.step, err) != 0 ||
        jsonx_int(obj, "rank", 0, INT32_MAX, &image.rank, err) != 0 ||
        jsonx_int(obj, "bytes", 1, MEMIMAGE_BYTES_MAX, &image.bytes, err) != 0 ||
        (json_object_get(obj, "attempt") &&
         jsonx_int(obj, "attempt", 0, INT64_MAX, &image.attempt, err) != 0) ||
        get_text(obj, "name", letters, image.name, sizeof image.name, err) != 0 ||
        get_text(obj, "hash", "0123456789abcdef", image.hash, sizeof image.hash, err) != 0)
        return -1;
    if (strlen(image.hash) != MEMIMAGE_HASH_SIZE - 1)
        return err_set(err, "\"hash\" must be %d hexadecimal digits", MEMIMAGE_HASH_SIZE - 1);
    *out = image;
    return 0;
}

bool memimage_same(const struct memimage *a, const struct memimage *b)
{
    return a->step == b->step && a->bytes == b->bytes && strcmp(a->name, b->name) == 0 &&
           strcmp(a->hash, b->hash) == 0;
}

int memimage_seal(int fd, struct err *err)
{
    if (fcntl(fd, F_ADD_SEALS, SIZE_SEALS) == 0)
        return 0;
    return err_sys(err, "cannot seal the size of an image's memory file");
}

int memimage_new(const char *name, int64_t bytes, struct err *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return err_sys(err, "cannot make a memory file for %s", name);
    int rc = ftruncate(fd, bytes);
    if (rc != 0)
        err_sys(err, "cannot make a memory file of %" PRId64 " bytes for %s", bytes, name);
    else
        rc = memimage_seal(fd, err);
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

int memimage_check(int fd, int64_t bytes, struct err *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS)
        return err_set(err, "the descriptor is no memory file of sealed size (memimage_new makes one)");
    if (fstat(fd, &st) != 0)
        return err_sys(err, "cannot ask for the size of the memory file");
    if (st.st_size != bytes)
        return err_set(err, "the memory file has %lld bytes, not %" PRId64, (long long)st.st_size, bytes);
    return 0;
}
