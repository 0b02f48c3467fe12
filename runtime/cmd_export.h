/* cmd_export: belay-train export CHECKPOINT --out PATH: a model as other programs read it (docs/export.md). */
#ifndef BELAY_RUNTIME_CMD_EXPORT_H
#define BELAY_RUNTIME_CMD_EXPORT_H

/* argv[0] is the word "export". Returns the exit code. */
int cmd_export(int argc, char **argv);

#endif
