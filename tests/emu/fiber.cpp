/* fiber: see fiber.h. A switch saves the registers that a function must keep (System V ABI, x86-64) on one stack and takes them from the other.
 * AddressSanitizer has to be told, or it would take the other stack for an overflow. */
#include "tests/emu/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/emu/machine.h"
#ifdef EMU_ASAN
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES ((size_t)256 << 10) /* sanitizers make frames larger */
#else
#define STACK_BYTES ((size_t)128 << 10)
#endif
#define GUARD_BYTES 4096 /* below each stack; touching it ends the process */

#if !defined(__x86_64__)
#error "emu_switch is written for x86-64"
#endif

extern "C" void emu_switch(void **save, void *to);
asm(".text\n"
    "emu_switch:\n"
    " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp,(%rdi)\n"
    " mov %rsi,%rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
    " ret\n");
#define SAVED_REGISTERS 6

namespace emu
{
fiber host;
static fiber *running = &host, *previous;
static void (*entry_of_new)();

/* On the new stack, after each switch. */
static void arrive()
{
#ifdef EMU_ASAN
    const void *base;
    size_t bytes;
    __sanitizer_finish_switch_fiber(running->sanitizers, &base, &bytes);
    if (previous == &host) { /* whichever thread of the host launches now */
        host.base = (char *)(uintptr_t)base;
        host.bytes = bytes;
    }
#endif
}

static void begin()
{
    arrive();
    entry_of_new();
    abort();
}

fiber *fiber_new(void (*entry)())
{
    entry_of_new = entry; /* the same for all */
    char *p = (char *)mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, GUARD_BYTES, PROT_NONE) != 0)
        die("no memory for the stack of a thread", "", 0);
    fiber *f = new fiber{p + GUARD_BYTES, STACK_BYTES, NULL, NULL};
    void **top = (void **)(void *)(f->base + f->bytes);
    *--top = NULL; /* where begin would return to; keeps the stack aligned */
    *--top = (void *)begin;
    for (int i = 0; i < SAVED_REGISTERS; i++)
        *--top = NULL;
    f->sp = top;
    return f;
}

fiber *fiber_running()
{
    return running;
}

void fiber_switch(fiber *to)
{
    fiber *from = previous = running;
    running = to;
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(&from->sanitizers, to->base, to->bytes);
#endif
    emu_switch(&from->sp, to->sp);
    arrive();
}
} // namespace emu
