/* meet: barriers of a block, and what the lanes of a warp do together.
 *
 * A thread that comes to one of these waits until all others that it concerns have come to the same place in the source; threads that have ended are not
 * waited for. Whoever comes last wakes them. Threads at different places at the same time are an error, and so is a meeting that nobody
 * ends (block.cpp: "deadlock"). */
#include <string.h>

#include "tests/emu/block.h"

#define MOST_MASKS 8 /* sets of lanes of one warp that meet in one block */

namespace emu
{
static bool same_place(const char *file, int line, const char *other, int other_line)
{
    return line == other_line && (file == other || strcmp(file, other) == 0);
}

/* ---- barriers ---- */

static struct {
    int arrived;
    const char *file; /* of the first that came */
    int line;
    unsigned generation; /* how often it has opened */
    int yes[2],
        all[2]; /* what threads have said at it, by the generation's parity: some read one while others begin the next */
} gate;

static void open_gate()
{
    gate.arrived = 0;
    gate.generation++;
    for (int i = 0; i < thread_count; i++)
        if (threads[i].is == AT_BARRIER)
            wake(threads[i]);
}

void barrier(const char *file, int line)
{
    if (gate.arrived == 0) {
        gate.file = file;
        gate.line = line;
    } else if (!same_place(file, line, gate.file, gate.line))
        die("threads of one block wait at different __syncthreads", file, line);
    me().is = AT_BARRIER;
    if (++gate.arrived == living)
        open_gate();
    wait(file, line);
}

int barrier_count(int yes, int *all, const char *file, int line)
{
    unsigned side = gate.generation & 1;
    if (gate.arrived == 0)
        gate.yes[side] = gate.all[side] = 0;
    gate.yes[side] += yes != 0;
    gate.all[side]++;
    barrier(file, line);
    *all = gate.all[side];
    return gate.yes[side];
}

/* ---- warps ---- */

/* Lanes of one warp that meet again and again. */
struct group {
    uint32_t mask, arrived;
    const char *file; /* of the first that came */
    int line;
    const void *what;
    void (*last)(meeting &);
    unsigned generation;
    meeting room[2]; /* in turns: some lanes still read one while others enter the next */
};

static struct {
    uint32_t living;
    int count;
    group groups[MOST_MASKS];
} warps[MOST_WARPS];

void meet_begin()
{
    gate.arrived = 0;
    for (int w = 0; w * WARP_LANES < thread_count; w++) {
        int lanes = thread_count - w * WARP_LANES;
        warps[w].living = lanes >= WARP_LANES ? ~0u : (1u << lanes) - 1;
        warps[w].count = 0;
    }
}

uint32_t live_lanes()
{
    return warps[cur->warp].living;
}

static void end_meeting(group &g, int warp)
{
    if (g.last)
        g.last(g.room[g.generation & 1]);
    uint32_t lanes = g.arrived;
    g.arrived = 0;
    g.generation++;
    for (; lanes; lanes &= lanes - 1)
        wake(threads[warp * WARP_LANES + __builtin_ctz(lanes)]);
}

void meet_thread_end()
{
    auto &w = warps[cur->warp];
    w.living &= ~(1u << cur->lane);
    for (int i = 0; i < w.count; i++)
        if (w.groups[i].arrived && w.groups[i].arrived == (w.groups[i].mask & w.living))
            end_meeting(w.groups[i], cur->warp);
    if (gate.arrived && gate.arrived == living)
        open_gate();
}

static group &group_of(uint32_t mask, const char *file, int line)
{
    auto &w = warps[cur->warp];
    for (int i = 0; i < w.count; i++)
        if (w.groups[i].mask == mask)
            return w.groups[i];
    if (w.count == MOST_MASKS)
        die("too many different masks in one warp", file, line);
    group &g = w.groups[w.count++];
    g.mask = mask;
    g.arrived = 0;
    return g;
}

meeting &meet(uint32_t mask, const void *value, size_t bytes, const char *file, int line, const void *what,
              void (*last)(meeting &))
{
    if (!(mask >> cur->lane & 1))
        die("calling lane is not in its own mask", file, line);
    group &g = group_of(mask, file, line);
    if (!g.arrived) {
        g.file = file;
        g.line = line;
        g.what = what;
        g.last = last;
    } else if (g.what != what || !same_place(file, line, g.file, g.line))
        die("lanes of one warp meet at different warp operations", file, line);
    meeting &room = g.room[g.generation & 1];
    memcpy(room.lane[cur->lane], value, bytes);
    g.arrived |= 1u << cur->lane;
    me().is = IN_WARP;
    if (g.arrived == (mask & warps[cur->warp].living))
        end_meeting(g, cur->warp);
    wait(file, line);
    return room;
}
} // namespace emu
