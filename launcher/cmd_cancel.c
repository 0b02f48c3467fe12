/* belay cancel: ends jobs for good. */
#include "launcher/verb.h"

const struct command command_cancel = {
    .name = "cancel",
    .args = "JOB...",
    .help = "Ends jobs for good: their ranks get SIGTERM, then SIGKILL after the job's grace",
    .examples = "  belay cancel 7\n  belay cancel shakespeare 9\n",
    .min_words = 1,
    .max_words = VERB_JOBS_MAX,
    .run = verb_run,
};
