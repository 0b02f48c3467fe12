/* backoff: see backoff.h. The jitter is xorshift64: it needs to differ between nodes, not to be hard to guess. */
#include "agent/backoff.h"

void backoff_init(struct backoff *b, int64_t first_ms, int64_t max_ms, uint64_t seed)
{
    *b = (struct backoff){first_ms, max_ms, first_ms, seed ? seed : 1};
}

static uint64_t draw(struct backoff *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

int64_t backoff_next(struct backoff *b)
{
    int64_t span = b->next_ms, half = span / 2;
    b->next_ms = span > b->max_ms / 2 ? b->max_ms : span * 2;
    return half + (int64_t)(draw(b) % (uint64_t)(span - half + 1));
}

void backoff_reset(struct backoff *b)
{
    b->next_ms = b->first_ms;
}
