/* belay-shim ATTEMPT_DIR: started by the agent, once for each attempt on its node. */
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/shim/shim.h"
#include "common/log.h"

/* Everything from here on goes to ATTEMPT_DIR/shim.log, whatever stderr was. */
static int log_to_file(const char *dir)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/shim.log", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        return -1;
    if (fd > STDERR_FILENO)
        close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    log_program("belay-shim");
    if (argc != 2 || argv[1][0] == '-') {
        bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
        fprintf(help ? stdout : stderr,
                "usage: belay-shim ATTEMPT_DIR   (started by belay-agent; order.json must be there)\n");
        return help ? 0 : 2;
    }
    char dir[PATH_MAX];
    if (!realpath(argv[1], dir)) {
        log_error("there is no attempt directory %s", argv[1]);
        return 2;
    }
    if (log_to_file(dir) != 0) {
        log_error("cannot write %s/shim.log", dir);
        return 1;
    }
    (void)setsid(); /* fails when the agent has made this a session of its own already */
    return shim_run(dir);
}
