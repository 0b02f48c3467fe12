/* terminal: see terminal.h. Asked of each stream: stdout may be a pipe while stderr is a terminal. */
#include "launcher/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool user_locale_is_utf8;

void terminal_setup(void)
{
    const char *set = setlocale(LC_CTYPE, "");
    user_locale_is_utf8 = set && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (!user_locale_is_utf8 && !setlocale(LC_CTYPE, "C.UTF-8"))
        setlocale(LC_CTYPE, "C"); /* then everything beyond ASCII is shown as '?' */
}

bool terminal_utf8(void)
{
    return user_locale_is_utf8;
}

bool terminal_is(FILE *f)
{
    return isatty(fileno(f)) == 1;
}

size_t terminal_width(FILE *f)
{
    struct winsize size;
    if (!terminal_is(f))
        return 0;
    if (ioctl(fileno(f), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

bool terminal_redraws(FILE *f)
{
    const char *term = getenv("TERM");
    return terminal_is(f) && !(term && strcmp(term, "dumb") == 0);
}

bool terminal_colours(FILE *f)
{
    const char *no = getenv("NO_COLOR");
    return terminal_redraws(f) && !(no && *no);
}

const char *colour_start(enum colour c)
{
    static const char *const codes[] = {
        [COLOUR_NONE] = "",        [COLOUR_GREEN] = "\033[32m", [COLOUR_YELLOW] = "\033[33m",
        [COLOUR_RED] = "\033[31m", [COLOUR_CYAN] = "\033[36m",  [COLOUR_DIM] = "\033[2m",
        [COLOUR_BOLD] = "\033[1m"};
    return codes[c];
}

enum colour colour_of_state(const char *state)
{
    static const struct {
        const char *state;
        enum colour colour;
    } table[] = {
        {"running", COLOUR_GREEN},   {"completed", COLOUR_CYAN},    {"failed", COLOUR_RED},
        {"cancelled", COLOUR_DIM},   {"pending", COLOUR_YELLOW},    {"held", COLOUR_YELLOW},
        {"starting", COLOUR_YELLOW}, {"restarting", COLOUR_YELLOW}, {"preempted", COLOUR_YELLOW},
        {"up", COLOUR_GREEN},        {"suspect", COLOUR_YELLOW},    {"down", COLOUR_RED},
        {"draining", COLOUR_YELLOW}, {"drained", COLOUR_YELLOW},    {"unknown", COLOUR_YELLOW},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].state, state) == 0)
            return table[i].colour;
    return COLOUR_NONE;
}
