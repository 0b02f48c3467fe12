/* terminal: what the terminal at the other end of a stream can do. */
#ifndef BELAY_LAUNCHER_TERMINAL_H
#define BELAY_LAUNCHER_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum colour { COLOUR_NONE, COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED, COLOUR_CYAN, COLOUR_DIM, COLOUR_BOLD };

/* Sets the character type locale: the user's when it is UTF-8, else C.UTF-8 (text is UTF-8 in any case). Call once. */
void terminal_setup(void);

/* Does the user's own locale say that the terminal shows UTF-8? */
bool terminal_utf8(void);

/* Is f a terminal at all? */
bool terminal_is(FILE *f);

/* Columns of the terminal; 0 = no terminal, no limit. */
size_t terminal_width(FILE *f);

/* A terminal, and neither NO_COLOR nor TERM=dumb. */
bool terminal_colours(FILE *f);

/* May a line be redrawn in place? A terminal that is not dumb. */
bool terminal_redraws(FILE *f);

/* The escape sequence that starts a colour, "" for COLOUR_NONE. COLOUR_END ends any. */
const char *colour_start(enum colour c);
#define COLOUR_END "\033[0m"

/* The colour in which a job's or node's state is shown. */
enum colour colour_of_state(const char *state);

#endif
