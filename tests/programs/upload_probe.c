/* upload_probe: uploads and downloads checkpoints by hand, for tests/interop/upload_test.sh. Keys come from the environment, as they do for a run.
 *   upload_probe [--url URL] [--endpoint URL] [--region NAME] [--part BYTES] [--keep N] [--tries N] [--pause MS] [--stall S] [--cancel-after PARTS] COMMAND
 * COMMANDs: folder FOLDER | shard STEP FILE | manifest FOLDER | list | retain STEP | download STEP DIRECTORY | newest DIRECTORY | put KEY FILE
 *   | get KEY FROM BYTES FILE
 * The last line on stdout tells the counters. Exit code 0, 1 (the sentence is on stderr), 2 for one that was cancelled. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/digest.h"
#include "checkpoint/upload.h"
#include "checkpoint/upload_private.h"
#include "common/log.h"

static struct upload_spec spec = {.region = "us-east-1", .part = (uint64_t)5 << 20};
static struct objects_limits limits;
static struct objects_watch watch;
static unsigned long long cancel_after;

static long long number(const char *text)
{
    char *end;
    long long n = strtoll(text, &end, 10);
    if (!*text || *end) {
        (void)fprintf(stderr, "%s is no number\n", text);
        exit(64);
    }
    return n;
}

static void set_option(const char *name, const char *value)
{
    if (strcmp(name, "--url") == 0)
        spec.url = value;
    else if (strcmp(name, "--endpoint") == 0)
        spec.endpoint = value;
    else if (strcmp(name, "--region") == 0)
        spec.region = value;
    else if (strcmp(name, "--part") == 0)
        spec.part = (uint64_t)number(value);
    else if (strcmp(name, "--keep") == 0)
        spec.keep = number(value);
    else if (strcmp(name, "--tries") == 0)
        limits.tries = (int)number(value);
    else if (strcmp(name, "--pause") == 0)
        limits.pause_ms = number(value);
    else if (strcmp(name, "--stall") == 0)
        limits.stall_s = number(value);
    else if (strcmp(name, "--cancel-after") == 0)
        cancel_after = (unsigned long long)number(value);
    else
        exit(64);
}

/* Another thread ends what is under way, as that of a trainer does. */
static void *canceller(void *arg)
{
    (void)arg;
    while (watch.parts < cancel_after)
        (void)usleep(1000);
    watch.cancel = true;
    return NULL;
}

static enum objects_result shard(struct upload *u, char **args, struct err *err)
{
    struct manifest_file file = {.bytes = 0};
    const char *slash = strrchr(args[1], '/');
    (void)snprintf(file.name, sizeof file.name, "%s", slash ? slash + 1 : args[1]);
    if (digest_file(args[1], &file.bytes, file.hash, err) != 0)
        return OBJECTS_ERROR;
    int fd = open(args[1], O_RDONLY | O_CLOEXEC);
    enum objects_result rc = upload_shard(u, number(args[0]), &file, fd, err);
    close(fd);
    return rc;
}

static enum objects_result list(struct upload *u, struct err *err)
{
    int64_t *steps;
    size_t count;
    enum objects_result rc = upload_list(u, &steps, &count, err);
    for (size_t i = 0; rc == OBJECTS_OK && i < count; i++) {
        enum objects_result one = upload_is_complete(u, steps[i], err);
        printf("%" PRId64 " %s\n", steps[i], one == OBJECTS_OK ? "complete" : "incomplete");
    }
    free(steps);
    return rc;
}

static enum objects_result put(struct upload *u, char **args, struct err *err)
{
    uint64_t bytes;
    char hash[DIGEST_SIZE];
    if (digest_file(args[1], &bytes, hash, err) != 0)
        return OBJECTS_ERROR;
    struct objects_source source = {.fd = open(args[1], O_RDONLY | O_CLOEXEC), .bytes = bytes};
    enum objects_result rc = objects_put(u->objects, args[0], &source, spec.part, hash, err);
    close(source.fd);
    return rc;
}

static enum objects_result get(struct upload *u, char **args, struct err *err)
{
    int fd = open(args[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    enum objects_result rc =
        objects_get(u->objects, args[0], (uint64_t)number(args[1]), (uint64_t)number(args[2]), fd, 0, err);
    close(fd);
    return rc;
}

static enum objects_result newest(struct upload *u, const char *directory, struct err *err)
{
    int64_t step = 0;
    enum objects_result rc = upload_fetch_newest(u, directory, 1, &step, err);
    if (rc == OBJECTS_OK)
        printf("step %" PRId64 "\n", step);
    return rc;
}

static enum objects_result act(struct upload *u, const char *command, char **args, struct err *err)
{
    if (strcmp(command, "folder") == 0)
        return upload_folder(u, args[0], err);
    if (strcmp(command, "shard") == 0)
        return shard(u, args, err);
    if (strcmp(command, "manifest") == 0)
        return upload_manifest(u, args[0], err);
    if (strcmp(command, "list") == 0)
        return list(u, err);
    if (strcmp(command, "retain") == 0)
        return upload_retain(u, number(args[0]), err);
    if (strcmp(command, "download") == 0)
        return upload_download(u, number(args[0]), args[1], 1, err);
    if (strcmp(command, "newest") == 0)
        return newest(u, args[0], err);
    if (strcmp(command, "put") == 0)
        return put(u, args, err);
    if (strcmp(command, "get") == 0)
        return get(u, args, err);
    exit(64);
}

int main(int argc, char **argv)
{
    struct err err = {""};
    pthread_t thread;
    int i = 1;
    log_program("upload_probe");
    (void)signal(SIGPIPE, SIG_IGN);
    limits = objects_usual_limits;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
        set_option(argv[i], argv[i + 1]);
    if (i >= argc || !spec.url)
        return 64;
    struct upload *u = upload_open(&spec, &limits, &watch, &err);
    if (cancel_after > 0 && pthread_create(&thread, NULL, canceller, NULL) != 0)
        return 64;
    enum objects_result rc = u ? act(u, argv[i], argv + i + 1, &err) : OBJECTS_ERROR;
    if (rc != OBJECTS_OK)
        (void)fprintf(stderr, "%s\n", err.text);
    printf("parts %llu reused %llu sent %llu received %llu retries %llu\n", watch.parts, watch.reused,
           watch.sent, watch.received, watch.retries);
    upload_close(u);
    return rc == OBJECTS_OK ? 0 : rc == OBJECTS_CANCELLED ? 2 : 1;
}
