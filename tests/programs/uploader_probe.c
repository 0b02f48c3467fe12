/* uploader_probe: rank 0's uploader by hand, for tests/interop/uploader_test.sh.
 *   uploader_probe JOB.yaml [TRIES PAUSE_MS STALL_S] <COMMANDS
 * Commands, one a line, each answered by a line: "add STEP", "poll", "wait MS", "fetch ATTEMPT". The end of the input frees the uploader. What it tells
 * comes as "step N: done|failed|gone|overtaken …" before the answer. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "runtime/uploader.h"

static void tell(void *ctx, const struct uploader_result *r)
{
    static const char *const ends[] = {[UPLOADER_DONE] = "done",
                                       [UPLOADER_FAILED] = "failed",
                                       [UPLOADER_GONE] = "gone",
                                       [UPLOADER_OVERTAKEN] = "overtaken"};
    (void)ctx;
    printf("step %" PRId64 ": %s, %" PRIu64 " bytes%s%s\n", r->step, ends[r->end], r->sent,
           r->why ? ", " : "", r->why ? r->why : "");
}

static void fetch(const struct job_spec *spec, const struct objects_limits *limits, int64_t attempt)
{
    struct err err;
    int64_t step;
    if (uploader_fetch(spec, limits, attempt, &step, &err) == 0)
        printf("fetched %" PRId64 "\n", step);
    else
        printf("not fetched: %s\n", err.text);
}

static int act(struct uploader *u, const struct job_spec *spec, const struct objects_limits *limits,
               char *line)
{
    char *number = strchr(line, ' ');
    long long n = number ? strtoll(number + 1, NULL, 10) : 0;
    line[strcspn(line, " \n")] = 0;
    if (strcmp(line, "add") == 0) {
        uploader_add(u, n);
        printf("added %lld\n", n);
    } else if (strcmp(line, "poll") == 0) {
        uploader_poll(u);
        printf("polled\n");
    } else if (strcmp(line, "wait") == 0) {
        printf("%s\n", uploader_wait(u, n, true) ? "all told" : "something is left");
    } else if (strcmp(line, "fetch") == 0) {
        fetch(spec, limits, n);
    } else {
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct job_diagnostics diagnostics;
    struct objects_limits limits = objects_usual_limits;
    struct job_spec *spec;
    struct err err;
    char line[256];
    log_program("uploader_probe");
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2 && argc != 5)
        return 64;
    if (argc == 5) {
        limits.tries = (int)strtol(argv[2], NULL, 10);
        limits.pause_ms = strtol(argv[3], NULL, 10);
        limits.stall_s = strtol(argv[4], NULL, 10);
    }
    if (job_spec_load(argv[1], NULL, 0, &spec, &diagnostics) != 0) {
        (void)fprintf(stderr, "%s\n", diagnostics.text[0]);
        return 2;
    }
    struct uploader *u = uploader_new(spec, &limits, tell, NULL, &err);
    if (!u)
        (void)fprintf(stderr, "%s\n", err.text);
    int rc = u ? 0 : 1;
    while (rc == 0 && fgets(line, sizeof line, stdin))
        rc = act(u, spec, &limits, line) == 0 ? 0 : 64;
    uploader_free(u);
    job_spec_free(spec);
    return rc;
}
