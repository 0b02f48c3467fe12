/* eventview: see eventview.h. Reads each key with a fallback: an event of a newer belayd is shown as far as it is understood. */
#include "launcher/eventview.h"

#include "common/jsonx.h"
#include "launcher/format.h"
#include "launcher/table.h"

static const struct table_column columns[] = {
    {"ID", true, true},      {"TIME", false, false}, {"KIND", false, false}, {"JOB", true, false},
    {"ATTEMPT", true, true}, {"RANK", true, true},   {"NODE", false, false}, {"TEXT", false, false},
};
#define COLUMNS (sizeof columns / sizeof *columns)
static const size_t row_widths[COLUMNS] = {6, 14, 14, 4, 3, 4, 7};

static void number(struct table *t, const json_t *event, const char *key, int64_t none)
{
    int64_t n = jsonx_int_or(event, key, none);
    char text[FORMAT_SIZE];
    table_cell(t, COLOUR_NONE, "%s", n == none ? "" : format_step(n, 0, text));
}

static void add_row(struct table *t, const json_t *event)
{
    char text[FORMAT_SIZE];
    number(t, event, "id", 0);
    table_cell(t, COLOUR_DIM, "%s", format_time(jsonx_str_or(event, "time", NULL), text));
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(event, "kind", ""));
    number(t, event, "job", 0);
    number(t, event, "attempt", 0);
    number(t, event, "rank", -1);
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(event, "node", ""));
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(event, "text", ""));
}

void eventview_table(const json_t *events, bool wide)
{
    struct table *t = table_new(columns, COLUMNS, wide);
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        add_row(t, event);
    }
    table_show_whole(t);
}

void eventview_row(FILE *out, const json_t *event)
{
    struct table *t = table_new(columns, COLUMNS, false);
    add_row(t, event);
    table_print_rows(t, out, row_widths, 0, terminal_colours(out));
    table_free(t);
    fflush(out);
}

int64_t eventview_last(const json_t *events, int64_t after)
{
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        int64_t id = jsonx_int_or(event, "id", 0);
        after = id > after ? id : after;
    }
    return after;
}
