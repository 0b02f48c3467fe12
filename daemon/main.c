/* main: belayd's command line. Exit codes: 0 ended by a signal or --help; 1 could not start or could not go on; 2 usage. */
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "daemon/config.h"
#include "daemon/daemon.h"

static int run(const struct config *config)
{
    struct err err = {0};
    if (config->help)
        return fputs(config_help, stdout) < 0;
    if (config->version)
        return printf("belayd %s\n", BELAY_VERSION) < 0;
    if (daemon_run(config, &err) == 0)
        return 0;
    log_error("%s", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    struct config config = {0};
    struct err err = {0};
    log_program("belayd");
    int rc = 2;
    if (config_load(&config, argc, argv, &err) == 0)
        rc = run(&config);
    else
        fprintf(stderr, "belayd: %s\n", err.text);
    config_clear(&config);
    return rc;
}
