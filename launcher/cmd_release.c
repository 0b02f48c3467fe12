/* belay release: lets held jobs be placed again. */
#include "launcher/verb.h"

const struct command command_release = {
    .name = "release",
    .args = "JOB...",
    .help = "Lets held jobs be placed again",
    .examples = "  belay release 7\n",
    .min_words = 1,
    .max_words = VERB_JOBS_MAX,
    .run = verb_run,
};
