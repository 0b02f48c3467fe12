/* signals: see signals.h. A second SIGINT ends the process at once, as a person at a terminal expects. */
#include "runtime/signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t save_asked, stop_asked;

static void on_signal(int sig)
{
    if (sig == SIGUSR1)
        save_asked = 1;
    else
        stop_asked = 1;
}

void signals_install(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGUSR1, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    act.sa_flags |= SA_RESETHAND;
    sigaction(SIGINT, &act, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

bool signals_stop(void)
{
    return stop_asked;
}

int signals_take(void)
{
    int asked = stop_asked ? SIGNALS_STOP : 0;
    if (save_asked) {
        save_asked = 0; /* one that comes right before this line is served by the same checkpoint */
        asked |= SIGNALS_SAVE;
    }
    return asked;
}
