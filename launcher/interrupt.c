/* interrupt: see interrupt.h. SIGINT is blocked and read from a signalfd, so it cannot come between two system calls. */
#include "launcher/interrupt.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void sigint_only(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
}

int interrupt_open(void)
{
    sigset_t set;
    sigint_only(&set);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0)
        sigprocmask(SIG_BLOCK, &set, NULL);
    return fd;
}

bool interrupt_take(int fd)
{
    struct signalfd_siginfo info;
    return fd >= 0 && read(fd, &info, sizeof info) == (ssize_t)sizeof info;
}

void interrupt_close(int fd)
{
    sigset_t set;
    if (fd < 0)
        return;
    close(fd);
    sigint_only(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}
