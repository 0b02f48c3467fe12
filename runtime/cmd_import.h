/* cmd_import: belay-train import FOLDER --out CHECKPOINT: weights of Hugging Face's layout as a checkpoint (docs/export.md). */
#ifndef BELAY_RUNTIME_CMD_IMPORT_H
#define BELAY_RUNTIME_CMD_IMPORT_H

/* argv[0] is the word "import". Returns the exit code. */
int cmd_import(int argc, char **argv);

#endif
