/* interrupt: Ctrl-C as something to wait for instead of an end.
 *
 * From interrupt_open on SIGINT no longer ends the program; it makes the descriptor readable. */
#ifndef BELAY_LAUNCHER_INTERRUPT_H
#define BELAY_LAUNCHER_INTERRUPT_H

#include <stdbool.h>

/* A descriptor that is readable when Ctrl-C was pressed; -1 when that is not possible (then Ctrl-C ends as usual). */
int interrupt_open(void);

/* Takes one press; false when there was none. */
bool interrupt_take(int fd);

/* SIGINT ends the program again. -1 is fine. */
void interrupt_close(int fd);

#endif
