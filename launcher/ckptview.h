/* ckptview: what a manifest says, as people and programs read it. */
#ifndef BELAY_LAUNCHER_CKPTVIEW_H
#define BELAY_LAUNCHER_CKPTVIEW_H

#include <jansson.h>

#include "checkpoint/manifest.h"
#include "launcher/args.h"
#include "launcher/format.h"

/* What stays, as options: of the job file's names and, where nothing is said, with its defaults. policy: struct retention_policy * */
#define CKPTVIEW_KEEP 3
#define CKPTVIEW_POLICY(policy)                                                                              \
    ARGS_OPTION_COUNT("keep", 0, &(policy)->keep, 1, 1000000, "K", "so many of the newest stay (3)"),        \
        ARGS_OPTION_COUNT("keep-every", 0, &(policy)->keep_every, 0, INT64_MAX, "N",                         \
                          "those of steps that N divides stay (0: none)"),                                   \
        ARGS_OPTION_COUNT("keep-best", 0, &(policy)->keep_best, 0, 1000000, "B",                             \
                          "so many with the lowest held-out loss stay (0)")

/* "dp4 tp2", only what is more than 1; "1" of one rank. */
char *ckptview_mesh(const struct manifest_state *state, char out[FORMAT_SIZE]);

/* Adds the keys of a manifest to an object: step time mesh attempt job format held_loss. */
void ckptview_json(json_t *obj, const struct manifest *manifest);

#endif
