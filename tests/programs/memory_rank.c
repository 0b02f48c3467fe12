/* memory_rank: a rank whose state lives in the memory tier: it takes what its rank held last in the attempt before, holds two newer images, and waits to
 * be killed. Ranks meet in a folder, as others would over MPI.
 *
 * usage: memory_rank FOLDER NAME BYTES
 * FOLDER/ATTEMPT.RANK.got says where the image came from ("here" or "node N"), .first and .held that its images are held here and at the buddy;
 * whatever goes wrong is said on stderr and ends it with 93 (do not retry). */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/digest.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "common/memory.h"

#define WAIT_MS   60000
#define NO_RETRY  93
#define LAST_STEP 20

static const char *folder, *name;
static int64_t bytes, rank, world, attempt;
static bool alone; /* all ranks are on one node: there is no buddy */
static struct memory_tier *tier;

static void fail(const char *what, const struct err *err)
{
    fprintf(stderr, "rank %lld: %s: %s\n", (long long)rank, what, err->text);
    exit(NO_RETRY);
}

static int64_t setting(const char *key)
{
    const char *text = getenv(key);
    return text ? strtoll(text, NULL, 10) : -1;
}

/* The step of an attempt's first (10) or second (20) image. */
static int64_t step_of(int64_t of_attempt, int64_t which)
{
    return of_attempt * 100 + which;
}

/* What this rank's image of a step is; *content is the caller's. */
static struct memimage image_of(int64_t step, unsigned char **content)
{
    struct memimage image = {.step = step, .rank = rank, .bytes = bytes};
    snprintf(image.name, sizeof image.name, "%s-%lld", name, (long long)rank);
    *content = mem_zero((size_t)bytes, 1);
    for (int64_t i = 0; i < bytes; i++)
        (*content)[i] = (unsigned char)(i * 31 + i / 4096 + step * 7 + rank);
    digest_bytes(*content, (size_t)bytes, image.hash);
    return image;
}

static void note(const char *what, const char *text)
{
    struct err err = {""};
    char *path = str_printf("%s/%lld.%lld.%s", folder, (long long)attempt, (long long)rank, what);
    if (fs_write_durable(path, text, strlen(text), 0644, &err) != 0)
        fail("note", &err);
    free(path);
}

static void wait_for_all(const char *what)
{
    for (int64_t r = 0; r < world; r++) {
        char *path = str_printf("%s/%lld.%lld.%s", folder, (long long)attempt, (long long)r, what);
        while (access(path, F_OK) != 0)
            (void)poll(NULL, 0, 5);
        free(path);
    }
}

static void hold(int64_t step)
{
    struct err err = {""};
    struct memory_held word;
    unsigned char *content;
    struct memimage image = image_of(step, &content);
    int fd = memimage_new(image.name, bytes, &err), n = 0;
    if (fd < 0 || pwrite(fd, content, (size_t)bytes, 0) != bytes || memory_hold(tier, &image, fd, &err) != 0)
        fail("hold", &err);
    while (n == 0 || word.buddy == alone) { /* a buddy that was away may be back */
        n = memory_poll(tier, &word, 1, &err);
        if (n < 0 || (n == 1 && word.error[0]))
            fail(n < 0 ? "poll" : word.error, &err);
        if (n == 0)
            (void)poll(NULL, 0, 5);
    }
    close(fd);
    free(content);
}

static void check(int fd, const unsigned char *content)
{
    struct err err = {""};
    void *at = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED || memcmp(at, content, (size_t)bytes) != 0) {
        err_set(&err, "the bytes are not those that were held");
        fail("image", &err);
    }
    munmap(at, (size_t)bytes);
    close(fd);
}

/* Here first, then on each node (there are no more than ranks). */
static void get(void)
{
    struct err err = {""};
    unsigned char *content;
    struct memimage want = image_of(step_of(attempt - 1, LAST_STEP), &content);
    int fd = -1;
    for (int64_t node = MEMORY_HERE; fd < 0 && node < world; node++) {
        fd = memory_image(tier, &want, node, WAIT_MS, &err);
        char where[32] = "here";
        if (node >= 0)
            snprintf(where, sizeof where, "node %lld", (long long)node);
        if (fd >= 0)
            note("got", where);
    }
    if (fd < 0)
        fail("nowhere", &err);
    check(fd, content);
    free(content);
}

int main(int argc, char **argv)
{
    struct err err = {""};
    if (argc != 4) {
        fprintf(stderr, "usage: memory_rank FOLDER NAME BYTES\n");
        return 2;
    }
    folder = argv[1];
    name = argv[2];
    bytes = strtoll(argv[3], NULL, 10);
    rank = setting("RANK");
    world = setting("WORLD_SIZE");
    attempt = setting("BELAY_ATTEMPT");
    alone = setting("LOCAL_WORLD_SIZE") == world;
    const char *socket = getenv(MEMORY_SOCKET_ENV);
    tier = memory_open(socket ? socket : "(" MEMORY_SOCKET_ENV " is not set)", &err);
    if (!tier)
        fail("open", &err);
    if (attempt > 1)
        get();
    else
        note("got", "nothing");
    wait_for_all("got");
    hold(step_of(attempt, 10));
    note("first", "");
    wait_for_all("first");
    hold(step_of(attempt, LAST_STEP));
    note("held", "");
    for (;;)
        pause();
}
