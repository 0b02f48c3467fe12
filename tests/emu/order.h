/* order: which thread of a block runs next, and everything else that is left to chance, from one seed.
 *
 * EMU_SCHED=fwd runs the lowest thread that can, rev the highest; both run one thread as far ahead of the others as can be. rand draws: in every other
 * block any thread, in the rest the warps have priorities, so that one is far ahead. */
#ifndef BELAY_TESTS_EMU_ORDER_H
#define BELAY_TESTS_EMU_ORDER_H

#include <stdint.h>

#define MOST_THREADS 1024 /* of a block */
#define WARP_LANES   32
#define MOST_WARPS   (MOST_THREADS / WARP_LANES)

namespace emu
{
/* Threads of a block by number. */
struct thread_set {
    uint64_t bits[MOST_THREADS / 64];
    int count;

    void add(int i)
    {
        bits[i >> 6] |= (uint64_t)1 << (i & 63);
        count++;
    }
    void remove(int i)
    {
        bits[i >> 6] &= ~((uint64_t)1 << (i & 63));
        count--;
    }
};

enum order { FORWARD, REVERSE, RANDOM };
order current_order();
/* Draws what is drawn once for a block of so many threads. */
void order_block(int threads);
/* Takes the next thread out of a set that is not empty. */
int take_next(thread_set *ready);
/* Do this block's copies (cp.async) arrive late? */
bool copies_are_late();
} // namespace emu

#endif
