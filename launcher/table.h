/* table: rows of cells, printed with columns as wide as their content.
 *
 * Cells are filled one after the other, row by row. They are cleaned for the terminal on the way in. */
#ifndef BELAY_LAUNCHER_TABLE_H
#define BELAY_LAUNCHER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "launcher/terminal.h"

struct table_column {
    const char *title;
    bool right; /* aligned right: numbers */
    bool wide;  /* only shown when wide */
};

struct table;

/* columns must stay valid. wide: show the columns marked wide too. */
struct table *table_new(const struct table_column *columns, size_t n_columns, bool wide);
void table_free(struct table *t);

/* Fills the next cell. An empty text is shown as "-". */
void table_cell(struct table *t, enum colour colour, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints title row and rows. Lines longer than `width` columns are cut and end in "…" (0 = never cut). */
void table_print(const struct table *t, FILE *out, size_t width, bool colours);

/* As above, without titles and with at least the given widths per column (line-by-line output that lines up). */
void table_print_rows(const struct table *t, FILE *out, const size_t *min_widths, size_t width, bool colours);

/* table_print to stdout as its terminal allows, then frees t. */
void table_show(struct table *t);

/* As table_show, but nothing is cut: for tables whose last column is what one reads them for. */
void table_show_whole(struct table *t);

#endif
