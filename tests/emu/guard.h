/* guard: memory of the device that the host cannot touch (EMU_GUARD=1). Elsewhere it is ordinary memory, and code of the host that follows a pointer to it
 * works here and ends the process on a GPU. */
#ifndef BELAY_TESTS_EMU_GUARD_H
#define BELAY_TESTS_EMU_GUARD_H

#include <stddef.h>

namespace emu
{
bool guard_is_wanted();
/* Whole pages; NULL when there is no memory. */
void *guard_take(size_t bytes);
void guard_give(void *p, size_t bytes);

/* While one lives the memory may be touched: the device works. */
struct device_at_work {
    device_at_work();
    ~device_at_work();
    device_at_work(const device_at_work &) = delete;
    device_at_work &operator=(const device_at_work &) = delete;
};
} // namespace emu

#endif
