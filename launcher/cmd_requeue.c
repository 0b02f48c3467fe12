/* belay requeue: stops running jobs and places them again. */
#include "launcher/verb.h"

const struct command command_requeue = {
    .name = "requeue",
    .args = "JOB...",
    .help = "Stops running jobs and places them again, from their newest checkpoints",
    .examples = "  belay requeue 7\n",
    .min_words = 1,
    .max_words = VERB_JOBS_MAX,
    .run = verb_run,
};
