/* follow: stays with a job to its end and shows how it goes. */
#ifndef BELAY_LAUNCHER_FOLLOW_H
#define BELAY_LAUNCHER_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "launcher/client.h"

struct follow_options {
    bool cancel_on_interrupt; /* the first Ctrl-C asks for cancel, the second leaves; else the first leaves */
    bool output;              /* print what a program (run:) writes */
    bool all_ranks;           /* of every rank, each line with its rank; else of rank 0 */
};

/* Returns the job's exit code (0 completed, 1 failed or cancelled), 0 when left by Ctrl-C without cancelling (1 after one),
 * or 3 when belayd stays away.
 *
 * Programs: their output on stdout, everything else on stderr. Training: events and a progress line on `view`. */
int follow_job(struct client *c, int64_t id, FILE *view, const struct follow_options *options);

#endif
