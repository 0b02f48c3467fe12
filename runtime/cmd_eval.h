/* cmd_eval: the subcommand `belay-train eval`. */
#ifndef BELAY_RUNTIME_CMD_EVAL_H
#define BELAY_RUNTIME_CMD_EVAL_H

/* argv[0] is "eval". Returns the exit code (exits.h). */
int cmd_eval(int argc, char **argv);

#endif
