/* belay-agent: reads its settings and runs. Exit codes: 0 told to stop, 1 cannot run, 2 wrong settings. */
#include <stdio.h>

#include "agent/agent.h"
#include "agent/settings.h"
#include "common/err.h"
#include "common/log.h"

static int run(const struct settings *settings)
{
    struct err err;
    if (agent_run(settings, &err) == 0)
        return 0;
    log_error("%s", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    struct settings settings;
    struct err err;
    int rc = 0;
    log_program("belay-agent");
    if (settings_read(&settings, argc, argv, &err) < 0) {
        fprintf(stderr, "belay-agent: %s\n", err.text);
        rc = 2;
    } else if (settings.help) {
        fputs(settings_help(), stdout);
    } else if (settings.version) {
        puts("belay-agent " BELAY_VERSION);
    } else {
        rc = run(&settings);
    }
    settings_clear(&settings);
    return rc;
}
