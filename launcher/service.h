/* service: the long-lived programs that `belay up` starts and `belay down` stops, each known by its pid file. */
#ifndef BELAY_LAUNCHER_SERVICE_H
#define BELAY_LAUNCHER_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/procid.h"

/* One program that was or is to be started. */
struct service {
    char *what;     /* "belayd", "the agent of node3" */
    char *pid_file; /* written by the new process, and again by the program once it is ready */
    char *log;
    struct procid id; /* pid 0 = not running */
    bool started;     /* by us, now */
    int64_t log_from; /* where the log of this start begins */
};

/* Fills id from the pid file: is it alive? */
bool service_alive(struct service *s);
void service_clear(struct service *s);

/* Path of a program: beside this binary, else on PATH (fresh string). NULL with a sentence. */
char *service_program(const char *name, struct err *err);

/* Starts argv (argv[0] a path) in a session of its own, in folder `dir`, stdin from /dev/null, output appended to the log;
 * fills id. 0, or -1 with a sentence, also when it cannot be executed. */
int service_start(struct service *s, const char *dir, char *const argv[], struct err *err);

/* Has a program that we started ended already? Then -1 with a sentence that holds the end of its log. */
int service_check(struct service *s, struct err *err);

/* The last lines of the log, of this start if there was one, on one line (fresh string, "" when there is none). */
char *service_log_tail(const struct service *s);

#endif
