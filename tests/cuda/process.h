/* process: work in a process of its own, for tests of what ends one. */
#ifndef BELAY_TESTS_CUDA_PROCESS_H
#define BELAY_TESTS_CUDA_PROCESS_H

#include <regex.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/check.h"

struct ended {
    int code;
    std::string said;
};

/* What work says on stderr, and its process's exit code. */
static inline ended in_a_process(const std::function<void()> &work)
{
    int ends[2];
    ended e = {-1, ""};
    char part[512];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        work();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;)
        e.said.append(part, (size_t)n);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    e.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return e;
}

static inline void expect_said(const ended &e, int code, const char *pattern)
{
    regex_t re;
    assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (e.code != code || regexec(&re, e.said.c_str(), 0, NULL, 0) != 0)
        fail_msg("exit code %d, not %d, or not /%s/: %s", e.code, code, pattern, e.said.c_str());
    regfree(&re);
}

#endif
