/* belay hold: takes jobs off the cluster until they are released. */
#include "launcher/verb.h"

const struct command command_hold = {
    .name = "hold",
    .args = "JOB...",
    .help = "Takes jobs off the cluster until they are released; running ones are stopped and keep their "
            "checkpoints",
    .examples = "  belay hold 7\n",
    .min_words = 1,
    .max_words = VERB_JOBS_MAX,
    .run = verb_run,
};
