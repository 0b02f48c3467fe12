/* copies: cp.async. A copy arrives when its thread waits for it (its place is NaN until then, and its source is read only then), or at once, by the
 * block's order. A thread that ends with copies nobody waited for is an error. */
#include <string.h>

#include <vector>

#include "tests/emu/block.h"

namespace emu
{
struct copy {
    void *to;
    const void *from;
    size_t bytes;
    int group;
};

static struct {
    std::vector<copy> open;
    int group; /* that the next copies belong to */
} copies_of[MOST_THREADS];
static bool used;

void copies_begin()
{
    for (int i = 0; used && i < MOST_THREADS; i++)
        copies_of[i].group = 0;
    used = false;
}

void copies_thread_end()
{
    if (used && !copies_of[me().number].open.empty())
        die("thread exits with unfinished cp.async", me().file, me().line);
}

void cp_async(void *to, const void *from, size_t bytes, const char *file, int line)
{
    static const char zeros[16] = {0};
    thread &t = me();
    t.file = file;
    t.line = line;
    if (((uintptr_t)to | (uintptr_t)from) % bytes != 0)
        die("cp.async address not aligned", file, line);
    if (!is_shared(to, bytes))
        die("cp.async to what is not shared memory of the block", file, line);
    if (!from)
        from = zeros;
    char now[16];
    memcpy(now, from, bytes); /* AddressSanitizer looks at it here, whenever the copy arrives */
    used = true;
    if (copies_are_late()) {
        poison(to, bytes);
        copies_of[t.number].open.push_back({to, from, bytes, copies_of[t.number].group});
    } else
        memcpy(to, now, bytes);
}

void cp_commit()
{
    copies_of[me().number].group++;
}

void cp_wait(int keep)
{
    auto &mine = copies_of[me().number];
    size_t left = 0;
    for (const copy &c : mine.open)
        if (c.group < mine.group - keep)
            memcpy(c.to, c.from, c.bytes);
        else
            mine.open[left++] = c;
    mine.open.resize(left);
}
} // namespace emu
