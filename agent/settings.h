/* settings: what belay-agent was asked for: flags, then BELAY_* variables. */
#ifndef BELAY_AGENT_SETTINGS_H
#define BELAY_AGENT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct settings {
    char *dir, *name; /* the agent's own folder; the node's name */
    char *controller; /* HOST:PORT as given */
    char *secret_file;
    char *rack, *pod, *nvlink, *address; /* "" = not given */
    char *slots_text;                    /* as given, "" = not given */
    char *host;                          /* of controller */
    int port;
    int64_t slots;      /* 0 = what the machine has */
    char *secret;       /* content of secret_file without the line end */
    bool help, version; /* asked for: then nothing else is checked */
};

/* Reads flags and environment, checks them and loads the secret. 0, or -1 with a sentence that says what to give instead.
 * Clear in both cases. */
int settings_read(struct settings *s, int argc, char **argv, struct err *err);
void settings_clear(struct settings *s);

/* The text of --help (static). */
const char *settings_help(void);

/* Is it [A-Za-z0-9][A-Za-z0-9._-]{0,62}? */
bool settings_name_ok(const char *name);

#endif
