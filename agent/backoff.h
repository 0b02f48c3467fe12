/* backoff: growing, jittered delays between tries, so that thousands of agents do not come back in one instant. */
#ifndef BELAY_AGENT_BACKOFF_H
#define BELAY_AGENT_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t first_ms, max_ms, next_ms;
    uint64_t random; /* state of the jitter */
};

/* seed: any number, another on each node. first_ms at least 1. */
void backoff_init(struct backoff *b, int64_t first_ms, int64_t max_ms, uint64_t seed);

/* The next delay: between half of and all of a span that starts at first_ms and doubles up to max_ms. */
int64_t backoff_next(struct backoff *b);

/* After a success: begin again at first_ms. */
void backoff_reset(struct backoff *b);

#endif
