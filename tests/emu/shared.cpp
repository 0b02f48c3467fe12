/* shared: a block's shared memory. Each array is an allocation of its own, so that AddressSanitizer sees an access beside it, full of NaN when the
 * block begins. */
#include <stdlib.h>

#include <vector>

#include "tests/emu/block.h"

#define ALIGNMENT 128

namespace emu
{
struct array {
    const void *key; /* of the place in the source */
    char *at;
    size_t bytes;
};
static std::vector<array> *arrays =
    new std::vector<array>; /* SHARED, in the order in which they were asked for */

static char *new_array(size_t bytes)
{
    void *p;
    if (posix_memalign(&p, ALIGNMENT, bytes) != 0)
        die("no memory for shared memory");
    poison(p, bytes);
    return (char *)p;
}

void *shared(const void *key, size_t bytes)
{
    for (const array &a : *arrays)
        if (a.key == key)
            return a.at;
    arrays->push_back({key, new_array(bytes), bytes});
    return arrays->back().at;
}

void shared_begin()
{
    B.dyn = B.dyn_size ? (unsigned char *)new_array(B.dyn_size) : NULL;
}

void shared_end()
{
    free(B.dyn);
    B.dyn = NULL;
    for (const array &a : *arrays)
        free(a.at);
    arrays->clear();
}

bool is_shared(const void *p, size_t bytes)
{
    const char *c = (const char *)p, *dyn = (const char *)B.dyn;
    if (dyn && c >= dyn && c + bytes <= dyn + B.dyn_size)
        return true;
    for (const array &a : *arrays)
        if (c >= a.at && c + bytes <= a.at + a.bytes)
            return true;
    return false;
}
} // namespace emu
