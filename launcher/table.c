/* table: see table.h. All cells are kept until printing, because the widest decides the width of a column. */
#include "launcher/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/text.h"

#define GAP 2 /* spaces between columns */

struct cell {
    char *text;
    size_t width;
    enum colour colour;
};

struct table {
    const struct table_column *columns;
    size_t n_columns;
    bool wide;
    struct cell *cells; /* row by row */
    size_t n_cells;
};

struct table *table_new(const struct table_column *columns, size_t n_columns, bool wide)
{
    if (n_columns == 0)
        abort(); /* a table in this program is empty: never at a user's hand */
    struct table *t = mem_zero(1, sizeof *t);
    *t = (struct table){.columns = columns, .n_columns = n_columns, .wide = wide};
    return t;
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i].text);
    free(t->cells);
    free(t);
}

void table_cell(struct table *t, enum colour colour, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_clean_vprintf(fmt, ap);
    va_end(ap);
    if (!*text) {
        free(text);
        text = str_dup("-");
    }
    t->cells = mem_grow(t->cells, t->n_cells + 1, sizeof *t->cells);
    t->cells[t->n_cells++] = (struct cell){.text = text, .width = text_width(text), .colour = colour};
}

static bool shown(const struct table *t, size_t column)
{
    return t->wide || !t->columns[column].wide;
}

static size_t last_shown(const struct table *t)
{
    size_t last = 0;
    for (size_t c = 0; c < t->n_columns; c++)
        if (shown(t, c))
            last = c;
    return last;
}

static size_t *column_widths(const struct table *t, const size_t *min_widths)
{
    size_t *widths = mem_zero(t->n_columns, sizeof *widths);
    for (size_t c = 0; c < t->n_columns; c++)
        widths[c] = min_widths ? min_widths[c] : text_width(t->columns[c].title);
    for (size_t i = 0, c = 0; i < t->n_cells; i++, c = c + 1 < t->n_columns ? c + 1 : 0)
        if (t->cells[i].width > widths[c])
            widths[c] = t->cells[i].width;
    return widths;
}

/* One line being printed, with the columns that are left on it. */
struct line {
    FILE *out;
    size_t left; /* SIZE_MAX = no limit */
    bool colours;
};

/* Spaces, after which there is more. */
static void pad(struct line *l, size_t n)
{
    bool cut = n >= l->left;
    if (l->left == 0)
        return;
    fprintf(l->out, "%*s%s", (int)(cut ? l->left - 1 : n), "", cut ? "…" : "");
    if (l->left != (size_t)-1)
        l->left -= cut ? l->left : n;
}

static void put(struct line *l, const struct cell *cell, bool last)
{
    bool paint = l->colours && cell->colour != COLOUR_NONE && l->left > 0;
    fputs(paint ? colour_start(cell->colour) : "", l->out);
    if (last ? cell->width <= l->left : cell->width < l->left) {
        fputs(cell->text, l->out);
        if (l->left != (size_t)-1)
            l->left -= cell->width;
    } else {
        if (l->left > 0)
            fprintf(l->out, "%.*s…", (int)text_prefix(cell->text, l->left - 1), cell->text);
        l->left = 0;
    }
    fputs(paint ? COLOUR_END : "", l->out);
}

static void print_row(const struct table *t, const struct cell *row, const size_t *widths, struct line line)
{
    size_t last = last_shown(t);
    for (size_t c = 0; c < t->n_columns; c++) {
        if (!shown(t, c))
            continue;
        size_t fill = widths[c] > row[c].width ? widths[c] - row[c].width : 0;
        if (t->columns[c].right)
            pad(&line, fill);
        put(&line, &row[c], c == last);
        if (c != last)
            pad(&line, (t->columns[c].right ? 0 : fill) + GAP);
    }
    fputc('\n', line.out);
}

static void print_rows(const struct table *t, const size_t *widths, struct line line)
{
    for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns)
        print_row(t, &t->cells[i], widths, line);
}

static struct line line_start(FILE *out, size_t width, bool colours)
{
    return (struct line){.out = out, .left = width ? width : (size_t)-1, .colours = colours};
}

static void print_titles(const struct table *t, const size_t *widths, struct line line)
{
    struct cell *titles = mem_zero(t->n_columns, sizeof *titles);
    for (size_t c = 0; c < t->n_columns; c++)
        titles[c] = (struct cell){.text = (char *)(uintptr_t)t->columns[c].title,
                                  .width = text_width(t->columns[c].title),
                                  .colour = COLOUR_BOLD};
    print_row(t, titles, widths, line);
    free(titles);
}

void table_print(const struct table *t, FILE *out, size_t width, bool colours)
{
    size_t *widths = column_widths(t, NULL);
    struct line line = line_start(out, width, colours);
    print_titles(t, widths, line);
    print_rows(t, widths, line);
    free(widths);
}

void table_print_rows(const struct table *t, FILE *out, const size_t *min_widths, size_t width, bool colours)
{
    size_t *widths = column_widths(t, min_widths);
    print_rows(t, widths, line_start(out, width, colours));
    free(widths);
}

void table_show(struct table *t)
{
    table_print(t, stdout, terminal_width(stdout), terminal_colours(stdout));
    table_free(t);
}

void table_show_whole(struct table *t)
{
    table_print(t, stdout, 0, terminal_colours(stdout));
    table_free(t);
}
