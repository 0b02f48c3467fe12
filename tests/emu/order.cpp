/* order: see order.h. */
#include "tests/emu/order.h"

#include <stdlib.h>
#include <string.h>

#include "tests/emu/machine.h"

namespace emu
{
static order chosen;
static bool is_set, by_warp, late_copies = true;
static int threads;
static uint64_t random_state;
static uint32_t priority[MOST_WARPS];

uint32_t rnd()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
}

static void set_order(const char *name, uint64_t seed)
{
    bool fwd = strcmp(name, "fwd") == 0, rev = strcmp(name, "rev") == 0;
    if (!fwd && !rev && strcmp(name, "rand") != 0)
        die("EMU_SCHED is not fwd, rev or rand", name, 0);
    chosen = fwd ? FORWARD : rev ? REVERSE : RANDOM;
    late_copies = is_set = true;
    random_state = seed * 0x9E3779B97F4A7C15u | 1;
    for (int i = 0; i < 8; i++)
        rnd();
}

order current_order()
{
    if (!is_set) {
        const char *name = getenv("EMU_SCHED"), *seed = getenv("EMU_SEED");
        set_order(name ? name : "fwd", seed ? strtoull(seed, NULL, 10) : 1);
    }
    return chosen;
}

void order_block(int count)
{
    threads = count;
    if (current_order() != RANDOM)
        return;
    for (int w = 0; w * WARP_LANES < count; w++)
        priority[w] = rnd();
    by_warp = rnd() & 1;
    late_copies = rnd() & 1;
}

bool copies_are_late()
{
    return late_copies;
}

bool at_once()
{
    return chosen == RANDOM ? rnd() & 1 : chosen == REVERSE;
}

/* The first at or behind `from`, else the first of all. */
static int next_from(const thread_set &s, int from)
{
    uint64_t bits = s.bits[from >> 6] & ~(uint64_t)0 << (from & 63);
    for (int word = from >> 6;; bits = s.bits[word]) {
        if (bits)
            return word * 64 + __builtin_ctzll(bits);
        word = word < (threads - 1) / 64 ? word + 1 : 0;
    }
}

static int last(const thread_set &s)
{
    int word = (threads - 1) / 64;
    while (!s.bits[word])
        word--;
    return word * 64 + 63 - __builtin_clzll(s.bits[word]);
}

static int first_of_best_warp(const thread_set &s)
{
    int best = -1;
    for (int w = 0; w * WARP_LANES < threads; w++)
        if ((uint32_t)(s.bits[w / 2] >> w % 2 * 32) && (best < 0 || priority[w] > priority[best]))
            best = w;
    return next_from(s, best * WARP_LANES);
}

int take_next(thread_set *ready)
{
    int i = chosen == FORWARD   ? next_from(*ready, 0)
            : chosen == REVERSE ? last(*ready)
            : by_warp           ? first_of_best_warp(*ready)
                                : next_from(*ready, (int)(rnd() % (uint32_t)threads));
    ready->remove(i);
    return i;
}
} // namespace emu

extern "C" void emu_schedule(const char *name, uint64_t seed)
{
    emu::set_order(name, seed);
}
