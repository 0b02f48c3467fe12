/* cmd_prepare: the subcommand `belay-train prepare`. */
#ifndef BELAY_RUNTIME_CMD_PREPARE_H
#define BELAY_RUNTIME_CMD_PREPARE_H

/* argv[0] is "prepare". Returns the exit code (exits.h). */
int cmd_prepare(int argc, char **argv);

#endif
