/* fiber: stacks that one thread of the operating system changes between. */
#ifndef BELAY_TESTS_EMU_FIBER_H
#define BELAY_TESTS_EMU_FIBER_H

#include <stddef.h>

namespace emu
{
struct fiber {
    char *base; /* lowest address of the stack */
    size_t bytes;
    void *sp;         /* where it stands while another runs */
    void *sanitizers; /* AddressSanitizer's own stack for it */
};

/* The stack that the program runs on. */
extern fiber host;

/* Calls entry, which never returns, when it is switched to for the first time. Kept for ever. */
fiber *fiber_new(void (*entry)());
fiber *fiber_running();
/* Returns when somebody switches back. */
void fiber_switch(fiber *to);
} // namespace emu

#endif
