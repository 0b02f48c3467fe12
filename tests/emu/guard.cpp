/* guard: see guard.h. The pages have a protection key (pkeys(7)), whose access is switched by one instruction; steps of streams (queue.cpp) switch
 * it on. An access at another time ends the process, after a sentence with the call's place. */
#include "tests/emu/guard.h"

#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emu/machine.h"

namespace emu
{
static int key = -1;
static thread_local int at_work;

static void tell(int number, siginfo_t *info, void *)
{
    static const char text[] =
        "EMU ERROR: the host touches memory of the device, which ends a process on a GPU; "
        "the calls up to there:\n";
    void *calls[32];
    if (info->si_code == SEGV_PKUERR) {
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1); /* nothing can be done about it here */
        (void)ignored;
        backtrace_symbols_fd(calls, backtrace(calls, 32), STDERR_FILENO);
    }
    signal(number, SIG_DFL); /* the access is tried again, and ends the process */
}

static bool prepare()
{
    const char *setting = getenv("EMU_GUARD");
    if (!setting || strcmp(setting, "1") != 0)
        return false;
    key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (key < 0)
        die("EMU_GUARD needs a processor and a kernel with protection keys (pku, ospke in /proc/cpuinfo)", "",
            0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGSEGV, &action, NULL) != 0)
        die("EMU_GUARD cannot catch SIGSEGV", "", 0);
    void *once[1];
    backtrace(once, 1); /* loads what it needs now, not in the handler */
    return true;
}

bool guard_is_wanted()
{
    static const bool wanted = prepare();
    return wanted;
}

void *guard_take(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (pkey_mprotect(p, bytes, PROT_READ | PROT_WRITE, key) != 0)
        die("EMU_GUARD: pkey_mprotect failed", "", 0);
    return p;
}

void guard_give(void *p, size_t bytes)
{
    munmap(p, bytes);
}

device_at_work::device_at_work()
{
    if (guard_is_wanted() && at_work++ == 0)
        pkey_set(key, 0);
}

device_at_work::~device_at_work()
{
    if (guard_is_wanted() && --at_work == 0)
        pkey_set(key, PKEY_DISABLE_ACCESS);
}
} // namespace emu
