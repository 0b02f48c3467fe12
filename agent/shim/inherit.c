/* inherit: see inherit.h. The other shim is idle by now: its ranks are gone. */
#include "agent/shim/inherit.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/memory.h"

#define LIMIT_MS 5000

static int left_ms(int64_t until_ms)
{
    int64_t left = until_ms - clock_boot_ms();
    return left > 0 ? (int)left : 0;
}

static void take_all(struct images *images, struct memory_tier *from, const char *where, int64_t until_ms)
{
    struct err err = {""};
    struct memimage *list;
    size_t n, taken = 0;
    int rc = memory_list(from, left_ms(until_ms), &list, &n, &err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        int fd = memory_image(from, &list[i], MEMORY_HERE, left_ms(until_ms), &err);
        rc = fd < 0 ? -1 : 0;
        if (fd < 0)
            break;
        images_drop(images_adopt(images, &list[i], fd));
        taken++;
    }
    if (rc != 0)
        log_warn("not all images of %s could be taken over: %s", where, err.text);
    log_info("took over %zu images in memory from %s", taken, where);
    free(list);
}

static void take_from(struct images *images, const char *path, int64_t until_ms)
{
    struct err err = {""};
    if (access(path, F_OK) != 0)
        return;
    struct memory_tier *from = memory_open(path, &err);
    if (!from) {
        log_info("nothing is held in memory behind %s: %s", path, err.text);
        return;
    }
    take_all(images, from, path, until_ms);
    memory_close(from);
}

void inherit(struct images *images, const char *dir)
{
    int64_t until_ms = clock_boot_ms() + LIMIT_MS;
    const char *name = strrchr(dir, '/') + 1;
    size_t job_len = strcspn(name, ".") + 1; /* "7." */
    char *attempts = str_printf("%.*s", (int)(name - dir), dir);
    DIR *folder = opendir(attempts);
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        if (strncmp(e->d_name, name, job_len) != 0 || strcmp(e->d_name, name) == 0)
            continue;
        char *path = str_printf("%s%s/" INHERIT_SOCKET, attempts, e->d_name);
        take_from(images, path, until_ms);
        free(path);
    }
    if (folder)
        closedir(folder);
    free(attempts);
}
