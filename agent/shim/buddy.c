/* buddy: the nodes stand in a ring, rack by rack, and each looks as many places ahead as the largest rack has nodes: that is beyond its own rack.
 * With one rack only it looks at the next. */
#include "agent/shim/buddy.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct place {
    const char *domain;
    size_t node;
};

static int by_rack(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    int rack = strcmp(a->domain, b->domain);
    return rack != 0 ? rack : (a->node > b->node) - (a->node < b->node);
}

static size_t largest_rack(const struct place *ring, size_t n)
{
    size_t largest = 0, run = 0;
    for (size_t i = 0; i < n; i++) {
        run = i > 0 && strcmp(ring[i].domain, ring[i - 1].domain) == 0 ? run + 1 : 1;
        largest = run > largest ? run : largest;
    }
    return largest;
}

int64_t buddy_of(const char *const *domains, size_t n, size_t i)
{
    if (n < 2)
        return -1;
    struct place *ring = mem_zero(n, sizeof *ring);
    for (size_t k = 0; k < n; k++)
        ring[k] = (struct place){.domain = domains[k], .node = k};
    qsort(ring, n, sizeof *ring, by_rack);
    size_t largest = largest_rack(ring, n), ahead = largest < n ? largest : 1, at = 0;
    while (ring[at].node != i)
        at++;
    int64_t buddy = (int64_t)ring[(at + ahead) % n].node;
    free(ring);
    return buddy;
}
