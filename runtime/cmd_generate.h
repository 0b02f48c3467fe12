/* cmd_generate: the subcommand `belay-train generate`. */
#ifndef BELAY_RUNTIME_CMD_GENERATE_H
#define BELAY_RUNTIME_CMD_GENERATE_H

/* argv[0] is "generate". Returns the exit code (exits.h). */
int cmd_generate(int argc, char **argv);

#endif
